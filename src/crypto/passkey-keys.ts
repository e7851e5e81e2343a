import { createPublicKey, type JsonWebKeyInput } from 'node:crypto'

/** Rejects unusable passkey keys early: without attestation, the first signature comes with the next sign-in. */

export const ALGORITHMS = [-8, -7, -257] // EdDSA, ES256 and RS256 (RFC 9053; RFC 8812)

/** Replaces a passkey that is not found: the base point of P-256 (SEC 2, section 2.4.2). */
export const NOBODYS_KEY = Buffer.from(
  'a50102032620012158206b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296' +
    '2258204fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5',
  'hex',
)

const MIN_MODULUS_BITS = 2048
const MAX_MODULUS_BITS = 16_384
const MAX_EXPONENT = 2n ** 64n - 1n

export function canVerify(key: Map<unknown, unknown>): boolean {
  // Label 1 is the type, 3 the algorithm (RFC 9052, section 7.1); negative labels differ by type.
  const [type, algorithm] = [key.get(1), key.get(3)]
  if (algorithm === -8) return type === 1 && key.get(-1) === 6 && isEd25519(key.get(-2))
  if (algorithm === -7) return type === 2 && key.get(-1) === 1 && isP256(key.get(-2), key.get(-3))
  return algorithm === -257 && type === 3 && isRsa(key.get(-1), key.get(-2))
}

function isP256(x: unknown, y: unknown): boolean {
  if (!isField(x) || !isField(y)) return false
  return importKey({ kty: 'EC', crv: 'P-256', x: base64url(x), y: base64url(y) }) !== null
}

function isRsa(modulus: unknown, exponent: unknown): boolean {
  if (!(modulus instanceof Uint8Array && exponent instanceof Uint8Array)) return false
  const details = importKey({ kty: 'RSA', n: base64url(modulus), e: base64url(exponent) })
  const { modulusLength = 0, publicExponent = 0n } = details ?? {}
  return (
    modulusLength >= MIN_MODULUS_BITS &&
    modulusLength <= MAX_MODULUS_BITS &&
    (modulus.at(-1) ?? 0) % 2 === 1 &&
    publicExponent >= 3n &&
    publicExponent % 2n === 1n &&
    publicExponent <= MAX_EXPONENT
  )
}

function importKey(key: JsonWebKeyInput['key']) {
  try {
    return createPublicKey({ key, format: 'jwk' }).asymmetricKeyDetails ?? null
  } catch {
    return null
  }
}

const P = 2n ** 255n - 19n

/** OpenSSL imports Ed25519 points unchecked (RFC 8032, section 5.1.3). With x = 0, every signature would verify. */
function isEd25519(bytes: unknown): boolean {
  if (!isField(bytes)) return false
  const y = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`) & (2n ** 255n - 1n)
  // x² = (y² - 1) / (d y² + 1), d = -121665 / 121666. The product is a square exactly if the quotient is.
  const square = (y * y - 1n) * 121_666n * (121_666n - 121_665n * y * y)
  return y < P && powerModP(((square % P) + P) % P, (P - 1n) / 2n) === 1n
}

function powerModP(base: bigint, exponent: bigint): bigint {
  let power = 1n
  for (const bit of exponent.toString(2)) {
    power = (power * power) % P
    if (bit === '1') power = (power * base) % P
  }
  return power
}

/** 32 bytes, with leading zeros (RFC 9053, section 7.1.1). */
function isField(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array && value.length === 32
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url')
}
