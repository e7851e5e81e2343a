import type { Kysely } from 'kysely'
import type { Config } from '../config.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import type { Counters } from '../limits/counters.ts'
import { isLinked, LINKED_LETTERS, type LinkedKind, NOTICES } from '../mail/letters.ts'
import type { DueMail } from '../mail/repository.ts'
import type { ComposedLetter } from '../mail/sender.ts'
import { issueToken } from '../one-time-token/service.ts'
import type { System } from '../system.ts'
import { isActive } from './account.ts'
import { findAccountsByEmail } from './identity-repository.ts'
import { findActiveCompanyName } from './repository.ts'

/**
 * Turns a queued mail into a letter at sending time. It reads the account and makes the token only then: no
 * row ever holds a token, and a delayed mail is not outdated.
 */

interface Context {
  db: Kysely<Database>
  config: Pick<Config, 'publicUrl' | 'limits'>
  system: System
  counters: Counters
}

type ComposeMail = (mail: DueMail, now: number) => Promise<ComposedLetter | null>

/** The composer returns null if the mail has no recipient, exceeds the limit, or a later request exists. */
export function createMailComposer(context: Context): ComposeMail {
  return async (mail, now) => {
    const recipient = await findRecipient(context, mail, now)
    if (!recipient) return null
    const { companyId, kind, data, createdAt: requestedAt } = mail
    const { name, companyName } = recipient
    const about = { ...data, companyId, name, companyName, requestedAt }
    if (!isLinked(kind)) return NOTICES[kind](about)
    const link = await newLink(context, kind, mail, now)
    return link && { ...LINKED_LETTERS[kind].write(about, link), whenSent: link.replaceOlder }
  }
}

interface Recipient {
  name: string
  companyName: string
}

async function findRecipient(context: Context, mail: DueMail, now: number): Promise<Recipient | null> {
  const { companyId, recipient: email, kind, data } = mail
  const [account] = await findAccountsByEmail(context.db, [{ companyId, email }])
  if (kind === 'invitation') {
    if (account || data.role === undefined) return null
    const companyName = await findActiveCompanyName(context.db, companyId)
    return companyName === undefined ? null : { name: email, companyName }
  }
  if (!account || !isActive(account)) return null
  if (account.emailVerifiedAt === null) return (await canMailUnproven(context, mail, now)) ? account : null
  return kind === 'verify_email' ? null : account
}

/** Limits mail to unverified e-mails across companies, because anyone can cause it. Retries do not count. */
async function canMailUnproven(
  { counters, config }: Context,
  { recipient, attempts }: DueMail,
  now: number,
): Promise<boolean> {
  if (attempts > 1) return true
  try {
    await counters.consume(config.limits.mail, [recipient], now)
    return true
  } catch (error) {
    if (error instanceof Problem && error.code === 'rate_limited') return false
    throw error
  }
}

/** Returns a link with a new token; null if a token of a later request exists. */
async function newLink(context: Context, kind: LinkedKind, mail: DueMail, now: number) {
  const { purpose, page } = LINKED_LETTERS[kind]
  const { companyId, recipient: email, createdAt: requestedAt } = mail
  const role = purpose === 'invite' ? mail.data.role : undefined
  const issued = await issueToken(context, companyId, { purpose, email, role, requestedAt, now })
  return (
    issued && {
      // In the fragment, which browsers do not send, so no server can log it (ASVS 14.2.1).
      url: `${context.config.publicUrl}/${page}#token=${issued.token}`,
      until: issued.expiresAt,
      replaceOlder: issued.replaceOlder,
    }
  )
}
