import type { Account } from '../company/account.ts'
import * as identity from '../company/identity-repository.ts'
import { findActiveCompany } from '../company/repository.ts'
import { createDigests } from '../crypto/digests.ts'
import { createOpaque } from '../crypto/opaque.ts'
import type { Context } from '../http/context.ts'
import type { DeliveryOptions } from '../mail/delivery.ts'
import { isLinked, LINKED_LETTERS, type LinkedKind, writeLinkedLetter, writeNotice } from '../mail/letters.ts'
import type { LetterContext, MailData } from '../mail/notices.ts'
import type { DueMail } from '../mail/repository.ts'
import { issueToken } from '../one-time-token/service.ts'
import { isCodeMail, issueCode } from '../second-factor/mailbox.ts'
import { isActive } from '../session/session.ts'
import { findInvitationTo, noteExpiry } from './invitation-repository.ts'
import { findMember, listAdditions } from './repository.ts'

/** Letters are written when they are sent: no row contains a token, and a delayed email is up to date. */

type Composing = Pick<Context, 'db' | 'config' | 'system'>
type Writing = Composing & Pick<Context, 'digests' | 'opaque'>

/** The composer returns null if the email has no recipient. A letter is null if a later request exists. */
export function createMailComposer(context: Composing): DeliveryOptions['compose'] {
  const { config, system } = context
  const digests = createDigests(config.masterKeys)
  const opaque = createOpaque(config.cell, system.randomBytes)
  const writing = { ...context, digests, opaque }
  return async (mail, now) => {
    const found = await findRecipient(context, mail)
    if (!found) return null
    const { companyId, kind, data, createdAt: requestedAt } = mail
    const about = { ...data, ...found, ...(await namesIn(context, companyId, data, found)), requestedAt }
    if (data.newAdmin && !about.admin) return null
    if (isCodeMail(kind) && found.userId !== undefined) {
      const member = { companyId, userId: found.userId, sessionId: data.sessionId ?? null }
      return async () => writeNotice(kind, { ...about, code: await issueCode(writing, member, kind, now) })
    }
    if (!isLinked(kind)) return async () => writeNotice(kind, about)
    return async () => {
      const link = await newLink(writing, { kind, mail, recipient: found, now })
      return link && { ...writeLinkedLetter(kind, about, link), whenSent: link.noteSent }
    }
  }
}

type Recipient = Pick<LetterContext, 'name' | 'companyName' | 'isProven'> &
  Partial<Pick<LetterContext, 'signInName' | 'role' | 'invitedBy' | 'companies' | 'userId'>>

/** Null if the email must not be sent. */
async function findRecipient(context: Composing, mail: DueMail): Promise<Recipient | null> {
  const { db } = context
  const { companyId, recipient: email, kind, data } = mail
  if (kind === 'companies') return await companiesOf(context, email)
  if (data.userId !== undefined) {
    // `recipient` can differ from the account's current email.
    const account = await identity.findPendingEmail(db, companyId, data.userId)
    if (!account) return null
    const { userStatus, companyStatus, pendingEmail } = account
    // Disabled members can undo changes too.
    const isUndo = isLinked(kind) && LINKED_LETTERS[kind].purpose === 'undo'
    const isThere = isUndo ? userStatus !== 'deleted' && companyStatus !== 'deleting' : isActive(account)
    if (!isThere || (kind === 'email_change' && pendingEmail !== email)) return null
    return { ...namesOf(companyId, account), isProven: kind !== 'email_change' }
  }
  const [account] = await identity.findAccountsByEmail(db, [{ companyId, email }])
  if (kind === 'invitation') {
    const invitation = account ? undefined : await findInvitationTo(db, companyId, email)
    const company = invitation && (await findActiveCompany(db, companyId))
    if (!company) return null
    const { role, invitedBy } = invitation
    const names = namesOf(companyId, { name: email, ...company })
    return { ...names, isProven: false, role, invitedBy: invitedBy ?? undefined }
  }
  // Nobody reads the emails of service accounts.
  if (!account || !isActive(account) || account.userKind === 'service') return null
  const isProven = account.emailVerifiedAt !== null
  // A notice can contain names, so it goes only to a verified email.
  if (isProven ? kind === 'verify_email' : !isLinked(kind)) return null
  const names = namesOf(companyId, account)
  // A company gets its handle at the first verification. Its id is not shown until then.
  const signInName = isProven ? names.signInName : undefined
  return { ...names, signInName, isProven, userId: account.userId }
}

/** Read when the email is sent, so that it does not name deleted members. */
async function namesIn(
  { db }: Composing,
  companyId: string,
  { additionsSince, newAdmin }: MailData,
  { userId }: Recipient,
): Promise<Pick<LetterContext, 'additions' | 'admin'>> {
  if (additionsSince !== undefined && userId !== undefined)
    return { additions: await listAdditions(db, companyId, { userId, since: new Date(additionsSince) }) }
  const member = newAdmin && (await findMember(db, companyId, newAdmin.userId))
  if (!member) return {}
  const isInvited = 'invitedBy' in newAdmin
  const by = isInvited ? newAdmin.invitedBy : newAdmin.changedBy
  const name =
    by === null ? 'an operator' : ((await findMember(db, companyId, by))?.name ?? 'a deleted member')
  const reason = `They ${isInvited ? 'accepted an invitation' : 'got the role'} from ${name}.`
  return { admin: { name: member.name, email: member.email, reason } }
}

function namesOf(
  companyId: string,
  { name, companyName, companyHandle }: Pick<Account, 'name' | 'companyName' | 'companyHandle'>,
) {
  return { name, companyName, signInName: companyHandle ?? companyId }
}

async function companiesOf({ db, config }: Pick<Context, 'db' | 'config'>, email: string) {
  const found = await identity.listCompaniesOfEmailAcrossCompanies(db, email)
  if (found.length === 0) return null
  const companies = found.map(({ id, handle, name }) => {
    const signInName = handle ?? id
    return { name, signInName, url: `${config.pagesUrl}/sign-in#company=${signInName}` }
  })
  return { name: email, companyName: '', isProven: true, companies }
}

/** Null if a later request has a token, or the email is no longer queued. */
async function newLink(
  { db, config, opaque }: Writing,
  { kind, mail, recipient, now }: { kind: LinkedKind; mail: DueMail; recipient: Recipient; now: number },
) {
  const { purpose, page } = LINKED_LETTERS[kind]
  const { companyId, mailId, recipient: email, createdAt, data } = mail
  const { role = null } = recipient
  const { userId = null, isFactorProven = false } = data
  const about = { purpose, email, role, userId, isFactorProven, mailId, createdAt, now }
  const issued = await issueToken({ db, opaque }, companyId, about)
  if (!issued) return null
  const { token, expiresAt, noteSent } = issued
  if (purpose === 'invite') await noteExpiry(db, companyId, { mailId, email, expiresAt })
  // The page has no other source: undo links have no preview, and verification links may have expired.
  const company = purpose === 'undo' ? recipient.companyName : companyId
  const isNamed = purpose === 'undo' || purpose === 'verify'
  const names = isNamed ? `&${new URLSearchParams({ company, email })}` : ''
  // Browsers do not send the fragment, so no server can log the token (ASVS 14.2.1).
  return { url: `${config.pagesUrl}/${page}#token=${token}${names}`, until: expiresAt, noteSent }
}
