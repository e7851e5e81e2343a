import type { Kysely } from 'kysely'
import { LruMap } from 'toad-cache'
import type { Sealer } from '../crypto/sealing.ts'
import type { Database } from '../database/schema.ts'
import type { Context } from '../http/context.ts'
import * as repository from './refusals-repository.ts'
import { contextOf, type SigningSecret } from './service.ts'

/**
 * Records for a company why its requests were refused. Refusals are summed in memory and written once a second, after the
 * responses: a flood costs little, and timing reveals nothing.
 */

const FLUSH_MS = 1_000
const MINUTE_MS = 60_000
/** Strangers can name any company, so they get half of the sums, and each source gets a share. */
const MAX_SUMS = 1_000
const MAX_SUMS_OF_STRANGERS = MAX_SUMS / 2
const MAX_SUMS_PER_SOURCE = 20

/** How long a replaced secret is recognized. */
const FORMER_MS = 86_400_000
const REMEMBERED_MS = 5_000
const MAX_REMEMBERED = 1_000
const MAX_READS = 8
/** Bytes per second that are compared with previous secrets: a few percent of a core. */
const MAX_COMPARED_BYTES = 8 * 2 ** 20

/** `companyId` is only what the request claims. */
export interface Refusal extends Omit<repository.Refusals, 'minute' | 'count' | 'firstAt' | 'lastAt'> {
  now: number
  bytes: number
  isSignedBy(former: SigningSecret): boolean
}

export type RefusalBook = ReturnType<typeof createRefusalBook>

/** Refusals that can't be written are lost. */
export function createRefusalBook({ db, sealer }: Context, onFailure: (error: unknown) => void) {
  let sums = new Map<string, repository.Refusals>()
  let perSource = new Map<string, number>()
  let strangers = 0
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()
  const formerOf = createFormerSecrets(db, sealer)
  const hasBudget = createBudget(MAX_COMPARED_BYTES)

  function add({ now, bytes: _bytes, isSignedBy: _isSignedBy, ...about }: Refusal): void {
    const { companyId, reason, network, isGenuine } = about
    const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS
    const key = `${companyId} ${minute} ${reason} ${network}`
    const found = sums.get(key)
    const at = new Date(now)
    if (found) {
      found.count += 1
      found.isGenuine ||= isGenuine
      found.lastAt = at
      found.ipAddress = about.ipAddress
      found.webhookId = about.webhookId ?? found.webhookId
      found.clockSkewSeconds = about.clockSkewSeconds
      return
    }
    const source = isGenuine ? companyId : network
    const ofSource = perSource.get(source) ?? 0
    if (sums.size >= MAX_SUMS || ofSource >= MAX_SUMS_PER_SOURCE) return
    if (!isGenuine && strangers >= MAX_SUMS_OF_STRANGERS) return
    perSource.set(source, ofSource + 1)
    if (!isGenuine) strangers += 1
    sums.set(key, { ...about, minute: new Date(minute), count: 1, firstAt: at, lastAt: at })
    timer ??= setTimeout(flush, FLUSH_MS).unref()
  }

  /** While the database is slow or down, refusals add up in the same bounded map. */
  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    await writing
    const items = [...sums.values()]
    if (items.length === 0) return await writing
    sums = new Map()
    perSource = new Map()
    strangers = 0
    writing = db
      .transaction()
      .execute((tx) => repository.addRefusals(tx, items))
      .catch(onFailure)
    await writing
  }

  return {
    note(refusal: Refusal) {
      const isPlain = refusal.reason !== 'signature_mismatch' || !hasBudget(refusal.bytes, refusal.now)
      if (isPlain) return add(refusal)
      void formerOf(refusal.companyId, refusal.now)
        .then((former) => former !== null && refusal.isSignedBy(former))
        // Not recognized: the secret's master key is gone, or the database is down.
        .catch(() => false)
        .then((isIt) => add(isIt ? { ...refusal, reason: 'previous_secret', isGenuine: true } : refusal))
    },
    flush,
  }
}

/** Remembers secrets for 5 s. Null if there is none, or too many reads are running. */
function createFormerSecrets(db: Kysely<Database>, sealer: Sealer) {
  const remembered = new LruMap<{ until: number; former: Promise<SigningSecret | null> }>(MAX_REMEMBERED)
  let reads = 0

  async function read(companyId: string, now: number): Promise<SigningSecret | null> {
    reads += 1
    try {
      const found = await repository.findFormerSecret(db, companyId, new Date(now - FORMER_MS))
      if (!found) return null
      const { version, sealedSecret } = found
      return { version, key: sealer.open(sealedSecret, contextOf(companyId, version)) }
    } finally {
      reads -= 1
    }
  }

  return async (companyId: string, now: number) => {
    const last = remembered.get(companyId)
    if (last && now < last.until) return await last.former
    if (reads >= MAX_READS) return null
    const former = read(companyId, now)
    remembered.set(companyId, { until: now + REMEMBERED_MS, former })
    return await former
  }
}

function createBudget(perSecond: number) {
  let [second, used] = [0, 0]
  return (amount: number, now: number): boolean => {
    const current = Math.floor(now / 1000)
    if (current !== second) [second, used] = [current, 0]
    if (used + amount > perSecond) return false
    used += amount
    return true
  }
}
