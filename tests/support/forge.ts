import { createHmac, createPrivateKey, sign } from 'node:crypto'
import { createSealer, deriveKey } from '../../src/crypto/sealing.ts'
import { realSystem } from '../../src/system.ts'
import { listKeys } from '../../src/token/repository.ts'
import type { Person, TestService } from './test-service.ts'

/** Tokens signed with the service's own keys, so that a refused one is refused only for its defect. */

export type Json = Record<string, unknown>

export interface Kind {
  /** The first two parts of a genuine token. */
  header: Json
  claims: Json
  /** Signs with the service's key for this kind, which results in the third part. */
  sign(input: string): Buffer
}

interface Forgery {
  /** Text and bytes are encoded unchanged. */
  header?: Json | string | Buffer
  payload?: Json | string | Buffer
  sign?: (input: string) => Buffer
}

export function encode(part: Json | string | Buffer): string {
  const text = typeof part === 'string' || Buffer.isBuffer(part) ? part : JSON.stringify(part)
  return Buffer.from(text).toString('base64url')
}

export function decode(part: string): Json {
  return JSON.parse(Buffer.from(part, 'base64url').toString())
}

/** The three parts of a compact token (RFC 7515, section 3.1). */
export function partsOf(token: string): [header: string, payload: string, signature: string] {
  const [header = '', payload = '', signature = ''] = token.split('.')
  return [header, payload, signature]
}

export function signInput(input: string, signer: (input: string) => Buffer): string {
  return `${input}.${signer(input).toString('base64url')}`
}

/** A token like the genuine ones of its kind, except for these parts. */
export function forge(kind: Kind, { header, payload, sign: signer }: Forgery = {}): string {
  return signInput(
    `${encode(header ?? kind.header)}.${encode(payload ?? kind.claims)}`,
    signer ?? ((input) => kind.sign(input)),
  )
}

/** Signs in and splits the session's tokens. The keys come from the database and the master key. */
export async function openForge(service: TestService, person: Person) {
  const { accessToken, refreshToken, session } = await service.loginAs(person)
  const [masterKey] = service.config.masterKeys
  const { kid } = decode(partsOf(accessToken)[0])
  const stored = (await listKeys(service.db)).find(({ keyId }) => keyId === kid)
  if (!masterKey || !stored) throw new Error('the service does not have the keys of this session')
  const sealer = createSealer(service.config.masterKeys, realSystem.randomBytes)
  const der = sealer.open(stored.sealedPrivateKey, `signing-key:${stored.keyId}`)
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const refreshKey = deriveKey(masterKey.key, 'refresh tokens')

  const take = (token: string, signer: (input: string) => Buffer): Kind => {
    const [header, payload] = partsOf(token)
    return { header: decode(header), claims: decode(payload), sign: signer }
  }
  return {
    sessionId: String(session.id),
    accessToken: String(accessToken),
    refreshToken: String(refreshToken),
    publicJwk: stored.publicJwk,
    privateKey,
    refreshKey,
    access: take(accessToken, (input) =>
      sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' }),
    ),
    refresh: take(refreshToken, (input) => createHmac('sha256', refreshKey).update(input).digest()),
  }
}
