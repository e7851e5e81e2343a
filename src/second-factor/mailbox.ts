import { type Actor, actIn, countChange } from '../acts.ts'
import type { Context } from '../context.ts'
import type { Digests } from '../crypto/digests.ts'
import type { Executor, Transaction } from '../database/connect.ts'
import { invalidField, Problem } from '../errors.ts'
import type { LimitState } from '../limits/list.ts'
import { mustProveMailbox } from '../session/held.ts'
import type { Session } from '../session/session.ts'
import type { System } from '../system.ts'
import { consumeCode, countTry, isCurrent, refundTry, storeCode } from './mailbox-repository.ts'
import { recordRefusal } from './refusals.ts'
import type { Owner } from './repository.ts'

/**
 * A member without a second factor proves their mailbox before the first one, and before another e-mail: otherwise who knows
 * the password could add a factor of their own. The code is made when its mail is sent, so no row ever holds it. It serves
 * one purpose, and is consumed when that is done: who begins with an app and then takes a passkey needs no other code.
 */

const LIFETIME_MS = 600_000
const DIGITS = 8

/** What a code is for, the mail that brings it, and what its digest is bound to. */
export const CODE_USES = ['factor', 'email'] as const
export type CodeUse = (typeof CODE_USES)[number]
type CodeMail = (typeof MAILS)[CodeUse]
const MAILS = { factor: 'mailbox_code', email: 'email_change_code' } as const
const PURPOSES: Record<CodeMail, string> = {
  mailbox_code: 'mailbox code',
  email_change_code: 'mailbox code for another e-mail',
}

/** Mails a code. @throws Problem permission_denied unless the member needs one; rate_limited */
export async function mailCode(context: Context, actor: Actor, use: CodeUse): Promise<LimitState> {
  const { db, system, counters, config } = context
  const { session, client, now } = actor
  if (!mustProveMailbox(session))
    throw new Problem(
      'permission_denied',
      'You need no code: your second factor, or being a server, is enough.',
    )
  const { companyId, userId, email: recipient } = session
  const data = { ipAddress: client.ipAddress }
  await countChange(context, actor)
  return await counters.consumeFor(config.limits.mailboxCodes, [companyId, userId], now, async (limit) => {
    await db.transaction().execute(async (tx) => {
      const { audit, mail } = actIn(tx, system, session, actor)
      await mail({ kind: MAILS[use], recipient, data })
      await audit('mailbox_code', { details: { for: use } })
    })
    return limit
  })
}

/** Makes the code of a mail that is being sent. Eight digits (ASVS 6.5.4) for 10 minutes (ASVS 6.5.5). */
export async function issueCode(
  { db, system, digests }: { db: Executor; system: System; digests: Digests },
  { companyId, userId }: { companyId: string; userId: string },
  mail: CodeMail,
  now: number,
): Promise<string> {
  const code = randomDigits(system)
  const { digest } = digests.current(PURPOSES[mail], companyId, userId, code)
  await storeCode(db, companyId, userId, { digest, expiresAt: new Date(now + LIFETIME_MS) })
  return code
}

/** Each code is as likely as any other: 2^48 is so much larger that what is left over does not matter. */
function randomDigits({ randomBytes }: System): string {
  return String(randomBytes(6).readUIntBE(0, 6) % 10 ** DIGITS).padStart(DIGITS, '0')
}

/**
 * Checks the code of a member who must prove their mailbox. Returns its digest, to be consumed; null if none is needed.
 * @throws Problem invalid_request, also for a code that is not needed
 */
export async function checkMailCode(
  { db, system, digests }: Context,
  { session, client, now }: Actor,
  use: CodeUse,
  code: string | undefined,
): Promise<Buffer | null> {
  const { companyId, userId } = session
  if (!mustProveMailbox(session)) {
    if (code === undefined) return null
    throw invalidField('mailCode', 'is not needed, since you have a second factor: leave it out')
  }
  if (code === undefined) throw missingCode(use)
  const digest = await countTry(db, companyId, userId, new Date(now))
  const given = code.replaceAll(' ', '')
  if (!digest || !digests.matches(digest, PURPOSES[MAILS[use]], companyId, userId, given)) {
    const about = { method: 'mailed_code' } as const
    await recordRefusal({ db, system }, session, about, { client, now }, session.sessionId)
    throw wrongCode()
  }
  await refundTry(db, companyId, userId, digest)
  return digest
}

/**
 * Whether the mailbox was proven by a code that was checked, once the member is held: another code can have been mailed since,
 * or the last factor removed. False for a member who has a factor.
 * @throws Problem invalid_request
 */
export async function proveMailbox(
  tx: Transaction,
  { companyId, userId }: Session,
  owner: Owner,
  use: CodeUse,
  digest: Buffer | null,
): Promise<boolean> {
  if (!mustProveMailbox(owner)) return false
  if (!digest) throw missingCode(use)
  if (!(await isCurrent(tx, companyId, userId, digest))) throw wrongCode()
  return true
}

/**
 * Consumes the code of a member who asks for another e-mail and is held; false if a second factor is there in its
 * place, by which the session was proven.
 * @throws Problem invalid_request
 */
export async function consumeEmailCode(
  tx: Transaction,
  session: Session,
  owner: Owner,
  digest: Buffer | null,
): Promise<boolean> {
  const isProven = await proveMailbox(tx, session, owner, 'email', digest)
  if (isProven) await consumeCode(tx, session.companyId, session.userId)
  return isProven
}

function missingCode(use: CodeUse) {
  return invalidField(
    'mailCode',
    'is missing',
    `Without a second factor, prove your mailbox first: POST /auth/second-factors/mail-code with {"for":"${use}"} mails you the code.`,
  )
}

function wrongCode() {
  return invalidField(
    'mailCode',
    'is wrong, used or expired',
    'The code is wrong, used or expired, or had five tries; ask for another one.',
  )
}
