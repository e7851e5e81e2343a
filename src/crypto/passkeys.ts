import type { AuthenticatorTransport } from '@simplewebauthn/server'
import { randomPartOf } from './opaque.ts'
import { ALGORITHMS, canVerify } from './passkey-keys.ts'

/** Passkeys (WebAuthn level 3), with the checks that the library leaves to its caller. Null means refused. */

interface RelyingParty {
  rpId: string
  origins: string[]
}

/** The lifetime of a challenge (second-factor/challenges.ts). */
const TIMEOUT_MS = 300_000
const MAX_ID_BYTES = 1023 // of a credential ID (section 7.1, step 25)
/** Hash, flags, counter, AAGUID, and the length of the ID (section 6.1). */
const BYTES_BEFORE_ID = 32 + 1 + 4 + 16 + 2

/** The parts of AuthenticationResponseJSON and RegistrationResponseJSON that we read (section 5.1.8). */
interface Credential<Response> {
  id: string
  rawId: string
  type: 'public-key'
  response: Response & { clientDataJSON: string }
  clientExtensionResults: object
}
export type AssertionResponse = Credential<{
  authenticatorData: string
  signature: string
  userHandle?: string | null
}>
export type RegistrationResponse = Credential<{ attestationObject: string; transports?: string[] }>

export interface NewPasskey {
  credentialId: Buffer
  publicKey: Buffer
  signCount: number
  backupEligible: boolean
  transports: string[]
}

type Stored = Pick<NewPasskey, 'credentialId' | 'transports'>

/** The library is large, so it loads with the first passkey. */
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')
type Cbor = Parameters<Awaited<ReturnType<typeof helpers>>['isoCBOR']['encode']>[0]

export async function creationOptions(
  { rpId }: RelyingParty,
  user: { challenge: string; handle: Buffer; email: string; name: string; existing: Stored[] },
): Promise<object> {
  const { generateRegistrationOptions } = await library()
  return await generateRegistrationOptions({
    rpName: 'gatehouse',
    rpID: rpId,
    userName: user.email,
    userDisplayName: user.name,
    userID: new Uint8Array(user.handle),
    challenge: new Uint8Array(Buffer.from(randomPartOf(user.challenge), 'base64url')),
    timeout: TIMEOUT_MS,
    attestationType: 'none',
    excludeCredentials: user.existing.map(toDescriptor),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    supportedAlgorithmIDs: ALGORITHMS,
  })
}

/** If `allowed` is empty, the browser offers all its passkeys for this site. */
export function requestOptions({ rpId }: RelyingParty, challenge: string, allowed: Stored[] = []): object {
  return {
    challenge: randomPartOf(challenge),
    rpId,
    timeout: TIMEOUT_MS,
    userVerification: 'required',
    allowCredentials: allowed.map((one) => ({ type: 'public-key', ...toDescriptor(one) })),
  }
}

function toDescriptor({ credentialId, transports }: Stored) {
  return {
    id: credentialId.toString('base64url'),
    transports: transports.filter((one): one is AuthenticatorTransport => one !== ''),
  }
}

/** Not verified yet. */
export function challengeIn({ response }: RegistrationResponse): string | undefined {
  const challenge = readClientData(response.clientDataJSON)?.['challenge']
  return typeof challenge === 'string' ? challenge : undefined
}

function expectedOf({ rpId, origins }: RelyingParty, challenge: string) {
  return {
    expectedChallenge: randomPartOf(challenge),
    expectedOrigin: origins,
    expectedRPID: rpId,
    requireUserVerification: true,
  }
}

export async function readRegistration(
  relyingParty: RelyingParty,
  { response, challenge }: { response: RegistrationResponse; challenge: string },
): Promise<NewPasskey | null> {
  try {
    const { clientDataJSON, attestationObject, transports = [] } = response.response
    if (!isFromOwnPage(clientDataJSON) || !(await isObjectInOrder(attestationObject))) return null
    const { verifyRegistrationResponse } = await library()
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: { ...response, clientExtensionResults: {}, response: { clientDataJSON, attestationObject } },
      ...expectedOf(relyingParty, challenge),
      supportedAlgorithmIDs: ALGORITHMS,
    })
    if (!verified || !registrationInfo) return null
    const { credential, credentialDeviceType } = registrationInfo
    const credentialId = Buffer.from(credential.id, 'base64url')
    if (credential.id !== response.id || credentialId.length > MAX_ID_BYTES) return null
    return {
      credentialId,
      publicKey: Buffer.from(credential.publicKey),
      signCount: credential.counter,
      backupEligible: credentialDeviceType === 'multiDevice',
      transports,
    }
  } catch {
    return null
  }
}

