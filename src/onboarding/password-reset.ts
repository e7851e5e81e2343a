import { checkPassword } from '../company/checks.ts'
import { giveHandle } from '../company/handles.ts'
import { proveEmail } from '../company/identity-repository.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { withdrawInvitationsOf } from '../member/invitation-repository.ts'
import { consumeToken, countAttempt, noSuchToken, peekToken } from '../one-time-token/service.ts'
import { actIn } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { learnNetwork } from '../session/known-clients.ts'

/** The email about a reset names what the account added in these days: a thief of the password could have. */
const ADDITIONS_DAYS = 7

/** The link stays valid. @throws Problem invalid_request, rate_limited */
export async function previewReset(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const { companyName, companyHandle, email, expiresAt } = await peekToken(context, {
    purpose: 'reset',
    token,
    now: received.now,
  })
  return { companyName, companyHandle, email, expiresAt: expiresAt.toISOString() }
}

/**
 * A mailed token sets a password, verifies the e-mail, ends the user's sessions and withdraws their
 * invitations. @throws Problem invalid_request, rate_limited, overloaded
 */
export async function resetPassword(
  context: Context,
  { token, newPassword }: { token: string; newPassword: string },
  received: Received,
): Promise<{ companyId: string; userId: string }> {
  const { system, hasher } = context
  const { client, now } = received
  await countAttempt(context, received)
  const person = await peekToken(context, { purpose: 'reset', token, now })
  const passwords = hasher.inTurn({ ...client, isKnown: true })
  await checkPassword('newPassword', newPassword, person, { ...context, hasher: passwords })
  const passwordHash = await passwords.hash(newPassword)
  const at = new Date(now)
  return await consumeToken(
    context,
    { purpose: 'reset', token, now },
    async (tx, { companyId, email: recipient }) => {
      const proven = await proveEmail(tx, companyId, recipient, { at, passwordHash })
      if (!proven) throw noSuchToken()
      const { userId, isFirst } = proven
      if (isFirst) await giveHandle(tx, context, companyId, now)
      await endUserSessions(tx, companyId, userId, 'password_reset')
      // An attacker with the former password could have sent them.
      const invitationsWithdrawn = await withdrawInvitationsOf(tx, companyId, userId, { now: at })
      // Others' guesses must not lock out a member who resets the password from a new network.
      await learnNetwork(context, tx, { companyId, userId }, client.network, now)
      const additionsSince = new Date(now - ADDITIONS_DAYS * 86_400_000).toISOString()
      const data = { ipAddress: client.ipAddress, invitationsWithdrawn, additionsSince }
      const { audit, mail } = actIn(tx, system, { companyId, userId }, received)
      await mail({ kind: 'password_changed', recipient, data })
      await audit('password_reset', {
        details: invitationsWithdrawn > 0 ? { invitationsWithdrawn } : undefined,
      })
      return { companyId, userId }
    },
  )
}
