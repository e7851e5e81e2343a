import type { Static } from '@sinclair/typebox'
import { DEFAULT_ASSIGNMENTS } from '../company/account.ts'
import { checkEmail } from '../company/checks.ts'
import { findAccountsByEmail } from '../company/identity-repository.ts'
import { findActiveCompany } from '../company/repository.ts'
import { alreadyMember, noSuchCompany, requireRole } from '../company/service.ts'
import type { Config } from '../config/config.ts'
import type { Tx } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { deleteInvitationMails } from '../mail/repository.ts'
import { deleteInvitationTokens } from '../one-time-token/repository.ts'
import type { Act, Actor } from '../session/acts.ts'
import { newId, type System } from '../system.ts'
import { asManager, checkAdminCode, consumeAdminCode } from './changes.ts'
import * as repository from './invitation-repository.ts'
import { countMembers, lockQuotas } from './repository.ts'
import type { InvitationBody } from './schemas.ts'

/** The sender must keep the right to invite until the invitation is accepted. */

type Quotas = Config['quotas']

/** @throws Problem not_found unless the company is active, already_member, quota_reached, invalid_request */
export async function open(
  { system, config: { quotas } }: { system: System; config: { quotas: Quotas } },
  act: Act,
  given: Omit<Static<typeof InvitationBody>, 'mailCode'> & { network?: string; now: number },
): Promise<{ id: string; email: string }> {
  const { tx, companyId, memberId: invitedBy } = act
  const { role, assignments = DEFAULT_ASSIGNMENTS, network } = given
  const email = checkEmail(given.email)
  if ((await findActiveCompany(tx, companyId)) === undefined) throw noSuchCompany()
  await requireRole(tx, role)
  const [account] = await findAccountsByEmail(tx, [{ companyId, email }])
  if (account) throw alreadyMember()
  const now = new Date(given.now)
  // Emails to the recipient are limited by the member's network, because members can invite anyone.
  const mailId = await act.mail({ kind: 'invitation', recipient: email, data: { role }, network })
  const id = newId(system)
  // The invitation is locked before the quotas, as in `resend`.
  const row = { id, email, role, assignments, invitedBy, mailId, createdAt: now }
  await repository.putInvitation(tx, companyId, row)
  await requireRoom(tx, companyId, quotas, { email, now })
  return { id, email }
}

/** @throws Problem permission_denied, already_member, quota_reached, invalid_request, rate_limited */
export async function invite(
  context: Context,
  actor: Actor,
  { mailCode, ...invitation }: Static<typeof InvitationBody>,
) {
  const { counters, config } = context
  const { session, client, now } = actor
  const isAdmin = invitation.role === 'admin'
  return await counters.consumeFor(config.limits.invitations, [session.companyId], actor, async () => {
    const codeDigest = await checkAdminCode(context, actor, isAdmin, mailCode)
    return await asManager(context, actor, async (act) => {
      const { tx, companyId, audit } = act
      if (isAdmin) await consumeAdminCode(tx, actor, codeDigest)
      const { id, email } = await open(context, act, { ...invitation, network: client.network, now })
      await requireFewInvitations(tx, companyId, config.quotas, { email, now: new Date(now) })
      await audit('invite', { subject: email, details: { role: invitation.role } })
      return await requireInvitation(tx, companyId, id)
    })
  })
}

/** @throws Problem permission_denied, not_found, quota_reached, rate_limited */
export async function resend(context: Context, actor: Actor, id: string): Promise<void> {
  const { counters, config } = context
  const { session, client } = actor
  const { network } = client
  const now = new Date(actor.now)
  await counters.consumeFor(config.limits.invitations, [session.companyId], actor, async () => {
    await asManager(context, actor, async ({ tx, companyId, audit, mail }) => {
      const { email, role } = await requireInvitation(tx, companyId, id)
      const mailId = await mail({ kind: 'invitation', recipient: email, data: { role }, network })
      if (!(await repository.renewInvitation(tx, companyId, { id, mailId, now }))) throw noSuchInvitation()
      // It may have expired, and its room may be taken.
      await requireRoom(tx, companyId, config.quotas, { email, now })
      await requireFewInvitations(tx, companyId, config.quotas, { email, now })
      await audit('invite_resend', { subject: email })
    })
  })
}

/** Its links no longer work after the commit. @throws Problem permission_denied, not_found */
export async function withdraw(context: Context, actor: Actor, id: string): Promise<void> {
  const { companyId } = actor.session
  const { email } = await requireInvitation(context.db, companyId, id)
  const work = async ({ tx, audit }: Act) => {
    if (!(await repository.deleteInvitation(tx, companyId, id))) throw noSuchInvitation()
    await audit('invite_withdraw', { subject: email })
  }
  await asManager(context, actor, work, async (tx) => {
    await deleteInvitationMails(tx, companyId, email)
    await deleteInvitationTokens(tx, companyId, email)
  })
}

async function requireInvitation(db: Context['db'], companyId: string, id: string) {
  const found = await repository.findInvitation(db, companyId, id)
  if (!found) throw noSuchInvitation()
  return found
}

function noSuchInvitation(): Problem {
  return new Problem('not_found', 'No open invitation of the company has this ID.')
}

/** Open invitations count too. To accept one, leave out `invited`. @throws Problem quota_reached */
export async function requireRoom(
  tx: Tx,
  companyId: string,
  { members, membersInTrial }: Quotas,
  invited?: { email: string; now: Date },
): Promise<void> {
  const max = (await lockQuotas(tx, companyId)) ? membersInTrial : members
  const open = invited ? await repository.countOtherInvitations(tx, companyId, invited) : 0
  if ((await countMembers(tx, companyId)) + open < max) return
  throw new Problem(
    'quota_reached',
    `The company can have at most ${max} members, and open invitations count. Withdraw an invitation or delete a member.`,
  )
}

/** For invitations from members. @throws Problem quota_reached if too many are open on a trial */
async function requireFewInvitations(
  tx: Tx,
  companyId: string,
  { invitationsInTrial: max }: Quotas,
  invited: { email: string; now: Date },
): Promise<void> {
  if (!(await lockQuotas(tx, companyId))) return
  if ((await repository.countOtherInvitations(tx, companyId, invited)) < max) return
  throw new Problem(
    'quota_reached',
    `On a trial, a company can have at most ${max} open invitations. Withdraw one, or wait until one is accepted.`,
  )
}
