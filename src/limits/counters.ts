import { createHash } from 'node:crypto'
import { type Batch, createBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import { Problem, statusOf } from '../errors.ts'
import { rateLimited } from './answer.ts'
import type { Count, Use } from './counters-repository.ts'
import * as repository from './counters-repository.ts'
import type { Limit, LimitState } from './list.ts'

/**
 * Counters that guard credentials. They live in Postgres so that they hold across instances. One statement
 * counts and decides, so parallel requests cannot beat the count. Uses that arrive together are counted
 * together: a flood must not occupy all connections while it waits for one row.
 */
export interface Counters {
  /**
   * Uses up one of a limit.
   * @throws Problem rate_limited if the window has all its uses already; then nothing more is counted
   */
  consume(limit: Limit, subject: readonly string[], now: number): Promise<LimitState>
  /** Takes one use back: what was counted in advance was none after all. */
  refund(limit: Limit, subject: readonly string[], now: number): Promise<void>
  /**
   * Uses up one for what `work` is about to do. If that fails through our own fault, the use is taken back,
   * since the client is told to try again.
   * @throws Problem rate_limited
   */
  consumeFor<Result>(
    limit: Limit,
    subject: readonly string[],
    now: number,
    work: (state: LimitState) => Promise<Result>,
  ): Promise<Result>
}

/** By the name of a limit: its batches of uses and of refunds. */
type Batches = Map<string, Record<'consume' | 'refund', Batch<Use, Count>>>

export function createCounters(db: Executor): Counters {
  const batches: Batches = new Map()
  const counters: Counters = {
    async consume(limit, subject, now) {
      const use = { counter: counterOf(limit, subject), now }
      const { uses, windowEndsAt } = await batchesOf(batches, db, limit).consume(use)
      const state = {
        ...limit,
        remaining: Math.max(0, limit.max - uses),
        resetSeconds: Math.max(1, Math.ceil((windowEndsAt.getTime() - now) / 1000)),
      }
      if (uses > limit.max) throw rateLimited(state)
      return state
    },
    async refund(limit, subject, now) {
      await batchesOf(batches, db, limit).refund({ counter: counterOf(limit, subject), now })
    },
    async consumeFor(limit, subject, now, work) {
      const state = await counters.consume(limit, subject, now)
      try {
        return await work(state)
      } catch (error) {
        const isOurs = !(error instanceof Problem) || statusOf(error.code) >= 500
        // The first failure is told, not one of the refund.
        if (isOurs) await counters.refund(limit, subject, now).catch(() => {})
        throw error
      }
    },
  }
  return counters
}

function batchesOf(batches: Batches, db: Executor, limit: Limit) {
  let found = batches.get(limit.name)
  if (!found) {
    const batchOf = (sign: 1 | -1) =>
      createBatch({ run: (uses: Use[]) => repository.countUses(db, limit, uses, sign), maxInFlight: 1 })
    found = { consume: batchOf(1), refund: batchOf(-1) }
    batches.set(limit.name, found)
  }
  return found
}

/** The counter of a limit and of what it counts by. Digested, so that the table holds no addresses. */
function counterOf(limit: Limit, subject: readonly string[]): string {
  return `${limit.name}:${createHash('sha256').update(JSON.stringify(subject)).digest('base64url').slice(0, 22)}`
}
