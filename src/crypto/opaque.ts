import { createHash } from 'node:crypto'

/** Opaque credentials: 256 random bits. Only a hash is stored. So many bits need no slow hash. */

const FORM = /^[A-Za-z0-9_-]{43}$/

export function generateOpaque(randomBytes: (size: number) => Buffer): string {
  return randomBytes(32).toString('base64url')
}

/** The SHA-256 by which a credential is stored and found; null if the text cannot be a credential. */
export function hashOpaque(credential: string): Buffer | null {
  return FORM.test(credential) ? createHash('sha256').update(credential).digest() : null
}
