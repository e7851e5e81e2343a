import { DEFAULT_ASSIGNMENTS } from '../company/account.ts'
import { checkEmail } from '../company/checks.ts'
import { findAccountsByEmail } from '../company/identity-repository.ts'
import { alreadyMember, noSuchCompany } from '../company/problems.ts'
import { findActiveCompany } from '../company/repository.ts'
import { requireRole } from '../company/service.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { deleteInvitationMails } from '../mail/repository.ts'
import { deleteInvitationTokens } from '../one-time-token/repository.ts'
import type { Act, Actor } from '../session/acts.ts'
import { newId, type System } from '../system.ts'
import { asManager } from './changes.ts'
import * as repository from './invitation-repository.ts'
import { checkAdminCode, consumeAdminCode } from './new-admin.ts'
import { type Quotas, requireFewInvitations, requireRoomForMember } from './quotas.ts'

/** Invitations: who invites must have the right to until the link is followed. */

interface NewInvitation {
  email: string
  role: string
  assignments?: string[] | undefined
}

/**
 * In place of an older one to the same e-mail.
 * @throws Problem not_found unless the company is active, already_member, quota_reached, invalid_request
 */
export async function open(
  { system, config: { quotas } }: { system: System; config: { quotas: Quotas } },
  act: Act,
  { role, assignments = DEFAULT_ASSIGNMENTS, ...given }: NewInvitation,
  now: number,
  sender: { userId: string; network: string } | null = null,
): Promise<{ id: string; email: string }> {
  const { tx, companyId } = act
  const email = checkEmail(given.email)
  if ((await findActiveCompany(tx, companyId)) === undefined) throw noSuchCompany()
  await requireRole(tx, role)
  const [account] = await findAccountsByEmail(tx, [{ companyId, email }])
  if (account) throw alreadyMember()
  const mailId = await queueInvitation(act, { email, role }, sender?.network)
  const id = newId(system)
  const invitedBy = sender?.userId ?? null
  const row = { id, email, role, assignments, invitedBy, mailId, createdAt: new Date(now) }
  // The invitation is locked before the quotas, as in `resend`.
  await repository.putInvitation(tx, companyId, row)
  await requireRoomForMember(tx, companyId, { email, now: new Date(now) }, quotas)
  return { id, email }
}

/** With the network of a member its mails share what the recipient gets, since anybody can be invited. */
async function queueInvitation(
  { mail }: Act,
  { email: recipient, role }: { email: string; role: string },
  network?: string,
): Promise<string> {
  return await mail({ kind: 'invitation', recipient, data: { role }, network })
}

/** @throws Problem permission_denied, already_member, quota_reached, invalid_request, rate_limited */
export async function invite(
  context: Context,
  actor: Actor,
  { mailCode, ...invitation }: NewInvitation & { mailCode?: string | undefined },
) {
  const { session, client, now } = actor
  const sender = { userId: session.userId, network: client.network }
  const isAdmin = invitation.role === 'admin'
  return await counted(context, actor, async () => {
    const codeDigest = await checkAdminCode(context, actor, isAdmin, mailCode)
    return await asManager(context, actor, async (act) => {
      const { tx, companyId, audit } = act
      if (isAdmin) await consumeAdminCode(tx, actor, codeDigest)
      const { id, email } = await open(context, act, invitation, now, sender)
      await requireFewInvitations(tx, companyId, { email, now: new Date(now) }, context.config.quotas)
      await audit('invite', { subject: email, details: { role: invitation.role } })
      return await requireInvitation(tx, companyId, id)
    })
  })
}

/** @throws Problem permission_denied, not_found, quota_reached, rate_limited */
export async function resend(context: Context, actor: Actor, id: string): Promise<void> {
  const { client, now } = actor
  await counted(context, actor, async () => {
    await asManager(context, actor, async (act) => {
      const { tx, companyId, audit } = act
      const { email, role } = await requireInvitation(tx, companyId, id)
      const mailId = await queueInvitation(act, { email, role }, client.network)
      if (!(await repository.renewInvitation(tx, companyId, { id, mailId, now: new Date(now) })))
        throw noSuchInvitation()
      // It can have lapsed, and others have taken its place.
      const { quotas } = context.config
      await requireRoomForMember(tx, companyId, { email, now: new Date(now) }, quotas)
      await requireFewInvitations(tx, companyId, { email, now: new Date(now) }, quotas)
      await audit('invite_resend', { subject: email })
    })
  })
}

/** No link of it works from the commit on. @throws Problem permission_denied, not_found */
export async function withdraw(context: Context, actor: Actor, id: string): Promise<void> {
  const { companyId } = actor.session
  const { email } = await requireInvitation(context.db, companyId, id)
  await asManager(
    context,
    actor,
    async ({ tx, audit }) => {
      if (!(await repository.deleteInvitation(tx, companyId, id))) throw noSuchInvitation()
      await audit('invite_withdraw', { subject: email })
    },
    // What is locked before users.
    async (tx) => {
      await deleteInvitationMails(tx, companyId, email)
      await deleteInvitationTokens(tx, companyId, email)
    },
  )
}

async function counted<Result>(
  { counters, config }: Context,
  actor: Actor,
  work: () => Promise<Result>,
): Promise<Result> {
  return await counters.consumeFor(config.limits.invitations, [actor.session.companyId], actor, work)
}

async function requireInvitation(db: Context['db'], companyId: string, id: string) {
  const found = await repository.findInvitation(db, companyId, id)
  if (!found) throw noSuchInvitation()
  return found
}

function noSuchInvitation(): Problem {
  return new Problem('not_found', 'The company has no open invitation with this id.')
}