/** The library accepts truncated and extended CBOR. Encoding it again shows the difference (section 2.4). */
async function isObjectInOrder(attestationObject: string): Promise<boolean> {
  const { isoBase64URL, isoCBOR } = await helpers()
  const bytes = isoBase64URL.toBuffer(attestationObject)
  const object = isoCBOR.decodeFirst<Cbor>(bytes)
  if (!(object instanceof Map) || !isSame(isoCBOR.encode(object), bytes)) return false
  return isUnattested(object) && (await isKeyInOrder(object.get('authData')))
}

/** For other statements, the library would parse strangers' certificates and call the servers that they name. */
function isUnattested(object: Map<unknown, unknown>): boolean {
  const [format, statement] = [object.get('fmt'), object.get('attStmt')]
  return format === 'none' || (format === 'packed' && statement instanceof Map && !statement.has('x5c'))
}

async function isKeyInOrder(authData: unknown): Promise<boolean> {
  const { isoCBOR, parseAuthenticatorData } = await helpers()
  if (!(authData instanceof Uint8Array)) return false
  const { credentialID, credentialPublicKey, extensionsDataBuffer } = parseAuthenticatorData(
    new Uint8Array(authData),
  )
  if (!credentialID || !credentialPublicKey) return false
  const behindId = Buffer.concat([credentialPublicKey, extensionsDataBuffer ?? Buffer.alloc(0)])
  const key = isoCBOR.decodeFirst<Cbor>(credentialPublicKey)
  return (
    isSame(behindId, authData.subarray(BYTES_BEFORE_ID + credentialID.length)) &&
    key instanceof Map &&
    canVerify(key)
  )
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

/** The statement that consumes the assertion checks the counter. */
export async function readAssertion(
  relyingParty: RelyingParty,
  {
    response,
    challenge,
    passkey,
    isDiscovered,
  }: {
    response: AssertionResponse
    challenge: string
    passkey: Pick<NewPasskey, 'credentialId' | 'publicKey' | 'backupEligible'> & { handle: Buffer }
    /** Without an email, only the passkey identifies the user, so it must name its owner. */
    isDiscovered: boolean
  },
) {
  try {
    const { clientDataJSON, authenticatorData, signature, userHandle } = response.response
    if (!isFromOwnPage(clientDataJSON)) return null
    if (response.id !== passkey.credentialId.toString('base64url')) return null
    const { verifyAuthenticationResponse } = await library()
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: {
        ...response,
        clientExtensionResults: {},
        response: { clientDataJSON, authenticatorData, signature },
      },
      ...expectedOf(relyingParty, challenge),
      credential: { id: response.id, publicKey: new Uint8Array(passkey.publicKey), counter: 0 },
    })
    // Compared last, so that the time does not reveal whether a passkey is known.
    const isOwner = userHandle ? userHandle === passkey.handle.toString('base64url') : !isDiscovered
    const backupEligible = authenticationInfo.credentialDeviceType === 'multiDevice'
    if (!verified || !isOwner || backupEligible !== passkey.backupEligible) return null
    return { signCount: authenticationInfo.newCounter, backupEligible }
  } catch {
    return null
  }
}

/** Refuses frames of different origins (section 5.8.1). */
function isFromOwnPage(clientDataJson: string): boolean {
  const { crossOrigin = false, topOrigin } = readClientData(clientDataJson) ?? { crossOrigin: 'unknown' }
  return crossOrigin === false && topOrigin === undefined
}

/** Stricter than the library: null unless it is a JSON object. */
function readClientData(encoded: string): Record<string, unknown> | null {
  try {
    const data: unknown = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'))
    return typeof data === 'object' && data !== null ? { ...data } : null
  } catch {
    return null
  }
}
