import { createHash } from 'node:crypto'

/** Opaque credentials: 256 random bits, so a fast hash is enough. Only the hash is stored. */

const FORM = /^[A-Za-z0-9_-]{43}$/

export function generateOpaque(randomBytes: (size: number) => Buffer): string {
  return randomBytes(32).toString('base64url')
}

export function hashOpaque(credential: string): Buffer | null {
  return FORM.test(credential) ? createHash('sha256').update(credential).digest() : null
}
