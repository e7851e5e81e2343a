import { createHash } from 'node:crypto'

/**
 * Opaque credentials: 256 random bits, so a fast hash is enough. Only the hash is stored. They name the cell, the deployment
 * that knows them (`eu1.…`), where there is one, so that what routes between cells need not ask each.
 */

const FORM = /^[A-Za-z0-9_-]{43}$/

export interface Opaque {
  /** What its credentials begin with; empty without a cell. */
  tag: string
  /** `kind` stands between the tag and the random part. */
  generate(kind?: string): string
  /** Null for another form, kind or cell. What has no tag is older. */
  hash(credential: string, kind?: string): Buffer | null
}

export function createOpaque(cell: string | undefined, randomBytes: (size: number) => Buffer): Opaque {
  const tag = cell === undefined ? '' : `${cell}.`
  return {
    tag,
    generate: (kind = '') => `${tag}${kind}${randomBytes(32).toString('base64url')}`,
    hash(credential, kind = '') {
      const isTagged = tag !== '' && credential.startsWith(tag)
      const rest = isTagged ? credential.slice(tag.length) : credential
      const random = rest.slice(kind.length)
      if (!rest.startsWith(kind) || !FORM.test(random)) return null
      // The tag is a part of the credential, the kind is what its row is found by.
      return createHash('sha256')
        .update(isTagged ? credential : random)
        .digest()
    },
  }
}

/** What a browser signs as a challenge: the tag is no base64url. */
export function randomPartOf(credential: string): string {
  return credential.slice(credential.indexOf('.') + 1)
}
