import type { Kysely } from 'kysely'
import type { Config } from '../config.ts'
import type { Database } from '../database/schema.ts'
import type { DeliveryOptions } from '../mail/delivery.ts'
import { isLinked, LINKED_LETTERS, type LinkedKind, writeLinkedLetter, writeNotice } from '../mail/letters.ts'
import type { DueMail } from '../mail/repository.ts'
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
  config: Pick<Config, 'publicUrl'>
  system: System
}

/** The composer returns null if the mail has no recipient; then, or if a later request exists, the letter is null. */
export function createMailComposer(context: Context): DeliveryOptions['compose'] {
  return async (mail, now) => {
    const recipient = await findRecipient(context, mail)
    if (!recipient) return null
    const { companyId, kind, data, createdAt: requestedAt } = mail
    const about = { ...data, ...recipient, companyId, requestedAt }
    if (!isLinked(kind)) return async () => writeNotice(kind, about)
    return async () => {
      const link = await newLink(context, kind, mail, now)
      return link && { ...writeLinkedLetter(kind, about, link), whenSent: link.replaceOlder }
    }
  }
}

interface Recipient {
  name: string
  companyName: string
  isProven: boolean
}

async function findRecipient({ db }: Context, mail: DueMail): Promise<Recipient | null> {
  const { companyId, recipient: email, kind, data } = mail
  const [account] = await findAccountsByEmail(db, [{ companyId, email }])
  if (kind === 'invitation') {
    if (account || data.role === undefined) return null
    const companyName = await findActiveCompanyName(db, companyId)
    return companyName === undefined ? null : { name: email, companyName, isProven: false }
  }
  if (!account || !isActive(account)) return null
  const isProven = account.emailVerifiedAt !== null
  // Nobody verifies twice, and a notice can have names, so it goes to no e-mail that nobody has proven.
  if (isProven ? kind === 'verify_email' : !isLinked(kind)) return null
  return { name: account.name, companyName: account.companyName, isProven }
}

/** Returns a link with a new token; null if a token of a later request exists, or the mail is no longer valid. */
async function newLink(context: Context, kind: LinkedKind, mail: DueMail, now: number) {
  const { purpose, page } = LINKED_LETTERS[kind]
  const { companyId, mailId, recipient: email, createdAt: requestedAt } = mail
  const role = purpose === 'invite' ? mail.data.role : undefined
  const issued = await issueToken(context, companyId, { purpose, email, role, mailId, requestedAt, now })
  return (
    issued && {
      // In the fragment, which browsers do not send, so no server can log it (ASVS 14.2.1).
      url: `${context.config.publicUrl}/${page}#token=${issued.token}`,
      until: issued.expiresAt,
      replaceOlder: issued.replaceOlder,
    }
  )
}
