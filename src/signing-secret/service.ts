import { LruMap } from 'toad-cache'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Actor, requireActor } from '../session/acts.ts'
import * as repository from './repository.ts'

/** The secret that signs a company's events: shown once, stored sealed, invalid when replaced. */

const SECRET_BYTES = 32
const MINUTE_MS = 60_000
const MAX_CACHED = 10_000

/** The database confirms by `version` that the key is still valid. */
export interface SigningSecret {
  version: number
  key: Buffer
}

export type SigningSecrets = ReturnType<typeof createSigningSecrets>

export function createSigningSecrets(context: Context) {
  const { db } = context
  // Only saves decryption: the database must confirm the version.
  const remembered = new LruMap<SigningSecret & { touchedMinute: number }>(MAX_CACHED)
  return {
    /** Undefined without a secret or company. @throws Problem unavailable */
    async load(companyId: string): Promise<SigningSecret | undefined> {
      const stored = await repository.findSecret(db, companyId)
      if (!stored) {
        remembered.delete(companyId)
        return undefined
      }
      const { version, sealedSecret } = stored
      const secret = { version, key: openSecret(context, sealedSecret, contextOf(companyId, version)) }
      remembered.set(companyId, { ...secret, touchedMinute: 0 })
      return secret
    },

    recall: (companyId: string): SigningSecret | undefined => remembered.get(companyId),

    /** Each instance writes at most once per minute. */
    async touch(companyId: string, version: number, now: number): Promise<void> {
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
    },

    isInForce: (companyId: string, version: number) => repository.isSecretInForce(db, companyId, version),
  }
}

/** `expectedVersion`: 0 for no secret yet, undefined for any. @throws Problem version_conflict, rate_limited */
export async function regenerate(
  { db, system, counters, config, sealer }: Context,
  { session, client, now }: Actor,
  expectedVersion: number | undefined,
) {
  const { ipAddress } = client
  const { companyId, userId, sessionId } = session
  await counters.consume(config.limits.regenerate, [companyId], { client, now })
  const createdAt = new Date(now)
  const key = system.randomBytes(SECRET_BYTES)
  const secret = `whsec_${key.toString('base64')}`
  const hint = secret.slice(-4)
  const about = { action: 'signing_secret_regenerate', outcome: 'done', actor: userId, sessionId, ipAddress }
  for (;;) {
    const current = (await repository.findSecret(db, companyId))?.version ?? 0
    if (expectedVersion !== undefined && expectedVersion !== current)
      throw new Problem(
        'version_conflict',
        `The version of the secret is ${current}, not ${expectedVersion}. Read its status before you retry.`,
      )
    const version = current + 1
    const sealedSecret = sealer.seal(key, contextOf(companyId, version))
    const row = { version, sealedSecret, hint, createdAt, createdBy: userId }
    const isReplaced = await db.transaction().execute(async (tx) => {
      if (!(await repository.replaceSecret(tx, companyId, row))) return false
      await requireActor(tx, session, now, 'webhook-secret:manage')
      await appendAudit(tx, companyId, newEntry(system, createdAt, about))
      return true
    })
    // Otherwise a concurrent regeneration was faster, and the next round replaces its secret.
    if (isReplaced) return { secret, version, hint, createdAt }
  }
}

/** @throws Problem unavailable if the secret was altered or moved, or its master key is not configured */
function openSecret({ sealer }: Context, sealedSecret: string, context: string): Buffer {
  try {
    return sealer.open(sealedSecret, context)
  } catch (cause) {
    throw new Problem(
      'unavailable',
      'The service cannot decrypt the signing secret. Retry after 60 seconds.',
      {
        retryAfterSeconds: 60,
        cause,
      },
    )
  }
}

/** Binds a sealed secret to company and version, so that it can't be opened in a different row. */
export function contextOf(companyId: string, version: number): string {
  return `signing-secret:${companyId}:${version}`
}

/** @throws DecryptionError */
export async function resealSecretsAcrossCompanies(db: Executor, sealer: Sealer): Promise<number> {
  const secrets = await repository.listSealedAcrossCompanies(db)
  const outdated = secrets.filter(({ sealedSecret }) => !sealer.isCurrent(sealedSecret))
  for (const { companyId, version, sealedSecret } of outdated) {
    const context = contextOf(companyId, version)
    const after = sealer.seal(sealer.open(sealedSecret, context), context)
    await repository.resealSecret(db, companyId, { before: sealedSecret, after })
  }
  return outdated.length
}
