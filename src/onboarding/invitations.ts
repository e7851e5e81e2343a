import { checkName, checkPassword } from '../company/checks.ts'
import { addUser } from '../company/service.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { tellOfNewAdmin } from '../member/changes.ts'
import { findInvitationTo, takeInvitation } from '../member/invitation-repository.ts'
import { requireRoom } from '../member/invitations.ts'
import { consumeToken, countAttempt, noSuchToken, peekToken } from '../one-time-token/service.ts'
import { actIn } from '../session/acts.ts'

/** Invitations as the invited person sees them. */

/** The invitation stays valid. @throws Problem invalid_request, rate_limited */
export async function previewInvitation(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const { companyName, email, role, expiresAt } = await peekInvitation(context, token, received)
  return { companyName, email, role, expiresAt: expiresAt.toISOString() }
}

/** @throws Problem invalid_request if the link does not work, or the sender may no longer invite */
async function peekInvitation(context: Context, token: string, { now }: Received) {
  const found = await peekToken(context, { purpose: 'invite', token, now })
  const invitation = await findInvitationTo(context.db, found.companyId, found.email)
  if (!invitation) throw noSuchToken()
  return { ...found, role: invitation.role }
}

interface Acceptance {
  token: string
  name: string
  password: string
}

/** The e-mail counts as verified. @throws Problem invalid_request, quota_reached, rate_limited, overloaded */
export async function acceptInvitation(context: Context, acceptance: Acceptance, received: Received) {
  const { system, hasher, config } = context
  const { token, password } = acceptance
  const { now } = received
  await countAttempt(context, received)
  const invitation = await peekInvitation(context, token, received)
  const name = checkName('name', acceptance.name)
  const passwords = hasher.inTurn({ ...received.client, isKnown: true })
  await checkPassword('password', password, { ...invitation, name }, { ...context, hasher: passwords })
  const passwordHash = await passwords.hash(password)
  const at = new Date(now)
  return await consumeToken(context, { purpose: 'invite', token, now }, async (tx, { companyId, email }) => {
    const invited = await takeInvitation(tx, companyId, email)
    if (!invited) throw noSuchToken()
    await requireRoom(tx, companyId, config.quotas)
    const user = { email, name, ...invited, passwordHash, emailVerifiedAt: at, createdAt: at }
    const userId = await addUser(tx, system, companyId, user)
    // Meanwhile the company has a user with this e-mail.
    if (userId === undefined) throw noSuchToken()
    const act = actIn(tx, system, { companyId, userId }, received)
    const { invitedBy } = invited
    if (invited.role === 'admin') await tellOfNewAdmin(act, userId, { invitedBy })
    await act.audit('accept_invitation')
    return { companyId, companyHandle: invitation.companyHandle, email, userId }
  })
}
