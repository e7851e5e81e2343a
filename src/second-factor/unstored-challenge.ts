import { createHash } from 'node:crypto'
import type { Digests } from '../crypto/digests.ts'
import type { SessionKind } from '../database/schema.ts'
import type { System } from '../system.ts'
import { CHALLENGE_MS } from './challenges.ts'

/**
 * The challenge of a sign-in by passkey alone: random bytes, its end and its mode, with a code that shows that a service made
 * it. Anybody can ask for one, so nothing is stored until it is used.
 */

const MODES: readonly SessionKind[] = ['token', 'cookie']
const NONCE_BYTES = 16
const HEAD_BYTES = 1 + 6 + NONCE_BYTES
const PURPOSE = 'sign-in by passkey'

interface Parts {
  system: Pick<System, 'randomBytes'>
  digests: Digests
}

interface Unstored {
  mode: SessionKind
  expiresAt: Date
  /** By which it is stored once it is used. */
  hash: Buffer
}

/** In base64url. */
export function issueUnstored({ system, digests }: Parts, mode: SessionKind, now: number): string {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt8(MODES.indexOf(mode), 0)
  head.writeUIntBE(now + CHALLENGE_MS, 1, 6)
  system.randomBytes(NONCE_BYTES).copy(head, 7)
  const { digest } = digests.current(PURPOSE, head.toString('base64url'))
  return Buffer.concat([head, digest]).toString('base64url')
}

/** Null unless a service has made it, less than 5 minutes ago. */
export function readUnstored(
  { digests }: Pick<Parts, 'digests'>,
  challenge: string,
  now: number,
): Unstored | null {
  const bytes = Buffer.from(challenge, 'base64url')
  // One spelling for each challenge, so that none is used twice.
  if (bytes.length <= HEAD_BYTES || bytes.toString('base64url') !== challenge) return null
  const [head, code] = [bytes.subarray(0, HEAD_BYTES), bytes.subarray(HEAD_BYTES)]
  if (!digests.matches(code, PURPOSE, head.toString('base64url'))) return null
  const mode = MODES[head.readUInt8(0)]
  const expiresAt = head.readUIntBE(1, 6)
  if (!mode || expiresAt <= now) return null
  return { mode, expiresAt: new Date(expiresAt), hash: createHash('sha256').update(bytes).digest() }
}
