import { hash } from 'node:crypto'
import { SERVICE_PREFIX } from './password-policy.ts'

/**
 * Opaque credentials: 256 random bits, so a fast hash is enough. Only the hash is stored. They name the cell, the deployment
 * that knows them (`eu1.…`), where there is one, so that what routes between cells need not ask each.
 */

const RANDOM = /^[A-Za-z0-9_-]{43}$/

export type Opaque = ReturnType<typeof createOpaque>

export function createOpaque(cell: string | undefined, randomBytes: (size: number) => Buffer) {
  const tag = cell === undefined ? '' : `${cell}.`
  return {
    /** What its credentials begin with; empty without a cell. */
    tag,
    /** `kind` stands between the tag and the random part. */
    generate: (kind = '') => `${tag}${kind}${randomBytes(32).toString('base64url')}`,
    /** Null for a different form, kind, or cell. Values without a tag are older. */
    hash(credential: string, kind = ''): Buffer | null {
      const isTagged = tag !== '' && credential.startsWith(tag)
      const rest = isTagged ? credential.slice(tag.length) : credential
      const random = rest.slice(kind.length)
      if (!rest.startsWith(kind) || !RANDOM.test(random)) return null
      // The tag is a part of the credential, the kind is what its row is found by.
      return hash('sha256', isTagged ? credential : random, 'buffer')
    },
  }
}

/** What a browser signs as a challenge: the tag is no base64url. */
export function randomPartOf(credential: string): string {
  return credential.slice(credential.indexOf('.') + 1)
}

/** Passwords of service members: an opaque credential, tag included, after the prefix by which sign-in knows them. */

const SERVICE_CREDENTIAL = /^(?:[a-z0-9]{1,8}\.)?[A-Za-z0-9_-]{43}$/
/** Of a password of another cell. No password has this digest. */
const NOBODYS_DIGEST = Buffer.alloc(32)
const HINT_LENGTH = 4

export function generateServicePassword(opaque: Opaque) {
  const password = `${SERVICE_PREFIX}${opaque.generate()}`
  const digest = digestServicePassword(opaque, password)
  if (!digest) throw new Error('a service password has the form of one')
  return { password, digest, hint: password.slice(-HINT_LENGTH) }
}

/** Null for passwords of another form. Which member, if any, has it is not known by it. */
export function digestServicePassword(opaque: Opaque, password: string): Buffer | null {
  const credential = password.slice(SERVICE_PREFIX.length)
  if (!password.startsWith(SERVICE_PREFIX) || !SERVICE_CREDENTIAL.test(credential)) return null
  return opaque.hash(credential) ?? NOBODYS_DIGEST
}
