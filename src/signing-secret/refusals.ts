import type { Kysely } from 'kysely'
import { LruMap } from 'toad-cache'
import type { Sealer } from '../crypto/sealing.ts'
import type { Database } from '../database/schema.ts'
import type { System } from '../system.ts'
import type { RefusalReason } from './refusal-reasons.ts'
import * as repository from './refusals-repository.ts'
import { contextOf } from './sealed.ts'

/**
 * Tells a company why its requests were refused. What is refused is summed up in memory and written once a second, after
 * the senders were answered: a flood costs little, and no answer's time tells anything.
 */

const FLUSH_MS = 1_000
const MINUTE_MS = 60_000
const KEPT_MS = 7 * 86_400_000
const MAX_LISTED = 1_000
/** Sums in memory. Strangers can name any company, so one network has a share of them. */
const MAX_SUMS = 1_000
const MAX_SUMS_PER_NETWORK = 20

/** How long a secret that was replaced is recognized. */
const FORMER_MS = 86_400_000
/** Bodies that wait to be looked at with the former secret, and how often one is, by company and network. */
const MAX_DIAGNOSES = 8
const DIAGNOSE_EVERY_MS = 5_000
const MAX_DIAGNOSED = 1_000

/** A request that was refused. */
export interface Refusal {
  /** As the request names it. */
  companyId: string
  reason: RefusalReason
  network: string
  ipAddress: string
  webhookId: string | null
  /** How far the clock of the sender is ahead; negative if it is behind. */
  clockSkewSeconds: number | null
  now: number
  /** Whether a former secret signed the request. For a signature that did not hold. */
  isSignedBy(former: { version: number; key: Buffer }): boolean
}

interface Context {
  db: Kysely<Database>
  sealer: Sealer
  system: Pick<System, 'now'>
  /** Called when refusals could not be written; they are lost. */
  onFailure(error: unknown): void
}

export interface RefusalBook {
  note(refusal: Refusal): void
  list(companyId: string, now: number): ReturnType<typeof repository.listRefusals>
  /** Writes what is not written yet. */
  flush(): Promise<void>
}

export function createRefusalBook({ db, sealer, onFailure }: Context): RefusalBook {
  let sums = new Map<string, repository.Refusals>()
  let perNetwork = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()
  let diagnosing = 0
  const diagnosedAt = new LruMap<number>(MAX_DIAGNOSED)

  function add({ companyId, reason, network, ipAddress, webhookId, clockSkewSeconds, now }: Refusal): void {
    const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS
    const key = `${companyId} ${minute} ${reason} ${network}`
    const found = sums.get(key)
    const at = new Date(now)
    if (found) {
      found.count += 1
      Object.assign(found, {
        lastAt: at,
        ipAddress,
        webhookId: webhookId ?? found.webhookId,
        clockSkewSeconds,
      })
      return
    }
    const ofNetwork = perNetwork.get(network) ?? 0
    if (sums.size >= MAX_SUMS || ofNetwork >= MAX_SUMS_PER_NETWORK) return
    perNetwork.set(network, ofNetwork + 1)
    const about = { companyId, reason, network, ipAddress, webhookId, clockSkewSeconds }
    sums.set(key, { ...about, minute: new Date(minute), count: 1, firstAt: at, lastAt: at })
    timer ??= setTimeout(flush, FLUSH_MS).unref()
  }

  /** While a database that is slow or away takes its time, sums go on in the same bounded map. */
  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    await writing
    const items = [...sums.values()]
    if (items.length === 0) return await writing
    sums = new Map()
    perNetwork = new Map()
    writing = db
      .transaction()
      .execute((tx) => repository.addRefusals(tx, items))
      .catch(onFailure)
    await writing
  }

  /** Whether the request was signed with the secret before the current one. */
  async function isFormer({ companyId, now, isSignedBy }: Refusal): Promise<boolean> {
    const former = await repository.findFormerSecret(db, companyId, new Date(now - FORMER_MS))
    if (!former) return false
    const { version, sealedSecret } = former
    return isSignedBy({ version, key: sealer.open(sealedSecret, contextOf(companyId, version)) })
  }

  function isDue({ companyId, network, now }: Refusal): boolean {
    const key = `${companyId} ${network}`
    if (diagnosing >= MAX_DIAGNOSES || now - (diagnosedAt.get(key) ?? 0) < DIAGNOSE_EVERY_MS) return false
    diagnosedAt.set(key, now)
    return true
  }

  return {
    note(refusal) {
      if (refusal.reason !== 'signature_mismatch' || !isDue(refusal)) return add(refusal)
      diagnosing += 1
      void isFormer(refusal)
        // Not known is not told: the secret's master key is gone, or the database is away.
        .catch(() => false)
        .then((isIt) => add(isIt ? { ...refusal, reason: 'previous_secret' } : refusal))
        .finally(() => {
          diagnosing -= 1
        })
    },
    list: (companyId, now) =>
      repository.listRefusals(db, companyId, { since: new Date(now - KEPT_MS), max: MAX_LISTED }),
    flush,
  }
}
