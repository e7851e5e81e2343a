import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'

/** A passkey in software, whose responses can be falsified. */

export interface Options {
  challenge: string
  rpId?: string
  rp?: { id: string }
  user?: { id: string }
}

/** False values, instead of the correct ones. */
export interface Falsified {
  challenge?: string
  origin?: string
  crossOrigin?: boolean
  topOrigin?: string
  rpId?: string
  userVerified?: boolean
  backupEligible?: boolean
  counter?: number
  algorithm?: number
  /** Changes the public key by its COSE labels. */
  key?: (key: Map<number, unknown>) => Map<number, unknown>
  userHandle?: string | null
  /** Changes the sent bytes. */
  authenticatorData?: (bytes: Buffer) => Buffer
  attestationObject?: (bytes: Buffer) => Buffer
  signature?: (bytes: Buffer) => Buffer
  clientBytes?: (json: string) => string
  /** The attestation statement's format, and the statement. */
  format?: string
  statement?: Map<string, unknown>
}

const encode = (value: unknown) => Buffer.from(isoCBOR.encode(value as Parameters<typeof isoCBOR.encode>[0]))
const base64url = (bytes: Buffer) => bytes.toString('base64url')
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest()

const bytesOf = (text = '') => Buffer.from(text, 'base64url')
const coseKey = (...labels: [number, unknown][]) => new Map(labels)

/** New keys by algorithm (RFC 9053; RFC 8812), with the public key in COSE form. */
const KINDS = {
  ES256() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const { x, y } = publicKey.export({ format: 'jwk' })
    const key = coseKey([1, 2], [3, -7], [-1, 1], [-2, bytesOf(x)], [-3, bytesOf(y)])
    return { hash: 'sha256', privateKey, publicKey: key }
  },
  EdDSA() {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const { x } = publicKey.export({ format: 'jwk' })
    return { hash: null, privateKey, publicKey: coseKey([1, 1], [3, -8], [-1, 6], [-2, bytesOf(x)]) }
  },
  RS256() {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const { n, e } = publicKey.export({ format: 'jwk' })
    const key = coseKey([1, 3], [3, -257], [-1, bytesOf(n)], [-2, bytesOf(e)])
    return { hash: 'sha256', privateKey, publicKey: key }
  },
}

export type KeyKind = keyof typeof KINDS
export type Authenticator = ReturnType<typeof createAuthenticator>

export const ORIGIN = 'http://localhost:3000'

type Traits = { backupEligible?: boolean; counts?: boolean; idBytes?: number; kind?: KeyKind }
export function createAuthenticator({
  backupEligible = true,
  counts = false,
  idBytes = 32,
  kind = 'ES256',
}: Traits = {}) {
  const { hash, privateKey, publicKey } = KINDS[kind]()
  const credentialId = randomBytes(idBytes)
  let handle: string | null = null
  let counter = 0

  const clientData = (type: string, challenge: string, falsified: Falsified) => {
    const data = {
      type,
      challenge: falsified.challenge ?? challenge,
      origin: falsified.origin ?? ORIGIN,
      crossOrigin: falsified.crossOrigin ?? false,
      ...(falsified.topOrigin !== undefined && { topOrigin: falsified.topOrigin }),
    }
    const json = JSON.stringify(data)
    return Buffer.from(falsified.clientBytes ? falsified.clientBytes(json) : json)
  }

  function authenticatorData(rpId: string, falsified: Falsified, attested = Buffer.alloc(0)): Buffer {
    const { userVerified = true } = falsified
    const isEligible = falsified.backupEligible ?? backupEligible
    const flags =
      0x01 | (userVerified ? 0x04 : 0) | (isEligible ? 0x18 : 0) | (attested.length > 0 ? 0x40 : 0)
    const head = Buffer.alloc(5)
    head.writeUInt8(flags, 0)
    head.writeUInt32BE(falsified.counter ?? counter, 1)
    const bytes = Buffer.concat([sha256(falsified.rpId ?? rpId), head, attested])
    return falsified.authenticatorData ? falsified.authenticatorData(bytes) : bytes
  }

  return {
    id: base64url(credentialId),

    /** Responds to PublicKeyCredentialCreationOptionsJSON. */
    create(options: Options, falsified: Falsified = {}) {
      handle = options.user?.id ?? null
      const clientDataJSON = clientData('webauthn.create', options.challenge, falsified)
      const key = new Map(publicKey)
      if (falsified.algorithm !== undefined) key.set(3, falsified.algorithm)
      const length = Buffer.alloc(2)
      length.writeUInt16BE(credentialId.length)
      const attested = Buffer.concat([
        Buffer.alloc(16),
        length,
        credentialId,
        encode(falsified.key?.(key) ?? key),
      ])
      const authData = authenticatorData(options.rp?.id ?? '', falsified, attested)
      const object = encode(
        new Map<string, unknown>([
          ['fmt', falsified.format ?? 'none'],
          ['attStmt', falsified.statement ?? new Map()],
          ['authData', authData],
        ]),
      )
      const attestationObject = falsified.attestationObject ? falsified.attestationObject(object) : object
      return {
        id: base64url(credentialId),
        rawId: base64url(credentialId),
        type: 'public-key' as const,
        authenticatorAttachment: 'platform',
        clientExtensionResults: { credProps: { rk: true } },
        response: {
          clientDataJSON: base64url(clientDataJSON),
          attestationObject: base64url(attestationObject),
          transports: ['internal', 'hybrid'],
          publicKeyAlgorithm: -7,
        },
      }
    },

    /** Responds to PublicKeyCredentialRequestOptionsJSON. */
    get(options: Options, falsified: Falsified = {}) {
      if (counts) counter += 1
      const clientDataJSON = clientData('webauthn.get', options.challenge, falsified)
      const data = authenticatorData(options.rpId ?? '', falsified)
      const signature = sign(hash, Buffer.concat([data, sha256(clientDataJSON)]), privateKey)
      return {
        id: base64url(credentialId),
        rawId: base64url(credentialId),
        type: 'public-key' as const,
        authenticatorAttachment: 'platform',
        clientExtensionResults: {},
        response: {
          clientDataJSON: base64url(clientDataJSON),
          authenticatorData: base64url(data),
          signature: base64url(falsified.signature ? falsified.signature(signature) : signature),
          userHandle: falsified.userHandle === undefined ? handle : falsified.userHandle,
        },
      }
    },
  }
}
