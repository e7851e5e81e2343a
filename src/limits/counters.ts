import { type Batch, createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import { Problem, statusOf } from '../errors.ts'
import { rateLimited } from './answer.ts'
import type { Count, Use } from './counters-repository.ts'
import * as repository from './counters-repository.ts'
import { type Limit, type LimitState, stateOf } from './list.ts'
import { createRecentRefusals } from './recent-refusals.ts'
import { byNetwork, counterOf, type Quota, quotasOf, type Subject, tightest } from './subject.ts'

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
  /** Gives one use of each counter back that was counted in advance and must not count. */
  refund(quotas: Quota[], now: number): Promise<void>
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

/** The batches of a limit: its uses and its refunds. */
type BatchesOf = (limit: Limit) => { consume: Batch<Use, Count>; refund: Batch<Use, true> }

export function createCounters(db: Executor, measureBatch: MeasureBatch): Counters {
  const batchesOf = keepBatches(db, measureBatch)
  const refusals = createRecentRefusals()
  const counters: Counters = {
    async consume(limit, subject, now) {
      const states: LimitState[] = []
      const quotas = quotasOf(limit, subject)
      const refusal = refusals.find(quotas.slice(1), now)
      if (refusal) throw refusal
      try {
        for (const quota of quotas) states.push(await consumeOne(batchesOf, quota, now))
      } catch (error) {
        const refused = quotas[states.length]
        if (refused && states.length > 0 && error instanceof Problem && error.code === 'rate_limited')
          refusals.note(refused, error, now)
        // A refused use takes nothing, so the counters that had room for it get it back.
        await refundAll(batchesOf, quotas.slice(0, states.length), now).catch(() => {})
        throw error
      }
      return tightest(states)
    },
    async refund(quotas, now) {
      await refundAll(batchesOf, quotas, now)
    },
    async consumeFor(limit, subject, now, work) {
      const state = await counters.consume(limit, subject, now)
      try {
        return await work(state)
      } catch (error) {
        // An error of the refund must not replace the error of `work`.
        if (isOurs(error)) await counters.refund(quotasOf(limit, subject), now).catch(() => {})
        throw error
      }
    },
  }
  return counters
}

/** Whether a request failed by our fault, so that its client is told to try again. */
export function isOurs(error: unknown): boolean {
  return !(error instanceof Problem) || statusOf(error.code) >= 500
}

async function consumeOne(batchesOf: BatchesOf, quota: Quota, now: number): Promise<LimitState> {
  const { limit } = quota
  const { uses, windowEndsAt } = await batchesOf(limit).consume({ counter: counterOf(quota), now })
  const state = stateOf(limit, limit.max - uses, windowEndsAt.getTime(), now)
  if (uses > limit.max) throw rateLimited(state)
  return state
}

async function refundAll(batchesOf: BatchesOf, quotas: Quota[], now: number): Promise<void> {
  for (const quota of quotas) await batchesOf(quota.limit).refund({ counter: counterOf(quota), now })
}

/** A limit's batches are made when it is first used. */
function keepBatches(db: Executor, measureBatch: MeasureBatch): BatchesOf {
  const kept = new Map<string, ReturnType<BatchesOf>>()
  return (limit) => {
    let batches = kept.get(limit.name)
    if (!batches) {
      const consume = measureBatch('limits', (uses: Use[]) => repository.countUses(db, limit, uses))
      const refund = measureBatch('refunds', (uses: Use[]) => repository.refundUses(db, limit, uses))
      batches = {
        consume: createBatch({ run: consume, maxInFlight: 1 }),
        refund: createBatch({ run: refund, maxInFlight: 1 }),
      }
      kept.set(limit.name, batches)
    }
    return batches
  }
}

/** Clears the counters of a limit whose subjects begin with company and e-mail. */
export async function clearCounters(
  db: Executor,
  limit: Limit,
  account: readonly [companyId: string, email: string],
): Promise<void> {
  // Any IPv6 network names both counters of a network.
  for (const { limit: one } of quotasOf(limit, byNetwork('::', ...account)))
    await repository.deleteCountersLike(db, counterOf({ limit: one, values: account }))
}
