import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { overloaded, type Problem } from '../errors.ts'
import { networkOf } from '../limits/client.ts'
import { createFairQueue } from '../limits/fair-queue.ts'

/**
 * Shares the event loop between networks. In one turn of the loop, requests are begun for a millisecond; the
 * others wait, and the networks take turns. So a flood from one network does not delay the requests of others,
 * nor the database replies that they wait for.
 */

const TURN_MS = 1
/** Requests that can wait. They wait for milliseconds, unless they are a flood. */
const MAX_WAITING = 10_000
const MAX_WAITING_PER_WIDER_NETWORK = 1_000

interface Entry {
  begin(): void
  /** Called in place of `begin` if too many wait. */
  refuse(reason: Problem): void
}

export interface Turns {
  /** Begins the request at once, or when it is its network's turn. */
  enter(network: string, entry: Entry): void
}

export function createTurns(): Turns {
  const waiting = createFairQueue<Entry>({
    max: MAX_WAITING,
    maxPerWiderNetwork: MAX_WAITING_PER_WIDER_NETWORK,
  })
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
    const next = waiting.take()
    if (!next) return
    endsAt ??= startTurn()
    next.begin()
    // After the promises that the request has resolved: their work counts too.
    queueMicrotask(() => process.nextTick(beginNextInTurn))
  }

  function beginNextInTurn(): void {
    if (endsAt !== undefined && performance.now() < endsAt) beginNext()
  }

  return {
    enter(network, entry) {
      endsAt ??= startTurn()
      if (waiting.size === 0 && performance.now() < endsAt) entry.begin()
      else waiting.add({ network }, entry)?.refuse(overloaded())
    },
  }
}

async function plugin(app: FastifyInstance): Promise<void> {
  const turns = createTurns()
  app.addHook('onRequest', (request, _reply, done) => {
    const { socket } = request.raw
    turns.enter(networkOf(request), {
      begin() {
        // Nobody is left to answer if the connection was closed meanwhile.
        if (!socket.destroyed) done()
      },
      refuse: done,
    })
  })
}

export const turnsPlugin = fp(plugin, { name: 'turns', dependencies: ['headers'] })
