import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { overloaded, type Problem } from '../errors.ts'
import type { BodyBudget } from './body-budget.ts'
import { createTurnQueue, type Turn } from './fair-queue.ts'
import type { ProvenNetworks } from './proven-networks.ts'
import { holdUnasked } from './read-body.ts'

/** Shares the event loop between networks: see `listener.ts`. */

const BEGIN_MS = 1
/** After a turn longer than this, the next one begins half as many requests of strangers; after a shorter one, one more. */
const LONG_TURN_MS = 4
const MAX_STRANGERS_PER_TURN = 64
const MAX_WAITING = 2_000
const MAX_WAITING_PER_WIDER_NETWORK = 1_000

interface Entry {
  /** Returns false if there is nothing left to begin. */
  begin(): boolean
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
  /** Undefined when no request has come since the last turn. */
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

  function beginNext(): void {
    while (canBegin()) {
      const next = strangersLeft > 0 ? waiting.take() : waiting.takeKnown()
      if (!next || begin(next)) return
    }
  }

  function canBegin(): boolean {
    return beganAt !== undefined && performance.now() < beganAt + BEGIN_MS
  }

  function begin({ entry, isKnown }: Waiting): boolean {
    if (!entry.begin()) return false
    if (!isKnown) strangersLeft -= 1
    // After the promises that the request has resolved: their work counts too.
    queueMicrotask(() => process.nextTick(beginNext))
    return true
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

const waits = new WeakMap<IncomingMessage, number>()

/** Milliseconds that a request waited for its turn. */
export function waitOf(message: IncomingMessage): number {
  return waits.get(message) ?? 0
}

export type Shed = 'turn' | 'body'

interface Options {
  networkOf(message: IncomingMessage): string
  provenNetworks: Pick<ProvenNetworks, 'has'>
  budget: BodyBudget
  refuse(request: ShedRequest): void
}

export interface ShedRequest {
  message: IncomingMessage
  response: ServerResponse
  problem: Problem
  shed: Shed
  isProven: boolean
}

/** Passes requests on when it is their turn, before any other work is done for them. */
export function inTurns(
  handle: RequestListener,
  { networkOf, provenNetworks, budget, refuse }: Options,
): RequestListener {
  const turns = createTurns()
  let arrivals = 0
  /** By connection, the request that was refused. The connection is closed, so what came later is not begun. */
  const refusedOn = new WeakMap<Socket, number>()

  return (message, response) => {
    const { socket } = message
    if (refusedOn.has(socket)) return
    const network = networkOf(message)
    const cameAt = performance.now()
    arrivals += 1
    const arrival = arrivals
    const isProven = provenNetworks.has(network)
    let isRefused = false

    function stop(problem: Problem, shed: Shed): void {
      isRefused = true
      refusedOn.set(socket, Math.min(arrival, refusedOn.get(socket) ?? arrival))
      if (!socket.destroyed) refuse({ message, response, problem, shed, isProven })
    }

    const held = holdUnasked(message, response, { network, budget, drop: (reason) => stop(reason, 'body') })
    if (isRefused) return
    turns.enter(
      { network, isKnown: isProven },
      {
        begin() {
          held?.release()
          // Nobody is left to answer if the connection was closed meanwhile.
          if (isRefused || socket.destroyed || arrival > (refusedOn.get(socket) ?? arrival)) return false
          waits.set(message, performance.now() - cameAt)
          handle(message, response)
          return true
        },
        refuse(reason) {
          held?.release()
          if (!isRefused) stop(reason, 'turn')
        },
      },
    )
  }
}
