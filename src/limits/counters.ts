import { type Batch, type BatchOptions, createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import { Problem, statusOf } from '../errors.ts'
import { rateLimited } from './answer.ts'
import type { Count, Refund, Use } from './counters-repository.ts'
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
  /** Consumes one use of each counter in turn, until one is used up. */
  consumeInTurn(quotas: Quota[], now: number): Promise<Consumed>
  /** Gives one use of each counter back that was counted in advance and must not count. */
  refund(quotas: Quota[]): Promise<void>
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

export interface Consumed {
  /** The states of the counters that had a use left. */
  states: LimitState[]
  /** The state of the one that had none; undefined if all had one. */
  usedUp: LimitState | undefined
}

/** The batches of limits that are counted in turn, and of the refunds of one. */
interface Batches {
  uses(limits: Limit[]): Batch<Use, Count[]>
  refunds(limit: Limit): Batch<Refund, true>
}

export function createCounters(db: Executor, measureBatch: MeasureBatch): Counters {
  const batches = keepBatches(db, measureBatch)
  const refusals = createRecentRefusals()
  const counters: Counters = {
    async consume(limit, subject, now) {
      const quotas = quotasOf(limit, subject)
      const recent = refusals.find(quotas.slice(1), now)
      if (recent) throw recent
      const { states, usedUp } = await counters.consumeInTurn(quotas, now)
      if (!usedUp) return tightest(states)
      const refusal = rateLimited(usedUp)
      const quota = quotas[states.length]
      if (quota && states.length > 0) refusals.note(quota, refusal, now)
      // A refused use takes nothing, so the counters that had room for it get it back.
      await counters.refund(quotas.slice(0, states.length)).catch(() => {})
      throw refusal
    },
    async consumeInTurn(quotas, now) {
      const batch = batches.uses(quotas.map(({ limit }) => limit))
      const counts = await batch({ counters: quotas.map(counterOf), now })
      const reached = quotas.flatMap(({ limit }, index) => {
        const { uses, windowEndsAt } = counts[index] ?? {}
        if (uses === undefined || !windowEndsAt) return []
        const state = stateOf(limit, limit.max - uses, windowEndsAt.getTime(), now)
        return [{ state, isUsedUp: uses > limit.max }]
      })
      return {
        states: reached.filter(({ isUsedUp }) => !isUsedUp).map(({ state }) => state),
        usedUp: reached.find(({ isUsedUp }) => isUsedUp)?.state,
      }
    },
    async refund(quotas) {
      for (const quota of quotas) await batches.refunds(quota.limit)({ counter: counterOf(quota) })
    },
    async consumeFor(limit, subject, now, work) {
      const state = await counters.consume(limit, subject, now)
      try {
        return await work(state)
      } catch (error) {
        // An error of the refund must not replace the error of `work`.
        if (isOurs(error)) await counters.refund(quotasOf(limit, subject)).catch(() => {})
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

/** A batch is made when it is first used. */
function keepBatches(db: Executor, measureBatch: MeasureBatch): Batches {
  const uses = new Map<string, Batch<Use, Count[]>>()
  const refunds = new Map<string, Batch<Refund, true>>()
  return {
    uses: (limits) =>
      kept(uses, limits.map(({ name }) => name).join(' '), () => ({
        run: measureBatch('limits', (items) => repository.countUses(db, limits, items)),
        maxInFlight: 1,
      })),
    refunds: (limit) =>
      kept(refunds, limit.name, () => ({
        run: measureBatch('refunds', (items) => repository.refundUses(db, limit, items)),
        maxInFlight: 1,
      })),
  }
}

function kept<Item, Outcome>(
  batches: Map<string, Batch<Item, Outcome>>,
  name: string,
  options: () => BatchOptions<Item, Outcome>,
): Batch<Item, Outcome> {
  const batch = batches.get(name) ?? createBatch(options())
  batches.set(name, batch)
  return batch
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
