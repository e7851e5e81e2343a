import { createHmac, timingSafeEqual } from 'node:crypto'
import type { MasterKey } from '../config/forms.ts'
import { deriveKey } from './sealing.ts'

/** Keyed digests of codes: a copy of the database reveals none, and without the master key, no one can forge one. */

export interface KeyedDigest {
  keyId: string
  digest: Buffer
}

export type Digests = ReturnType<typeof createDigests>

export function createDigests(masterKeys: readonly MasterKey[]) {
  const keys = masterKeys.map(({ id, key }) => ({ keyId: id, key: deriveKey(key, 'second factors') }))
  /** One per master key. The first is the one to store. */
  const of = (...parts: string[]): KeyedDigest[] =>
    keys.map(({ keyId, key }) => ({
      keyId,
      digest: createHmac('sha256', key).update(JSON.stringify(parts)).digest(),
    }))
  return {
    keyIds: keys.map(({ keyId }) => keyId),
    of,
    current(...parts: string[]): KeyedDigest {
      const [current] = of(...parts)
      if (!current) throw new Error('digests need a master key')
      return current
    },
    matches: (digest: Buffer, ...parts: string[]) =>
      of(...parts).some((one) => one.digest.length === digest.length && timingSafeEqual(one.digest, digest)),
  }
}
