import { type RawBuilder, sql } from 'kysely'
import type { Limit } from './list.ts'

/**
 * A window that is counted in a row of another feature, as SQL: its age in seconds and its number of uses.
 * The age is null before the first window.
 */
interface Window {
  age: RawBuilder<unknown>
  uses: RawBuilder<unknown>
}

/** Whether the window has not ended and its limit is used up. */
export function isUsedUp({ max, windowSeconds }: Limit, { age, uses }: Window) {
  return sql`(${uses} >= ${max} and ${isOpen(windowSeconds, age)})`
}

/** Whether the window has not ended. One that starts in the future was started before the clock was put back. */
function isOpen(windowSeconds: number, age: RawBuilder<unknown>) {
  return sql`abs(${age}) < ${windowSeconds}`
}

/** Age and uses of the window to which the next use belongs: zero and zero if the last window has ended. */
export function currentWindow({ windowSeconds }: Limit, { age, uses }: Window): Window {
  const open = isOpen(windowSeconds, age)
  return {
    age: sql`case when ${open} then ${age} else 0 end`,
    uses: sql`case when ${open} then ${uses} else 0 end`,
  }
}

/** Whole seconds until the window ends, at least one and at most its length. */
export function secondsLeft({ windowSeconds }: Limit, age: RawBuilder<unknown>) {
  return sql`greatest(1, least(${windowSeconds}, ceil(${windowSeconds} - ${age})))::int`
}
