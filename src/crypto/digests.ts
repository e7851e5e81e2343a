import { createHmac, timingSafeEqual } from 'node:crypto'
import type { MasterKey } from '../config/forms.ts'
import { deriveKey } from './sealing.ts'

/** Keyed digests: without the master key, a copy of the database reveals no code, and none can be forged. */

export interface KeyedDigest {
  keyId: string
  digest: Buffer
}

export interface Digests {
  keyIds: string[]
  /** By each master key; the first is the one to store. */
  of(...parts: string[]): KeyedDigest[]
  current(...parts: string[]): KeyedDigest
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
