import { hash } from 'node:crypto'
import { SERVICE_PREFIX } from './password-policy.ts'

/** 256 random bits, so a fast hash is enough. With several cells, a credential starts with the name of its cell (`eu1.…`). */

const RANDOM = /^[A-Za-z0-9_-]{43}$/

export type Opaque = ReturnType<typeof createOpaque>

export function createOpaque(cell: string | undefined, randomBytes: (size: number) => Buffer) {
  const tag = cell === undefined ? '' : `${cell}.`
  return {
    tag,
    generate: (kind = '') => `${tag}${kind}${randomBytes(32).toString('base64url')}`,
    /** Null for a different form, kind, or cell. Credentials from before cells have no tag. */
    hash(credential: string, kind = ''): Buffer | null {
      const isTagged = tag !== '' && credential.startsWith(tag)
      const rest = isTagged ? credential.slice(tag.length) : credential
      const random = rest.slice(kind.length)
      if (!rest.startsWith(kind) || !RANDOM.test(random)) return null
      // The hash covers the tag, but not the kind.
      return hash('sha256', isTagged ? credential : random, 'buffer')
    },
  }
}

/** Browsers sign this part as the challenge, because the tag is not base64url. */
export function randomPartOf(credential: string): string {
  return credential.slice(credential.indexOf('.') + 1)
}

/** Service passwords: a prefix, by which sign-in recognizes them, then an opaque credential with its tag. */
const SERVICE_CREDENTIAL = /^(?:[a-z0-9]{1,8}\.)?[A-Za-z0-9_-]{43}$/
/** For passwords of a different cell. No password has this digest. */
const NOBODYS_DIGEST = Buffer.alloc(32)
const HINT_LENGTH = 4

export function generateServicePassword(opaque: Opaque) {
  const password = `${SERVICE_PREFIX}${opaque.generate()}`
  const digest = digestServicePassword(opaque, password)
  if (!digest) throw new Error('a new service password has no digest')
  return { password, digest, hint: password.slice(-HINT_LENGTH) }
}

export function digestServicePassword(opaque: Opaque, password: string): Buffer | null {
  const credential = password.slice(SERVICE_PREFIX.length)
  if (!password.startsWith(SERVICE_PREFIX) || !SERVICE_CREDENTIAL.test(credential)) return null
  return opaque.hash(credential) ?? NOBODYS_DIGEST
}
