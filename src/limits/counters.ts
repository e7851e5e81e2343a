import { createHash } from 'node:crypto'
import { type Batch, createBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import { Problem, statusOf } from '../errors.ts'
import { rateLimited } from './answer.ts'
import type { Count, Use } from './counters-repository.ts'
import * as repository from './counters-repository.ts'
import type { Limit, LimitState } from './list.ts'
import { type Quota, quotasOf, type Subject, tightest } from './subject.ts'

/**
 * Counters in Postgres, so that all instances share them. One statement counts and decides, so parallel
 * requests cannot exceed a limit. Uses that arrive together are counted in one statement: a flood must not
 * occupy all connections while it waits for one row.
 */
export interface Counters {
  /**
   * Consumes one use of a limit; for a network (`byNetwork`), one of each of its counters.
   * @throws Problem rate_limited if the limit is used up; the refused use does not count
   */
  consume(limit: Limit, subject: Subject, now: number): Promise<LimitState>
  /** Gives one use back that was counted in advance and must not count. */
  refund(limit: Limit, subject: Subject, now: number): Promise<void>
  /**
   * Consumes one use for `work`. If `work` fails through our own fault, the use is refunded, since the client
   * is told to try again.
   * @throws Problem rate_limited
   */
  consumeFor<Result>(
    limit: Limit,
    subject: Subject,
    now: number,
    work: (state: LimitState) => Promise<Result>,
  ): Promise<Result>
}

/** For each limit, by its name: its batches of uses and of refunds. */
type Batches = Map<string, { consume: Batch<Use, Count>; refund: Batch<Use, true> }>

export function createCounters(db: Executor): Counters {
  const batches: Batches = new Map()
  const counters: Counters = {
    async consume(limit, subject, now) {
      const states: LimitState[] = []
      const quotas = quotasOf(limit, subject)
      try {
        for (const quota of quotas) states.push(await consumeOne(batches, db, quota, now))
      } catch (error) {
        // A refused use takes nothing, so the counters that had room for it get it back.
        await refundAll(batches, db, quotas.slice(0, states.length), now).catch(() => {})
        throw error
      }
      return tightest(states)
    },
    async refund(limit, subject, now) {
      await refundAll(batches, db, quotasOf(limit, subject), now)
    },
    async consumeFor(limit, subject, now, work) {
      const state = await counters.consume(limit, subject, now)
      try {
        return await work(state)
      } catch (error) {
        const isOurs = !(error instanceof Problem) || statusOf(error.code) >= 500
        // The caller gets the error of `work`, not an error of the refund.
        if (isOurs) await counters.refund(limit, subject, now).catch(() => {})
        throw error
      }
    },
  }
  return counters
}

async function consumeOne(batches: Batches, db: Executor, quota: Quota, now: number): Promise<LimitState> {
  const { limit } = quota
  const { uses, windowEndsAt } = await batchesOf(batches, db, limit).consume({
    counter: counterOf(quota),
    now,
  })
  const state = {
    ...limit,
    remaining: Math.max(0, limit.max - uses),
    resetSeconds: Math.max(1, Math.ceil((windowEndsAt.getTime() - now) / 1000)),
  }
  if (uses > limit.max) throw rateLimited(state)
  return state
}

async function refundAll(batches: Batches, db: Executor, quotas: Quota[], now: number): Promise<void> {
  for (const quota of quotas)
    await batchesOf(batches, db, quota.limit).refund({ counter: counterOf(quota), now })
}

function batchesOf(batches: Batches, db: Executor, limit: Limit) {
  let found = batches.get(limit.name)
  if (!found) {
    found = {
      consume: createBatch({ run: (uses) => repository.countUses(db, limit, uses), maxInFlight: 1 }),
      refund: createBatch({ run: (uses) => repository.refundUses(db, limit, uses), maxInFlight: 1 }),
    }
    batches.set(limit.name, found)
  }
  return found
}

/** The name of a counter. Its values are hashed, so the table contains no e-mail or IP addresses. */
function counterOf({ limit, values }: Quota): string {
  return `${limit.name}:${createHash('sha256').update(JSON.stringify(values)).digest('base64url').slice(0, 22)}`
}
