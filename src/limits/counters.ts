import { LruMap } from 'toad-cache'
import type { Limit } from '../config/limits.ts'
import { type Batch, type BatchOptions, createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import { isOutage } from '../database/faults.ts'
import { type LimitState, Problem, rateLimited, statusOf } from '../errors.ts'
import { byNetwork, type Client, counterOf, type Quota, quotasOf, type Subject, tightest } from './client.ts'
import type { Count, Use as CountedUse, Refund } from './counters-repository.ts'
import * as repository from './counters-repository.ts'

/** With a client, its response reports the limit. `now` is in milliseconds. */
interface Use {
  client?: Pick<Client, 'noteLimit'>
  now: number
}

/** Counters in Postgres, for all instances. One statement counts and decides, so parallel requests cannot exceed a limit. */
export type Counters = ReturnType<typeof createCounters>

/** Uses that arrive together share a statement: a flood that waits for one row must not occupy all connections. */
function createBatches<Counted, Item, Outcome>(
  nameOf: (counted: Counted) => string,
  optionsOf: (counted: Counted) => BatchOptions<Item, Outcome>,
) {
  const batches = new Map<string, Batch<Item, Outcome>>()
  return (counted: Counted): Batch<Item, Outcome> => {
    const name = nameOf(counted)
    const batch = batches.get(name) ?? createBatch(optionsOf(counted))
    batches.set(name, batch)
    return batch
  }
}

export function createCounters(db: Executor, measureBatch: MeasureBatch) {
  const uses = createBatches<Limit[], CountedUse, Count[]>(
    (limits) => limits.map(({ name }) => name).join(' '),
    (limits) => ({
      run: measureBatch('limits', (items) => repository.countUses(db, limits, items)),
      maxInFlight: 1,
    }),
  )
  const refunds = createBatches<Limit, Refund, true>(
    ({ name }) => name,
    (limit) => ({
      run: measureBatch('refunds', (items) => repository.refundUses(db, limit, items)),
      maxInFlight: 1,
    }),
  )
  const usedUpMemory = createUsedUpMemory()

  /** Consumes quotas in order, until one is exceeded. */
  async function consumeInOrder(quotas: Quota[], now: number) {
    const counts = await uses(quotas.map(({ limit }) => limit))({ counters: quotas.map(counterOf), now })
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
  }

  /** Never fails, because the response is decided. Does not wait after an outage: the request has already waited. */
  async function refund(quotas: Quota[], error?: unknown): Promise<void> {
    const refunding = refundInTurn(quotas).catch(() => {})
    if (!isOutage(error)) await refunding
  }

  /** Before more work, which would also wait for the database. @throws on an outage */
  async function refundFirst(quotas: Quota[]): Promise<void> {
    await refundInTurn(quotas).catch((error: unknown) => {
      if (isOutage(error)) throw error
    })
  }

  async function refundInTurn(quotas: Quota[]): Promise<void> {
    for (const quota of quotas) await refunds(quota.limit)({ counter: counterOf(quota) })
  }

  /** A refused use does not count. @throws Problem rate_limited */
  async function consume(limit: Limit, subject: Subject, { client, now }: Use): Promise<LimitState> {
    const quotas = quotasOf(limit, subject)
    const remembered = usedUpMemory.find(quotas.slice(1), now)
    if (remembered) throw remembered
    const { states, usedUp } = await consumeInOrder(quotas, now)
    if (!usedUp) {
      const state = tightest(states)
      client?.noteLimit(state)
      return state
    }
    const refusal = rateLimited(usedUp)
    const quota = quotas[states.length]
    if (quota && states.length > 0) usedUpMemory.note(quota, refusal, now)
    await refund(quotas.slice(0, states.length))
    throw refusal
  }

  /** Refunds the use if `work` fails through our fault. @throws Problem rate_limited */
  async function consumeFor<Result>(
    limit: Limit,
    subject: Subject,
    received: Use,
    work: () => Promise<Result>,
  ): Promise<Result> {
    await consume(limit, subject, received)
    try {
      return await work()
    } catch (error) {
      if (isOurs(error)) {
        received.client?.noteLimit(null)
        await refund(quotasOf(limit, subject), error)
      }
      throw error
    }
  }

  return { consume, consumeInOrder, consumeFor, refund, refundFirst, usedUpMemory }
}

export function isOurs(error: unknown): boolean {
  return !(error instanceof Problem) || statusOf(error.code) >= 500
}

export async function clearCounters(
  db: Executor,
  limit: Limit,
  account: readonly [companyId: string, email: string],
): Promise<void> {
  // Any IPv6 network names both counters of a network.
  for (const { limit: one } of quotasOf(limit, byNetwork('::', ...account)))
    await repository.deleteCountersLike(db, counterOf({ limit: one, values: account }))
}

/** `left` is below 0 if a use was refused. `endsAt` is in milliseconds. */
function stateOf(limit: Limit, left: number, endsAt: number, now: number): LimitState {
  const secondsLeft = Math.ceil((endsAt - now) / 1000)
  return {
    ...limit,
    remaining: Math.max(0, Math.min(limit.max, left)),
    // An instance with a fast clock may have started the window.
    resetSeconds: Math.max(1, Math.min(limit.windowSeconds, secondsLeft)),
  }
}

/** Not longer, because a use can be refunded. */
const REMEMBERED_MS = 1_000
const MAX_REMEMBERED = 10_000

/** In a flood, this avoids statements, and rows for the 65,536 networks of an IPv6 /48. */
function createUsedUpMemory() {
  const usedUp = new LruMap<{ at: number; refusal: Problem }>(MAX_REMEMBERED)
  return {
    find(quotas: Quota[], now: number): Problem | undefined {
      for (const quota of quotas) {
        const last = usedUp.get(counterOf(quota))
        if (last && Math.abs(now - last.at) < REMEMBERED_MS) return last.refusal
      }
      return undefined
    },
    note: (quota: Quota, refusal: Problem, now: number) => usedUp.set(counterOf(quota), { at: now, refusal }),
  }
}
