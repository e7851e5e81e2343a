import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { createSigner, createVerifier } from 'fast-jwt'
import type { Kysely } from 'kysely'
import type { Sealer } from '../crypto/sealing.ts'
import { appendAudit, newEntry, PLATFORM } from '../database/audit.ts'
import type { Executor } from '../database/connect.ts'
import type { Database, PublicJwk } from '../database/schema.ts'
import type { System } from '../system.ts'
import { insertKey, listKeys, resealKey, type StoredKey } from './repository.ts'

/**
 * The keys of access tokens. A key is published before it signs, so that whoever verifies offline knows it
 * in time, and stays published until its last token has expired. Both follow from the keys' own times, so
 * no job has to run at the right moment and all instances agree.
 */

const ACCESS_AUDIENCE = 'gatehouse'
/** How long a new key is published before it signs: the key set may be cached for 5 minutes. */
export const PUBLISH_AHEAD_SECONDS = 600
/** How far apart the clocks of instances may be. */
export const CLOCK_SKEW_SECONDS = 120
const RELOAD_SECONDS = 60

interface Key {
  keyId: string
  publicJwk: PublicJwk
  signsFrom: number
  /** Whether its last token has expired; never while it is the newest. */
  isRetired(now: number): boolean
  sign(claims: Record<string, unknown>): string
  /** @throws on any defect of the signature or the pinned claims; expiry is not looked at. */
  verify(token: string): unknown
}

export interface KeyRing {
  /** The key that signs at this moment. */
  signing(now: number): Promise<Key>
  /**
   * The key that a token's first part names, retired or not, if it is exactly what that key's own tokens
   * start with.
   */
  byHeader(header: string, now: number): Promise<Key | undefined>
  /** The public keys (RFC 7517) that tokens alive at this moment may need. */
  published(now: number): Promise<PublicJwk[]>
}

interface KeyRingOptions {
  db: Executor
  sealer: Sealer
  system: System
  issuer: string
  accessTokenTtlSeconds: number
  /** Told when the keys could not be read again, for the log. */
  onReloadError(error: unknown): void
}

