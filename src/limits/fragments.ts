import { type RawBuilder, sql } from 'kysely'
import type { Limit } from './list.ts'

/**
 * A window that is counted in a row of its own feature, as SQL: when it began, told as its age in seconds, and
 * how many uses it has. An age of null means that none has begun.
 */
interface Window {
  age: RawBuilder<unknown>
  uses: RawBuilder<unknown>
}

/** Whether the window goes on and has all its uses. */
export function isUsedUp({ max, windowSeconds }: Limit, { age, uses }: Window) {
  return sql`(${uses} >= ${max} and ${age} < ${windowSeconds})`
}

/** The age and the uses of the window to which the next use belongs: a new one where the old one has passed. */
export function currentWindow({ windowSeconds }: Limit, { age, uses }: Window): Window {
  return {
    age: sql`case when ${age} < ${windowSeconds} then ${age} else 0 end`,
    uses: sql`case when ${age} < ${windowSeconds} then ${uses} else 0 end`,
  }
}

/** Whole seconds until the window ends, at least one. */
export function secondsLeft({ windowSeconds }: Limit, age: RawBuilder<unknown>) {
  return sql`greatest(1, ceil(${windowSeconds} - ${age}))::int`
}
