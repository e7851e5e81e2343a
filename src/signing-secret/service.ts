import type { Kysely } from 'kysely'
import { LruMap } from 'toad-cache'
import type { Limit } from '../config.ts'
import type { Sealer } from '../crypto/sealing.ts'
import { appendAudit, newEntry } from '../database/audit.ts'
import type { Counters } from '../database/counters.ts'
import type { Database } from '../database/schema.ts'
import { type LimitState, Problem } from '../errors.ts'
import type { System } from '../system.ts'
import * as repository from './repository.ts'

/** The secret that a company's senders sign events with: shown once, stored sealed, replaced at once. */

const SECRET_BYTES = 32
const MINUTE_MS = 60_000
const MAX_CACHED = 10_000

interface Context {
  db: Kysely<Database>
  sealer: Sealer
  system: System
  counters: Counters
  limit: Limit
}

/** A secret in use: the key itself and its version, by which the database confirms that it still is. */
export interface SigningSecret {
  version: number
  key: Buffer
}

export type SigningSecrets = ReturnType<typeof createSigningSecrets>

export function createSigningSecrets({ db, sealer, system, counters, limit }: Context) {
  // Saves opening the seal; whoever uses a remembered secret has the database confirm its version.
  const remembered = new LruMap<SigningSecret & { touchedMinute: number }>(MAX_CACHED)

  async function regenerate(
    caller: { companyId: string; userId: string; ipAddress: string },
    expectedVersion: number | undefined,
    now: number,
  ) {
    const { companyId, userId } = caller
    const state: LimitState = await counters.takeHit(limit, [companyId], now)
    const createdAt = new Date(now)
    const key = system.randomBytes(SECRET_BYTES)
    const secret = `whsec_${key.toString('base64')}`
    const hint = secret.slice(-4)
    for (;;) {
      const version = ((await repository.findSecret(db, companyId))?.version ?? 0) + 1
      if (expectedVersion !== undefined && expectedVersion !== version - 1) {
        throw new Problem(
          'version_conflict',
          `The secret's version is ${version - 1}, not ${expectedVersion}.`,
        )
      }
      const sealedSecret = sealer.seal(key, contextOf(companyId, version))
      const replaced = await db.transaction().execute(async (tx) => {
        const done = await repository.replaceSecret(tx, companyId, {
          version,
          sealedSecret,
          hint,
          createdAt,
          createdBy: userId,
        })
        if (!done) return false
        const { ipAddress } = caller
        const facts = { action: 'signing_secret_regenerate', outcome: 'done', actor: userId, ipAddress }
        await appendAudit(tx, companyId, newEntry(system, createdAt, facts))
        return true
      })
      // Otherwise another regeneration was faster: what is now current is what this one replaces.
      if (replaced) return { secret, version, hint, createdAt, hadPrevious: version > 1, state }
    }
  }

  /** The secret as the database has it now; undefined where a company has none, or does not exist. */
  async function load(companyId: string): Promise<SigningSecret | undefined> {
    const stored = await repository.findSecret(db, companyId)
    if (!stored) {
      remembered.delete(companyId)
      return undefined
    }
    const key = open(companyId, stored)
    remembered.set(companyId, { version: stored.version, key, touchedMinute: 0 })
    return { version: stored.version, key }
  }

  /** @throws Problem unavailable: altered, moved, or sealed under a master key that is not configured */
  function open(companyId: string, { version, sealedSecret }: repository.StoredSecret): Buffer {
    try {
      return sealer.open(sealedSecret, contextOf(companyId, version))
    } catch (cause) {
      throw new Problem('unavailable', 'The signing secret cannot be used at present; try again later.', {
        retryAfterSeconds: 60,
        cause,
      })
    }
  }

  /** Notes that a secret was used, once a minute for each instance. */
  async function touch(companyId: string, version: number, now: number): Promise<void> {
    const minute = Math.floor(now / MINUTE_MS)
    const secret = remembered.get(companyId)
    if (!secret || secret.touchedMinute === minute) return
    secret.touchedMinute = minute
    try {
      await repository.touchSecret(db, companyId, version, new Date(minute * MINUTE_MS))
    } catch (error) {
      secret.touchedMinute = 0
      throw error
    }
  }

  return {
    regenerate,
    load,
    touch,
    /** The secret as this instance last saw it; to be confirmed by the statement that depends on it. */
    recall: (companyId: string): SigningSecret | undefined => remembered.get(companyId),
    /** Whether a version is still the company's secret, by the database. */
    isInForce: (companyId: string, version: number) => repository.isSecretInForce(db, companyId, version),
    status: (companyId: string) => repository.findSecretStatus(db, companyId),
  }
}

/** Seals anew what a former master key sealed; returns how many secrets that were. */
export async function resealSecrets({ db, sealer }: Pick<Context, 'db' | 'sealer'>): Promise<number> {
  const outdated = (await repository.listSealedAcrossCompanies(db)).filter(
    ({ sealedSecret }) => !sealer.isCurrent(sealedSecret),
  )
  for (const { companyId, version, sealedSecret } of outdated) {
    const context = contextOf(companyId, version)
    const after = sealer.seal(sealer.open(sealedSecret, context), context)
    await repository.resealSecret(db, companyId, { before: sealedSecret, after })
  }
  return outdated.length
}

/** What a sealed secret is bound to: in another row, or as another version, it does not open. */
function contextOf(companyId: string, version: number): string {
  return `signing-secret:${companyId}:${version}`
}
