import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'
import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import type { System } from '../system.ts'
import {
  ACCESS_AUDIENCE,
  type AccessClaims,
  CLOCK_SKEW_SECONDS,
  invalidToken,
  readAccessClaims,
} from './claims.ts'
import { listKeys, type PublicJwk, type StoredKey } from './repository.ts'

/** ES256 (RFC 7515, section 7.1; RFC 7518, section 3.4). With a library, these calls take a third longer. */

/** Null unless each part is canonical base64url (RFC 4648, 3.5): otherwise one token has several spellings. */
export function headerPartOf(token: string): string | null {
  const [header = '', payload = '', signature = '', ...more] = token.split('.')
  return more.length === 0 && [header, payload, signature].every(isCanonical) ? header : null
}

function isCanonical(part: string): boolean {
  return part !== '' && Buffer.from(part, 'base64url').toString('base64url') === part
}

const ENCODING = 'ieee-p1363'

function signToken(key: KeyObject, header: string, claims: object): string {
  const input = `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`
  const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: ENCODING })
  return `${input}.${signature.toString('base64url')}`
}

/** The caller has checked that each part is canonical, and has chosen the key by the header. */
export function isSignedBy(key: KeyObject, token: string): boolean {
  const end = token.lastIndexOf('.')
  const signature = Buffer.from(token.slice(end + 1), 'base64url')
  return verify('sha256', Buffer.from(token.slice(0, end)), { key, dsaEncoding: ENCODING }, signature)
}

/** For a token whose signature is verified. @throws SyntaxError */
function payloadOf(token: string): unknown {
  const [, payload = ''] = token.split('.')
  return JSON.parse(Buffer.from(payload, 'base64url').toString())
}

export type Key = ReturnType<typeof openKey>

function headerOf(keyId: string): string {
  return Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'at+jwt', kid: keyId })).toString('base64url')
}

export function contextOf(keyId: string): string {
  return `signing-key:${keyId}`
}

/** Starts with a letter: a command line would read an ID that starts with `-` as an option. */
function newKeyId(system: System): string {
  const bytes = Buffer.from(system.randomBytes(12))
  bytes.writeUInt8(bytes.readUInt8(0) & 0x7f, 0)
  return bytes.toString('base64url')
}

export function generateKey(
  { sealer, system }: { sealer: Sealer; system: System },
  when: { sequence: number; createdAt: Date; signsFrom: Date },
): StoredKey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = publicKey.export({ format: 'jwk' })
  if (!x || !y) throw new Error('a P-256 key was exported without its coordinates')
  const keyId = newKeyId(system)
  return {
    ...when,
    revokedAt: null,
    keyId,
    publicJwk: { kty: 'EC', crv: 'P-256', x, y, kid: keyId, alg: 'ES256', use: 'sig' },
    sealedPrivateKey: sealer.seal(privateKey.export({ format: 'der', type: 'pkcs8' }), contextOf(keyId)),
  }
}

/** @throws DecryptionError */
function openKey(
  { sealer, issuer }: { sealer: Sealer; issuer: string },
  stored: StoredKey,
  retiresAt: number | null,
) {
  const der = sealer.open(stored.sealedPrivateKey, contextOf(stored.keyId))
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(privateKey)
  const header = headerOf(stored.keyId)
  const pinned = { iss: issuer, aud: ACCESS_AUDIENCE }
  return {
    keyId: stored.keyId,
    publicJwk: stored.publicJwk,
    createdAt: stored.createdAt.getTime(),
    signsFrom: stored.signsFrom.getTime(),
    isRetired: (now: number) => retiresAt !== null && now >= retiresAt,
    sign: (claims: Omit<AccessClaims, 'iss' | 'aud'>) =>
      signToken(privateKey, header, { ...claims, ...pinned }),
    /** For a canonical token with this key's header. Checks no times. @throws if the key did not sign it */
    verify(token: string) {
      if (!isSignedBy(publicKey, token)) throw invalidToken()
      const claims = readAccessClaims(payloadOf(token))
      if (claims.iss !== pinned.iss || claims.aud !== pinned.aud) throw invalidToken()
      return claims
    },
  }
}

/** A key is published before it signs, and until its last token expires. Stored times decide when, for all instances. */

const RELOAD_MS = 60_000
/** For signing and publishing: a revoked key must soon do neither. */
const RELOAD_SOON_MS = 5_000
/** For unknown keys: the successor of a revoked key signs immediately, and strangers can name any key. */
const RELOAD_MISSED_MS = 250

export type KeyRing = Awaited<ReturnType<typeof openKeyRing>>

interface KeyRingOptions {
  db: Executor
  sealer: Sealer
  system: System
  issuer: string
  accessTokenTtlSeconds: number
  onReloadError(error: unknown): void
}

export async function openKeyRing(options: KeyRingOptions) {
  const { system } = options
  let loadedAt = system.now()
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

  /** Does not wait for the database. */
  function knownSigning(now: number): Key | undefined {
    const keys = [...byHeader.values()]
    // The first key signs even if the clock of this instance is behind.
    return keys.findLast(({ signsFrom }) => signsFrom <= now) ?? keys[0]
  }

  return {
    knownSigning,
    async signing(now: number): Promise<Key> {
      await current(now, RELOAD_SOON_MS)
      const key = knownSigning(now)
      if (!key) throw new Error('the database has no signing key')
      return key
    },
    async byHeader(header: string, now: number): Promise<Key | undefined> {
      return (await current(now, RELOAD_MS)).get(header) ?? (await current(now, RELOAD_MISSED_MS)).get(header)
    },
    async published(now: number): Promise<PublicJwk[]> {
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
