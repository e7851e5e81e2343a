import { createHash } from 'node:crypto'

/** Opaque credentials: 256 random bits, of which only a hash is stored; so many bits need no slow hash. */

const FORM = /^[A-Za-z0-9_-]{43}$/

export function generateOpaque(randomBytes: (size: number) => Buffer): string {
  return randomBytes(32).toString('base64url')
}

/** The SHA-256 to look a credential up by; null for what cannot be one. */
export function hashOpaque(credential: string): Buffer | null {
  return FORM.test(credential) ? createHash('sha256').update(credential).digest() : null
}