/** Loads the ring, making the first key of a new database; afterwards it follows the database by itself. */
export async function openKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const { db, system } = options
  let loadedAt = system.now()
  if ((await listKeys(db)).length === 0) {
    await insertKey(db, generateKey(options, { sequence: 1, createdAt: loadedAt, signsFrom: loadedAt }))
  }
  let byHeader = await load()
  let reloading: Promise<void> | undefined

  async function load(): Promise<Map<string, Key>> {
    const stored = await listKeys(db)
    return new Map(
      stored.map((key, index) => {
        const successor = stored[index + 1]
        const lastsSeconds = options.accessTokenTtlSeconds + CLOCK_SKEW_SECONDS
        const retiresAt = successor ? successor.signsFrom.getTime() + lastsSeconds * 1000 : null
        return [headerOf(key.keyId), openKey(options, key, retiresAt)]
      }),
    )
  }

  /** Keys change rarely and ahead of time, so once a minute is often; a failure leaves the ring as it was. */
  async function current(now: number): Promise<Map<string, Key>> {
    if (Math.abs(now - loadedAt) > RELOAD_SECONDS * 1000) {
      reloading ??= load()
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

  return {
    async signing(now) {
      const keys = [...(await current(now)).values()]
      // The first key signs from the start, whatever this instance's clock says.
      const key = keys.findLast(({ signsFrom }) => signsFrom <= now) ?? keys[0]
      if (!key) throw new Error('the database has no signing key')
      return key
    },
    async byHeader(header, now) {
      return (await current(now)).get(header)
    },
    async published(now) {
      return [...(await current(now)).values()]
        .filter((key) => !key.isRetired(now))
        .map(({ publicJwk }) => publicJwk)
    },
  }
}

/**
 * Adds the key that will sign from `PUBLISH_AHEAD_SECONDS` on, and seals anew what a former master key sealed.
 * Returns the new key's id and when it starts to sign.
 * @throws UnsealableError, before anything is written, if a key does not open: what is sealed with the wrong
 * master key, the instances could not open either
 */
export async function rotateKeys(options: {
  db: Kysely<Database>
  sealer: Sealer
  system: System
}): Promise<{ keyId: string; signsFrom: Date }> {
  const { db, sealer, system } = options
  const stored = await listKeys(db)
  const opened = stored.map(({ keyId, sealedPrivateKey }) => ({
    keyId,
    sealedPrivateKey,
    privateKey: sealer.open(sealedPrivateKey, contextOf(keyId)),
  }))
  for (const { keyId, sealedPrivateKey, privateKey } of opened) {
    if (sealer.isCurrent(sealedPrivateKey)) continue
    await resealKey(db, keyId, sealedPrivateKey, sealer.seal(privateKey, contextOf(keyId)))
  }
  const newest = stored.at(-1)
  const createdAt = system.now()
  const key = generateKey(options, {
    sequence: (newest?.sequence ?? 0) + 1,
    createdAt,
    signsFrom: newest ? createdAt + PUBLISH_AHEAD_SECONDS * 1000 : createdAt,
  })
  await db.transaction().execute(async (tx) => {
    if (!(await insertKey(tx, key))) {
      throw new Error('another rotation ran at the same time; look at `keys list`')
    }
    const facts = { action: 'keys_rotate', outcome: 'done', actor: 'operator', subject: key.keyId }
    await appendAudit(tx, PLATFORM, newEntry(system, key.createdAt, facts))
  })
  return { keyId: key.keyId, signsFrom: key.signsFrom }
}

/** The protected header of every token that this key signed, to the byte (RFC 7515, section 3.1). */
function headerOf(keyId: string): string {
  return Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'at+jwt', kid: keyId })).toString('base64url')
}

function contextOf(keyId: string): string {
  return `signing-key:${keyId}`
}

function generateKey(
  { sealer, system }: Pick<KeyRingOptions, 'sealer' | 'system'>,
  when: { sequence: number; createdAt: number; signsFrom: number },
): StoredKey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = publicKey.export({ format: 'jwk' })
  if (!x || !y) throw new Error('a P-256 key was exported without its coordinates')
  const keyId = system.randomBytes(12).toString('base64url')
  return {
    sequence: when.sequence,
    keyId,
    publicJwk: { kty: 'EC', crv: 'P-256', x, y, kid: keyId, alg: 'ES256', use: 'sig' },
    sealedPrivateKey: sealer.seal(privateKey.export({ format: 'der', type: 'pkcs8' }), contextOf(keyId)),
    createdAt: new Date(when.createdAt),
    signsFrom: new Date(when.signsFrom),
  }
}

function openKey({ sealer, issuer }: KeyRingOptions, stored: StoredKey, retiresAt: number | null): Key {
  const der = sealer.open(stored.sealedPrivateKey, contextOf(stored.keyId))
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  return {
    keyId: stored.keyId,
    publicJwk: stored.publicJwk,
    signsFrom: stored.signsFrom.getTime(),
    isRetired: (now) => retiresAt !== null && now >= retiresAt,
    sign: createSigner({
      key: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
      algorithm: 'ES256',
      header: { alg: 'ES256', typ: 'at+jwt' },
      kid: stored.keyId,
      aud: ACCESS_AUDIENCE,
      iss: issuer,
    }),
    verify: createVerifier({
      key: createPublicKey(privateKey).export({ format: 'pem', type: 'spki' }).toString(),
      algorithms: ['ES256'],
      checkTyp: 'at+jwt',
      allowedAud: ACCESS_AUDIENCE,
      allowedIss: issuer,
      // Our own clock decides, with the other claims.
      ignoreExpiration: true,
      ignoreNotBefore: true,
      cache: false,
    }),
  }
}
