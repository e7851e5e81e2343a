import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import type { System } from '../system.ts'
import { CLOCK_SKEW_SECONDS } from './claims.ts'
import { generateKey, headerOf, type Key, openKey } from './keys.ts'
import { insertKey, listKeys, type PublicJwk } from './repository.ts'

/**
 * The keys of access tokens. A key is published before it signs, so that services that verify offline know it
 * in time, and stays published until its last token has expired. Both moments follow from the stored times of
 * the keys, so all instances agree and no job needs to run at the right moment.
 */

const RELOAD_MS = 60_000
/** Of the keys that sign or are published: a revoked one must not do either for long. */
const RELOAD_SOON_MS = 5_000
/** Of unknown keys: the successor of a revoked key signs at once. Strangers can name keys that do not exist. */
const RELOAD_MISSED_MS = 250

export interface KeyRing {
  /** The key that signs at this moment. */
  signing(now: number): Promise<Key>
  /** The same, of the keys that were read last: it never waits for the database. */
  knownSigning(now: number): Key | undefined
  /** The key, retired or not, whose tokens start with exactly this header; undefined if there is none. */
  byHeader(header: string, now: number): Promise<Key | undefined>
  /** The public keys (RFC 7517) that have not retired, including keys that do not sign yet. */
  published(now: number): Promise<PublicJwk[]>
  /** Reads the keys again with the next use: the database has refused one of them. */
  reload(): void
}

interface KeyRingOptions {
  db: Executor
  sealer: Sealer
  system: System
  issuer: string
  accessTokenTtlSeconds: number
  /** Called when a reload of the keys fails, for the log. */
  onReloadError(error: unknown): void
}

/** Loads the ring and creates the first key of a new database. The ring reloads its keys by itself. */
export async function openKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const { db, system } = options
  let loadedAt = system.now()
  if ((await listKeys(db)).length === 0) {
    const createdAt = new Date(loadedAt)
    await insertKey(db, generateKey(options, { sequence: 1, createdAt, signsFrom: createdAt }))
  }
  let byHeader = await loadKeys(options)
  let reloading: Promise<void> | undefined

  /** Keys are published ahead, so one reload per minute is enough to verify. A failed reload keeps the old keys. */
  async function current(now: number, maxAgeMs: number): Promise<Map<string, Key>> {
    if (Math.abs(now - loadedAt) > maxAgeMs) {
      reloading ??= loadKeys(options)
        .then((loaded) => {
          byHeader = loaded
        })
        .catch(options.onReloadError)
        .finally(() => {
          loadedAt = now
          reloading = undefined
        })
      await reloading
    }
    return byHeader
  }

  function knownSigning(now: number): Key | undefined {
    const keys = [...byHeader.values()]
    // The first key signs even if the clock of this instance is behind.
    return keys.findLast(({ signsFrom }) => signsFrom <= now) ?? keys[0]
  }

  return {
    knownSigning,
    async signing(now) {
      await current(now, RELOAD_SOON_MS)
      const key = knownSigning(now)
      if (!key) throw new Error('the database has no signing key')
      return key
    },
    async byHeader(header, now) {
      return (await current(now, RELOAD_MS)).get(header) ?? (await current(now, RELOAD_MISSED_MS)).get(header)
    },
    async published(now) {
      return [...(await current(now, RELOAD_SOON_MS)).values()]
        .filter((key) => !key.isRetired(now))
        .map(({ publicJwk }) => publicJwk)
    },
    reload() {
      loadedAt = Number.NEGATIVE_INFINITY
    },
  }
}

/**
 * The keys that are not revoked, by token header, oldest first. A key retires when the next one signs and the last token
 * of this one has expired.
 */
async function loadKeys(options: KeyRingOptions): Promise<Map<string, Key>> {
  const stored = (await listKeys(options.db)).filter(({ revokedAt }) => revokedAt === null)
  const lastsMs = (options.accessTokenTtlSeconds + CLOCK_SKEW_SECONDS) * 1000
  return new Map(
    stored.map((key, index) => {
      const successor = stored[index + 1]
      const retiresAt = successor ? successor.signsFrom.getTime() + lastsMs : null
      return [headerOf(key.keyId), openKey(options, key, retiresAt)]
    }),
  )
}
