import { checkName, checkPassword } from '../company/checks.ts'
import { addUser } from '../company/service.ts'
import { consumeToken, noSuchToken, peekToken } from '../one-time-token/service.ts'
import { auditStep, type Context, countAttempt, type Received } from './context.ts'

/** Invitations as the invited person sees them; operators send them. */

/** Returns the data of an invitation, which stays valid. @throws Problem invalid_request, rate_limited */
export async function previewInvitation(context: Context, token: string, received: Received) {
  const limit = await countAttempt(context, received)
  const { companyName, email, role, expiresAt } = await peekToken(context.db, 'invite', token, received.now)
  return { invitation: { companyName, email, role: role ?? '', expiresAt: expiresAt.toISOString() }, limit }
}

interface Acceptance {
  token: string
  name: string
  password: string
}

/**
 * Creates the invited user, whose e-mail counts as verified.
 * @throws Problem invalid_request, rate_limited, overloaded
 */
export async function acceptInvitation(context: Context, acceptance: Acceptance, received: Received) {
  const { db, system, hasher } = context
  const { token, password } = acceptance
  const { now } = received
  const limit = await countAttempt(context, received)
  const invitation = await peekToken(db, 'invite', token, now)
  const name = checkName('name', acceptance.name)
  const passwords = hasher.inTurn({ network: received.client.network, isKnown: true })
  await checkPassword('password', password, { ...invitation, name }, { ...context, hasher: passwords })
  const passwordHash = await passwords.hash(password)
  const at = new Date(now)
  return await consumeToken(db, 'invite', token, now, async (tx, { companyId, email, role }) => {
    const user = { email, name, role: role ?? '', passwordHash, emailVerifiedAt: at, createdAt: at }
    const userId = await addUser(tx, system, companyId, user)
    // The company got a user with this e-mail meanwhile.
    if (userId === undefined) throw noSuchToken()
    await auditStep(context, tx, companyId, { action: 'accept_invitation', actor: userId }, received)
    return { companyId, userId, limit }
  })
}
