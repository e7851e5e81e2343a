import { type NamedCompany, readNamedCompany } from '../company/handles.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { digestServicePassword } from '../crypto/service-password.ts'
import type { SessionKind } from '../database/schema.ts'
import { invalidField } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { normalizeEmail } from '../http/email-address.ts'
import type { Received } from '../limits/client.ts'
import type { ServiceLimits } from './service-limits.ts'

/** A sign-in by password, as the limits, the look-up, and the audit trail take it. */
export interface Attempt extends Received {
  mode: SessionKind
  /** The value of the device cookie. */
  device: string | undefined
  /** Its session ends when the new one opens. */
  formerCookie: string | undefined
  company: ReturnType<typeof readNamedCompany>
  email: string
  password: string
  /** Null unless the password has the form of service passwords. */
  digest: Buffer | null
  servicePassword: ServiceLimits
}

/** @throws Problem invalid_request */
export function readAttempt(
  { opaque }: Pick<Context, 'opaque'>,
  { companyId, company, ...given }: NamedCompany & Omit<Attempt, 'company' | 'digest'>,
): Attempt {
  if (isTooLong(given.password)) throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
  return {
    ...given,
    company: readNamedCompany({ companyId, company }),
    // E-mails have several spellings; limits and audit entries use one.
    email: normalizeEmail(given.email),
    digest: digestServicePassword(opaque, given.password),
  }
}
