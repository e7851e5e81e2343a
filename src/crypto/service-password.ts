import type { Opaque } from './opaque.ts'
import { SERVICE_PREFIX } from './password-policy.ts'

/** Passwords of service members: an opaque credential, tag included, after the prefix by which sign-in knows them. */

const FORM = /^(?:[a-z0-9]{1,8}\.)?[A-Za-z0-9_-]{43}$/
/** Of a password of another cell. No password has this digest. */
const NOBODYS_DIGEST = Buffer.alloc(32)
const HINT_LENGTH = 4

export interface ServicePassword {
  password: string
  digest: Buffer
  hint: string
}

export function generateServicePassword(opaque: Opaque): ServicePassword {
  const password = `${SERVICE_PREFIX}${opaque.generate()}`
  const digest = digestServicePassword(opaque, password)
  if (!digest) throw new Error('a service password has the form of one')
  return { password, digest, hint: password.slice(-HINT_LENGTH) }
}

/** Null for passwords of another form. Which member, if any, has it is not known by it. */
export function digestServicePassword(opaque: Opaque, password: string): Buffer | null {
  const credential = password.slice(SERVICE_PREFIX.length)
  if (!password.startsWith(SERVICE_PREFIX) || !FORM.test(credential)) return null
  return opaque.hash(credential) ?? NOBODYS_DIGEST
}
