import type { Sealer } from '../crypto/sealing.ts'
import type { Executor, Tx } from '../database/connect.ts'
import { codeOf } from '../database/faults.ts'
import { Problem } from '../errors.ts'
import { contextOf, generateKey } from './keys.ts'
import { insertKey, listKeys, resealKey, type StoredKey, setAllRevoked, setRevoked } from './repository.ts'

/** Longer than clients can cache the key set: 5 minutes. */
export const PUBLISH_AHEAD_SECONDS = 600

type Parts = Parameters<typeof generateKey>[0]

/** @throws if another rotation stores a key at the same time */
async function storeKey(tx: Tx, parts: Parts, when: Parameters<typeof generateKey>[1]) {
  const key = generateKey(parts, when)
  if (await insertKey(tx, key)) return key
  throw new Error('another rotation ran at the same time: run `keys list` to see its key')
}

/** For a new database. The service's role may not write keys. @throws Problem */
export async function addFirstKey(db: Executor, parts: Parts): Promise<void> {
  if ((await listKeys(db)).length > 0) return
  const createdAt = new Date(parts.system.now())
  const key = generateKey(parts, { sequence: 1, createdAt, signsFrom: createdAt })
  await insertKey(db, key).catch((error: unknown) => {
    if (codeOf(error) !== '42501') throw error
    throw new Problem(
      'unavailable',
      'The database has no access token key, and the role in DATABASE_URL cannot add one. Run `npm run admin -- migrate` with MASTER_KEYS as the owner of the tables.',
    )
  })
}

/** The first key signs immediately. */
export async function addKey(tx: Tx, parts: Parts, createdAt: Date): Promise<StoredKey> {
  const newest = (await listKeys(tx)).at(-1)
  const aheadMs = newest ? PUBLISH_AHEAD_SECONDS * 1000 : 0
  const signsFrom = new Date(createdAt.getTime() + aheadMs)
  return await storeKey(tx, parts, { sequence: (newest?.sequence ?? 0) + 1, createdAt, signsFrom })
}

/** Reseals keys with the current master key. @throws DecryptionError, before it writes, if a key does not open */
export async function resealKeys(db: Executor, sealer: Sealer): Promise<void> {
  const opened = (await listKeys(db)).map(({ keyId, sealedPrivateKey: before }) => ({
    keyId,
    before,
    privateKey: sealer.open(before, contextOf(keyId)),
  }))
  for (const { keyId, before, privateKey } of opened) {
    if (sealer.isCurrent(before)) continue
    await resealKey(db, keyId, { before, after: sealer.seal(privateKey, contextOf(keyId)) })
  }
}

/** The new key signs immediately. */
export async function replaceAllKeys(tx: Tx, parts: Parts, at: Date) {
  const revoked = await setAllRevoked(tx, at)
  const sequence = ((await listKeys(tx)).at(-1)?.sequence ?? 0) + 1
  return { key: await storeKey(tx, parts, { sequence, createdAt: at, signsFrom: at }), revoked }
}

/** Null if it needs no successor; undefined if unknown or revoked. */
export async function revokeKey(
  tx: Tx,
  parts: Parts,
  keyId: string,
  at: Date,
): Promise<StoredKey | null | undefined> {
  if (!(await setRevoked(tx, keyId, at))) return undefined
  const keys = await listKeys(tx)
  const revoked = keys.find((key) => key.keyId === keyId)
  const newest = keys.at(-1)
  if (!revoked || !newest || revoked.signsFrom > at) return null
  const isReplaced = keys.some(
    (key) => key.sequence > revoked.sequence && !key.revokedAt && key.signsFrom <= at,
  )
  if (isReplaced) return null
  // It signs from the same moment, so that every instance finds it, whatever its clock shows.
  const { signsFrom } = revoked
  return await storeKey(tx, parts, { sequence: newest.sequence + 1, createdAt: at, signsFrom })
}
