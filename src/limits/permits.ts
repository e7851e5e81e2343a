import { LruMap } from 'toad-cache'
import type { Counter, Grant, Windows } from './windows.ts'

/**
 * Uses of the limits that are counted in memory. A process that is alone counts by itself. Workers of one machine
 * take permits from the primary in blocks, so that a limit holds for the machine and few uses wait for an answer.
 */

export interface Taken {
  isGranted: boolean
  /** How many uses are left in the window. */
  left: number
  endsAt: number
}

export interface Permits {
  /** The end of the window of a counter that is used up, as far as is known here without asking. */
  usedUpUntil(counter: Counter, now: number): number | undefined
  take(counter: Counter, now: number): Taken | Promise<Taken>
  /** Gives back a use that must not count. */
  giveBack(counter: Counter, now: number): void
}

/** The permits of a process that is alone. */
export function createOwnPermits(windows: Windows): Permits {
  return {
    usedUpUntil(counter, now) {
      const { left, endsAt } = windows.take(counter, 0, now)
      return left === 0 ? endsAt : undefined
    },
    take(counter, now) {
      const { granted, left, endsAt } = windows.take(counter, 1, now)
      return { isGranted: granted === 1, left, endsAt }
    },
    giveBack: windows.giveBack,
  }
}

/** What a worker asks of the primary. */
export interface Ask {
  counter: Counter
  count: number
}

/** A tenth of a limit can be held unused by all workers together, so that one of them can use the whole limit. */
const HELD_SHARE = 0.1
/** Counters of one limit of which permits are held. Beyond that, those of the one used least recently are lost. */
const MAX_HELD = 50_000

/** How many permits a worker takes at once. */
export function blockOf(max: number, workers: number): number {
  return Math.max(1, Math.floor((max * HELD_SHARE) / workers))
}

/** The primary's side: grants what workers ask for. What others can hold unused does not count against a limit. */
export function grantTo(workers: number, windows: Windows, asks: Ask[], now: number): Grant[] {
  return asks.map(({ counter, count }) => {
    const spare = workers * (blockOf(counter.max, workers) - 1)
    const grant = windows.take({ ...counter, max: counter.max + spare }, count, now)
    return { ...grant, left: Math.max(0, grant.left - spare) }
  })
}

interface Held {
  /** Permits that were granted and not used. */
  unused: number
  endsAt: number
  /** How many are left for all workers, as was told last. */
  left: number
  isUsedUp: boolean
  waiting: ((taken: Taken) => void)[]
}

interface WorkerOptions {
  workers: number
  /** Asks the primary. */
  ask(asks: Ask[]): Promise<Grant[]>
}

/** The permits of a worker. */
export function createWorkerPermits({ workers, ask }: WorkerOptions): Permits {
  const limits = new Map<string, LruMap<Held>>()
  let asking: { ask: Ask; held: Held }[] = []

  function heldOf({ name, values, windowSeconds }: Counter, now: number): Held {
    const held = limits.get(name) ?? new LruMap<Held>(MAX_HELD)
    limits.set(name, held)
    const key = JSON.stringify(values)
    const found = held.get(key)
    const latestEnd = now + windowSeconds * 1000
    if (found && (now < found.endsAt || found.waiting.length > 0)) {
      // As in windows.ts: the clock was put back.
      found.endsAt = Math.min(found.endsAt, latestEnd)
      return found
    }
    const fresh: Held = { unused: 0, endsAt: latestEnd, left: 0, isUsedUp: false, waiting: [] }
    held.set(key, fresh)
    return fresh
  }

  /** Asks with all that is asked for in this turn of the event loop. */
  function askFor(counter: Counter, held: Held): void {
    if (asking.length === 0) setImmediate(sendAsks)
    asking.push({ ask: { counter, count: 0 }, held })
  }

  async function sendAsks(): Promise<void> {
    const sent = asking
    asking = []
    for (const { ask, held } of sent)
      ask.count = Math.max(blockOf(ask.counter.max, workers), held.waiting.length)
    const grants = await ask(sent.map(({ ask }) => ask))
    sent.forEach(({ ask, held }, n) => {
      const grant = grants[n]
      if (grant) receive(ask, held, grant)
    })
  }

  function receive({ counter, count }: Ask, held: Held, { granted, left, endsAt }: Grant): void {
    held.unused += granted
    held.left = left
    held.endsAt = endsAt
    held.isUsedUp = granted < count
    for (const taken of held.waiting.splice(0, held.unused)) {
      held.unused -= 1
      taken(grantedOf(held))
    }
    if (held.waiting.length === 0) return
    if (held.isUsedUp) for (const taken of held.waiting.splice(0)) taken(refusedOf(held))
    // These came while the answer was on its way.
    else askFor(counter, held)
  }

  return {
    usedUpUntil(counter, now) {
      const { unused, isUsedUp, endsAt } = heldOf(counter, now)
      return isUsedUp && unused === 0 ? endsAt : undefined
    },
    take(counter, now) {
      const held = heldOf(counter, now)
      if (held.unused > 0) {
        held.unused -= 1
        return grantedOf(held)
      }
      if (held.isUsedUp) return refusedOf(held)
      if (held.waiting.length === 0) askFor(counter, held)
      return new Promise((taken) => held.waiting.push(taken))
    },
    giveBack(counter, now) {
      heldOf(counter, now).unused += 1
    },
  }
}

function grantedOf({ unused, left, endsAt }: Held): Taken {
  return { isGranted: true, left: left + unused, endsAt }
}

function refusedOf({ endsAt }: Held): Taken {
  return { isGranted: false, left: 0, endsAt }
}
