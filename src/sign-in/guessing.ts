import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { clearGuessedPassword } from '../company/wrong-codes-repository.ts'
import type { Context } from '../context.ts'
import { transact } from '../database/transact.ts'
import { queueMail } from '../mail/service.ts'
import { deleteResetTokens } from '../one-time-token/repository.ts'
import { deletePasswordProven } from '../second-factor/challenges-repository.ts'
import type { MemberIds, Received } from '../second-factor/context.ts'
import { endUserSessions } from '../session/ending-repository.ts'

/** Who guesses codes knows the password. */

/** Wrong codes in a row after which the password is void. */
const MAX_WRONG_CODES = 30

/**
 * Makes the password of a member void after too many wrong codes, with what waits for a code after it, ends all sessions, of
 * which one can be that of who guesses, and mails a link to choose another one. The member's factors stay.
 */
export async function voidPassword(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { companyId, userId, email: recipient }: MemberIds & { email: string },
  wrongCodes: number,
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  if (wrongCodes < MAX_WRONG_CODES) return
  await transact<void>(db, async (tx, rollBack) => {
    // In one order: mails, tokens, users.
    await deleteResetTokens(tx, companyId, recipient)
    // Another request has made the password void, and its mails must go out.
    if (!(await clearGuessedPassword(tx, companyId, userId, MAX_WRONG_CODES))) throw rollBack()
    await deletePasswordProven(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'password_reset')
    const notice = { kind: 'code_guessing', recipient, data: { ipAddress }, now } as const
    await queueMail(tx, system, companyId, notice)
    const link = { kind: 'password_reset', recipient, data: { isPasswordVoid: true }, now } as const
    await queueMail(tx, system, companyId, link)
    const about = { action: 'password_void', outcome: 'done', actor: null, subject: userId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
  })
}
