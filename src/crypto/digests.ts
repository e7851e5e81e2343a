import { createHmac, timingSafeEqual } from 'node:crypto'
import type { MasterKey } from '../config-forms.ts'
import { deriveKey } from './sealing.ts'

/**
 * Keyed digests of short or long-lived codes, and the codes that show that a challenge is ours: without the master key, a
 * copy of the database tells nothing about them, and nobody can make one.
 */

/** A digest under a key that is derived from a master key. */
export interface KeyedDigest {
  keyId: string
  digest: Buffer
}

export interface Digests {
  /** The master keys that are configured. */
  keyIds: string[]
  /** The digest of a text by each master key. The first is the one to store. */
  of(...parts: string[]): KeyedDigest[]
  /** The digest to store. */
  current(...parts: string[]): KeyedDigest
  /** Whether a digest of the text is this one. In constant time. */
  matches(digest: Buffer, ...parts: string[]): boolean
}

export function createDigests(masterKeys: readonly MasterKey[]): Digests {
  const keys = masterKeys.map(({ id, key }) => ({ keyId: id, key: deriveKey(key, 'second factors') }))
  const of = (...parts: string[]) =>
    keys.map(({ keyId, key }) => ({
      keyId,
      digest: createHmac('sha256', key).update(JSON.stringify(parts)).digest(),
    }))
  return {
    keyIds: keys.map(({ keyId }) => keyId),
    of,
    current(...parts) {
      const [current] = of(...parts)
      if (!current) throw new Error('digests need a master key')
      return current
    },
    matches: (digest, ...parts) =>
      of(...parts).some((one) => one.digest.length === digest.length && timingSafeEqual(one.digest, digest)),
  }
}
