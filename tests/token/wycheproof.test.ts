import { createPublicKey, createSecretKey, type KeyObject } from 'node:crypto'
import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { headerPartOf, isSignedBy } from '../../src/token/keys.ts'
import { decode } from '../support/forge.ts'

import vectors from './wycheproof.json' with { type: 'json' }

/**
 * Project Wycheproof's vectors for HS256 and ES256, by number and verdict. The file names their source and their
 * Apache-2.0 license. Left out are vectors whose verdict contradicts their text (367, 370, 372, 373), about a key's
 * metadata (354, 356), a repeated one (352), and a larger 379 (385). Their payloads are not JSON, which the library
 * requires. So the tests run only what precedes the payload: our check of the form, the pinned algorithm, and the
 * check of the signature. That check is ours for ES256, and the library's for HS256.
 */
const {
  verifySignature,
}: {
  verifySignature(algorithm: string, key: KeyObject, input: string, signature: string): boolean
} = createRequire(import.meta.url)('fast-jwt/src/crypto.js')

function accepts(jws: string, algorithm: string, key: KeyObject): boolean {
  const header = headerPartOf(jws)
  if (header === null || decode(header)['alg'] !== algorithm) return false
  if (algorithm === 'ES256') return isSignedBy(key, jws)
  const end = jws.lastIndexOf('.')
  try {
    return verifySignature(algorithm, key, jws.slice(0, end), jws.slice(end + 1))
  } catch {
    return false
  }
}

function keyOf({ k, ...jwk }: { kty: string; k?: string; crv?: string; x?: string; y?: string }): KeyObject {
  if (k !== undefined) return createSecretKey(Buffer.from(k, 'base64url'))
  return createPublicKey({ key: jwk, format: 'jwk' })
}

describe.each(vectors.groups)('$alg', ({ alg, key, ...vectors }) => {
  test.for(Object.entries(vectors.valid))(
    `${alg} signature %i of Wycheproof is accepted (ASVS 9.1.1, 11.2.1, 11.4.3)`,
    ([, jws]) => {
      expect(accepts(jws, alg, keyOf(key))).toBe(true)
    },
  )

  test.for(Object.entries(vectors.invalid))(
    `${alg} signature %i of Wycheproof is rejected (ASVS 9.1.1, 11.2.1, 11.4.3)`,
    ([, jws]) => {
      expect(accepts(jws, alg, keyOf(key))).toBe(false)
    },
  )
})
