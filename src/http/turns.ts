import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { overloaded, type Problem } from '../errors.ts'
import { createTurnQueue, type Turn } from '../limits/turn-queue.ts'
import type { Holding } from './body-budget.ts'
import type { KnownNetworks } from './known-networks.ts'
import { toProblem } from './to-problem.ts'

/**
 * Shares the event loop between networks. In one turn of the loop, requests are begun for a millisecond; the
 * others wait, and the networks take turns. So a flood from one network does not delay the requests of others,
 * nor the database replies that they wait for. A flood from many networks has half of the turns at most, while
 * networks wait from which a credential held not long ago.
 */

/** How long requests are begun in a turn of the event loop. */
const BEGIN_MS = 1
/**
 * A turn takes longer if more is going on than the loop can do, and all replies come later for it. Then the next turn
 * begins half as many requests of strangers, but one at least; after a shorter turn, one more.
 */
const LONG_TURN_MS = 4
const MAX_STRANGERS_PER_TURN = 64
/** Requests that can wait. They wait for milliseconds, unless they are a flood. */
const MAX_WAITING = 2_000
const MAX_WAITING_PER_WIDER_NETWORK = 1_000

interface Entry {
  begin(): void
  /** Called in place of `begin` if too many wait. */
  refuse(reason: Problem): void
}

interface Waiting {
  entry: Entry
  isKnown: boolean
}

export interface Turns {
  /** Begins the request at once, or when it is its network's turn. */
  enter(turn: Turn, entry: Entry): void
}

export function createTurns(): Turns {
  const waiting = createTurnQueue<Waiting>({
    max: MAX_WAITING,
    maxPerWiderNetwork: MAX_WAITING_PER_WIDER_NETWORK,
  })
  const reason = overloaded()
  /** When the present turn began, from its first request to the next turn; undefined when no request has come. */
  let beganAt: number | undefined
  let strangersPerTurn = MAX_STRANGERS_PER_TURN
  let strangersLeft = strangersPerTurn

  function startTurn(): void {
    beganAt = performance.now()
    strangersLeft = strangersPerTurn
    setImmediate(endTurn)
  }

  function endTurn(): void {
    const tookMs = performance.now() - (beganAt ?? 0)
    strangersPerTurn =
      tookMs > LONG_TURN_MS
        ? Math.max(1, Math.floor(strangersPerTurn / 2))
        : Math.min(MAX_STRANGERS_PER_TURN, strangersPerTurn + 1)
    beganAt = undefined
    if (waiting.size === 0) return
    startTurn()
    beginNext()
  }

  /** Begins what waits, one by one, while requests can begin in this turn. */
  function beginNext(): void {
    if (!canBegin()) return
    const next = strangersLeft > 0 ? waiting.take() : waiting.takeKnown()
    if (next) begin(next)
  }

  function canBegin(): boolean {
    return beganAt !== undefined && performance.now() < beganAt + BEGIN_MS
  }

  function begin({ entry, isKnown }: Waiting): void {
    if (!isKnown) strangersLeft -= 1
    entry.begin()
    // After the promises that the request has resolved: their work counts too.
    queueMicrotask(() => process.nextTick(beginNext))
  }

  return {
    enter(turn, entry) {
      if (beganAt === undefined) startTurn()
      const { isKnown } = turn
      const isNext = waiting.size === 0 && (isKnown || strangersLeft > 0)
      if (isNext && canBegin()) begin({ entry, isKnown })
      else waiting.add(turn, { entry, isKnown })?.entry.refuse(reason)
    },
  }
}

/** How long requests waited, of those that did. */
const waits = new WeakMap<IncomingMessage, number>()

/** Milliseconds that a request waited for its turn. */
export function waitOf(message: IncomingMessage): number {
  return waits.get(message) ?? 0
}

interface Options {
  networkOf(message: IncomingMessage): string
  knownNetworks: Pick<KnownNetworks, 'has'>
  /** Accounts for the part of the body that is read while the request waits. @throws Problem overloaded */
  hold(message: IncomingMessage, network: string): Pick<Holding, 'release'>
  refuse(message: IncomingMessage, response: ServerResponse, reason: Problem): void
}

/** Passes requests on when it is their turn, before any other work is done for them. */
export function inTurns(
  handle: RequestListener,
  { networkOf, knownNetworks, hold, refuse }: Options,
): RequestListener {
  const turns = createTurns()
  return (message, response) => {
    const network = networkOf(message)
    const cameAt = performance.now()
    let held: Pick<Holding, 'release'>
    try {
      held = hold(message, network)
    } catch (error) {
      refuse(message, response, toProblem(error))
      return
    }
    turns.enter(
      { network, isKnown: knownNetworks.has(network) },
      {
        begin() {
          held.release()
          // Nobody is left to answer if the connection was closed meanwhile.
          if (message.socket.destroyed) return
          waits.set(message, performance.now() - cameAt)
          handle(message, response)
        },
        refuse(reason) {
          held.release()
          refuse(message, response, reason)
        },
      },
    )
  }
}
