import { LruMap } from 'toad-cache'

/** Counts of uses in fixed windows, in memory. They are those of one process, or of all workers of a machine. */

/** Counters of one limit at a time. Beyond that, the one that was used least recently is forgotten. */
const MAX_COUNTED = 50_000

/** A counter: the limit's name, the values that it is about, how many uses it has, and for how long. */
export interface Counter {
  name: string
  values: readonly string[]
  max: number
  windowSeconds: number
}

export interface Grant {
  granted: number
  /** How many uses are left in the window. */
  left: number
  /** When the window ends, by `System.now`. */
  endsAt: number
}

interface Window {
  uses: number
  endsAt: number
}

export interface Windows {
  /** Counts up to `count` uses: as many as are left. */
  take(counter: Counter, count: number, now: number): Grant
  /** Gives back a use that must not count. */
  giveBack(counter: Counter, now: number): void
}

export function createWindows(): Windows {
  const limits = new Map<string, LruMap<Window>>()

  function windowOf({ name, values, windowSeconds }: Counter, now: number): Window {
    const windows = limits.get(name) ?? new LruMap<Window>(MAX_COUNTED)
    limits.set(name, windows)
    const key = JSON.stringify(values)
    const found = windows.get(key)
    const lengthMs = windowSeconds * 1000
    if (found && now < found.endsAt) {
      // A window that ends later than a new one was started before the clock was put back.
      found.endsAt = Math.min(found.endsAt, now + lengthMs)
      return found
    }
    const started = { uses: 0, endsAt: now + lengthMs }
    windows.set(key, started)
    return started
  }

  return {
    take(counter, count, now) {
      const window = windowOf(counter, now)
      const granted = Math.max(0, Math.min(count, counter.max - window.uses))
      window.uses += granted
      return { granted, left: Math.max(0, counter.max - window.uses), endsAt: window.endsAt }
    },
    giveBack(counter, now) {
      const window = windowOf(counter, now)
      window.uses = Math.max(0, window.uses - 1)
    },
  }
}
