import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import type { Sealer } from '../crypto/sealing.ts'
import type { System } from '../system.ts'
import { ACCESS_AUDIENCE, type AccessClaims, invalidToken, readAccessClaims } from './claims.ts'
import { isSignedBy, payloadOf, signToken } from './es256.ts'
import type { StoredKey } from './repository.ts'

export type Key = ReturnType<typeof openKey>

/** The same bytes in all tokens of the key (RFC 7515, section 3.1). */
export function headerOf(keyId: string): string {
  return Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'at+jwt', kid: keyId })).toString('base64url')
}

export function contextOf(keyId: string): string {
  return `signing-key:${keyId}`
}

/** Begins with a letter: a command line would read an id that begins with `-` as an option. */
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
export function openKey(
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
