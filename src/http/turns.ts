import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { overloaded } from '../errors.ts'
import { networkOf, widerNetworkOf } from '../limits/client.ts'

/**
 * Shares the event loop between networks. In one turn of the loop, requests are begun for a millisecond;
 * the others wait, and the networks take turns. So a flood from one network does not delay the requests of
 * others, nor the database replies that they wait for.
 */

const TURN_MS = 1
/** Requests of one network that can wait. They wait for milliseconds, unless they are a flood. */
const MAX_WAITING = 1_000

type Begin = () => void

export interface Turns {
  /**
   * Calls `begin` at once, or when it is this network's turn.
   * @throws Problem overloaded if too many requests of the network wait
   */
  enter(network: string, begin: Begin): void
}

export function createTurns(): Turns {
  /** What waits, by network. The network whose turn is next comes first. */
  const waiting = new Map<string, Begin[]>()
  /** When the present turn of the event loop ends for requests that begin; undefined before its first one. */
  let endsAt: number | undefined

  function startTurn(): number {
    setImmediate(nextTurn)
    return performance.now() + TURN_MS
  }

  function nextTurn(): void {
    endsAt = undefined
    beginNext()
  }

  /** Begins what waits, one by one, until the turn is over. */
  function beginNext(): void {
    const next = takeNext()
    if (!next) return
    endsAt ??= startTurn()
    next()
    // After the promises that the request has resolved: their work counts too.
    if (performance.now() < endsAt) queueMicrotask(() => process.nextTick(beginNextInTurn))
  }

  function beginNextInTurn(): void {
    if (endsAt !== undefined && performance.now() < endsAt) beginNext()
  }

  function takeNext(): Begin | undefined {
    for (const [network, queue] of waiting) {
      const next = queue.shift()
      waiting.delete(network)
      if (queue.length > 0) waiting.set(network, queue)
      return next
    }
    return undefined
  }

  return {
    enter(network, begin) {
      endsAt ??= startTurn()
      if (waiting.size === 0 && performance.now() < endsAt) return begin()
      const queue = waiting.get(network)
      if (!queue) waiting.set(network, [begin])
      else if (queue.length < MAX_WAITING) queue.push(begin)
      else throw overloaded('Too many requests of your network at once; try again in a moment.')
    },
  }
}

async function plugin(app: FastifyInstance): Promise<void> {
  const turns = createTurns()
  app.addHook('onRequest', (request, _reply, done) => {
    const { socket } = request.raw
    try {
      turns.enter(widerNetworkOf(networkOf(request)), () => {
        // Nobody is left to answer if the connection was closed meanwhile.
        if (!socket.destroyed) done()
      })
    } catch (error) {
      done(error instanceof Error ? error : undefined)
    }
  })
}

export const turnsPlugin = fp(plugin, { name: 'turns', dependencies: ['headers'] })
