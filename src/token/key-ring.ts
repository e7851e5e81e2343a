import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import type { System } from '../system.ts'
import { CLOCK_SKEW_SECONDS } from './claims.ts'
import { generateKey, headerOf, type Key, openKey } from './keys.ts'
import { insertKey, listKeys, type PublicJwk } from './repository.ts'

/** A key is published before it signs and until its last token expires. Stored times say when, to all. */

const RELOAD_MS = 60_000
/** Of keys that sign or are published: a revoked one must soon do neither. */
const RELOAD_SOON_MS = 5_000
/** Of unknown keys: the successor of a revoked key signs at once, and strangers can name any key. */
const RELOAD_MISSED_MS = 250

export interface KeyRing {
  signing(now: number): Promise<Key>
  /** As `signing`, of the keys that were read last, without waiting for the database. */
  knownSigning(now: number): Key | undefined
  byHeader(header: string, now: number): Promise<Key | undefined>
  published(now: number): Promise<PublicJwk[]>
  reload(): void
}

interface KeyRingOptions {
  db: Executor
  sealer: Sealer
  system: System
  issuer: string
  accessTokenTtlSeconds: number
  onReloadError(error: unknown): void
}

export async function openKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const { db, system } = options
  let loadedAt = system.now()
  if ((await listKeys(db)).length === 0) {
    const createdAt = new Date(loadedAt)
    await insertKey(db, generateKey(options, { sequence: 1, createdAt, signsFrom: createdAt }))
  }
  let byHeader = await loadKeys(options)
  let reloading: Promise<void> | undefined

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

/** By token header, oldest first. A key retires when its successor signs and its last token has expired. */
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
