import { PLATFORM } from '../audit/entry.ts'
import type { Context } from '../http/context.ts'
import { voidEarlierProofsAcrossCompanies } from '../second-factor/challenges.ts'
import { type ActContext, asOperator } from '../session/acts.ts'
import { endSessionsAcrossCompanies } from '../session/ending-repository.ts'
import { replaceAllKeys, resealKeys } from '../token/key-rotation.ts'
import {
  beginEventEra,
  deleteAllAcrossCompanies,
  deleteUnsentMailsAcrossCompanies,
} from './deletion-repository.ts'

/**
 * Makes void what a restored backup has brought back, and says what else to look at, which nothing in the database tells.
 * To be called before an instance starts; a second time it does the same again.
 * @throws DecryptionError, and changes nothing, if the keys of the backup do not open with the configured master keys
 */
export async function settleRestored(context: ActContext & Pick<Context, 'sealer'>, now: number) {
  // With other master keys no instance could start.
  await resealKeys(context.db, context.sealer)
  const by = { companyId: PLATFORM, now }
  const voided = await asOperator(context, by, async ({ tx, audit }) => {
    const companies = await endSessionsAcrossCompanies(tx, 'ended_by_operator')
    const mails = await deleteUnsentMailsAcrossCompanies(tx)
    const links = await deleteAllAcrossCompanies(tx, 'one_time_tokens')
    const invitations = await deleteAllAcrossCompanies(tx, 'invitations')
    await voidEarlierProofsAcrossCompanies(tx, now)
    const challenges = await deleteAllAcrossCompanies(tx, 'second_factor_challenges')
    const mailedCodes = await deleteAllAcrossCompanies(tx, 'mailbox_codes')
    const { key, revoked: retiredKeys } = await replaceAllKeys(tx, context, new Date(now))
    await beginEventEra(tx)
    const counts = { companies, mails, links, invitations, challenges, mailedCodes }
    const details = { ...counts, retiredKeys, newKey: key.keyId }
    await audit('restored', { subject: key.keyId, details })
    return details
  })
  return { ...voided, check: TO_CHECK }
}

/** What is as it was at the time of the backup, and the requests that changed it since. */
const TO_CHECK = [
  'Find these requests in the log since the backup, with a status below 300: companyId, userId and memberId say whom they concern. If the former database can still be read, its table audit_events tells the same.',
  'Signing secrets that were replaced: the former one is good again, and the newer one is refused. Make another. In the log: POST /api/auth/webhook-secret/regenerate',
  'Members that were disabled, deleted or given another role: they are active, with the former role. In the log: PATCH /api/auth/members/:id, DELETE /api/auth/members/:id',
  'Companies and members that came: they are gone. In the log: POST /api/auth/register, POST /api/auth/invitations/accept, POST /api/auth/members',
  'Passwords that were changed, reset, replaced or made void: the former ones are good again. In the log: POST /api/auth/password/change, POST /api/auth/password/reset, POST /api/auth/members/:id/password, DELETE /api/auth/members/:id/second-factors',
  'E-mails that were changed, or put back: the former one signs in, and gets the links. In the log: POST /api/auth/email/confirm, POST /api/auth/undo',
  'Second factors: those that were added are gone, and those that were removed are good again. In the log: POST /api/auth/second-factors/totp/:id/confirm, POST /api/auth/second-factors/passkeys, DELETE /api/auth/second-factors/:id, DELETE /api/auth/members/:id/second-factors',
  'Recovery codes that were used or replaced: they are good again. Their owners make new ones. In the log: POST /api/auth/login/second-factor, POST /api/auth/reauthenticate, POST /api/auth/second-factors/recovery-codes',
  'Who needs a second factor: the policy is the former one. In the log: PATCH /api/auth/company/security',
  'Platform clients and their secrets: those that were deleted or rotated are as they were. Look at `client list`, delete and rotate again.',
  'Readers of events go on with their cursors. Events since the backup are gone, but for readers who have read them: their senders can send them again.',
  'What operators did, which the log does not have: companies created, suspended, resumed or deleted, subscriptions, users, invitations, keys.',
  'Mails and invitations that waited are not sent: admins invite again, and users ask for another link.',
  'Codes of authenticator apps and passkeys are refused for the next two minutes, since some may have been used before.',
]
