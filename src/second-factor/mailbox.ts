import type { Account, MemberIds } from '../company/account.ts'
import { normalizeCode } from '../crypto/totp.ts'
import type { Executor, Tx } from '../database/connect.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Actor, actIn, countChange } from '../session/acts.ts'
import * as codes from './codes-repository.ts'
import { auditRefusal } from './factor.ts'

/**
 * A stolen password must not be enough to take over an account or a company. So members without a second factor confirm their
 * mailbox before they add one, change their email, or make someone an admin. A code has one purpose and one session. Only the
 * completed change consumes it, so a member can start with an app and then choose a passkey.
 */

const LIFETIME_MS = 600_000
const DIGITS = 8
const CODE = /^[0-9]{8}$/

const MAILS = { factor: 'mailbox_code', email: 'email_change_code', admin: 'admin_code' } as const
type CodeUse = keyof typeof MAILS
type CodeMail = (typeof MAILS)[CodeUse]
const PURPOSES: Record<CodeMail, string> = {
  mailbox_code: 'mailbox code',
  email_change_code: 'mailbox code for another e-mail',
  admin_code: 'mailbox code for a new admin',
}

export function isCodeMail(kind: string): kind is CodeMail {
  return kind in PURPOSES
}

type Prover = Pick<Account, 'userKind' | 'secondFactors'>

export function mustProveMailbox(member: Prover): boolean {
  return member.userKind === 'person' && member.secondFactors.length === 0
}

/** @throws Problem permission_denied unless the member needs a code; rate_limited */
export async function mailCode(context: Context, actor: Actor, use: CodeUse): Promise<void> {
  const { db, system, counters, config } = context
  const { session, client } = actor
  if (!mustProveMailbox(session))
    throw new Problem(
      'permission_denied',
      'Only members without a second factor use an emailed code. Continue without one.',
    )
  const { companyId, userId, sessionId, email: recipient } = session
  const data = { ipAddress: client.ipAddress, sessionId }
  await countChange(context, actor)
  await counters.consumeFor(config.limits.mailboxCodes, [companyId, userId], actor, () =>
    db.transaction().execute(async (tx) => {
      const { audit, mail } = actIn(tx, system, session, actor)
      await mail({ kind: MAILS[use], recipient, data })
      await audit('mailbox_code', { details: { for: use } })
    }),
  )
}

/** Eight digits (ASVS 6.5.4) for 10 minutes (ASVS 6.5.5). */
export async function issueCode(
  { db, system, digests }: Pick<Context, 'system' | 'digests'> & { db: Executor },
  { companyId, userId, sessionId }: MemberIds & { sessionId: string | null },
  mail: CodeMail,
  now: number,
): Promise<string> {
  // The bias of the remainder is at most 10^8 in 2^48.
  const code = String(system.randomBytes(6).readUIntBE(0, 6) % 10 ** DIGITS).padStart(DIGITS, '0')
  const { digest } = digests.current(PURPOSES[mail], companyId, userId, code)
  const expiresAt = new Date(now + LIFETIME_MS)
  await codes.storeMailedCode(db, companyId, userId, { digest, sessionId, expiresAt })
  return code
}

/** Returns the correct code's digest; null if none is needed. @throws Problem invalid_request, even if none is needed */
export async function checkMailCode(
  { db, system, digests }: Context,
  { session, client, now }: Actor,
  use: CodeUse,
  code: string | undefined,
): Promise<Buffer | null> {
  const { companyId, userId } = session
  if (!mustProveMailbox(session)) {
    if (code === undefined) return null
    throw invalidField(
      'mailCode',
      'must be omitted if you have a second factor',
      'Only members without a second factor use an emailed code. Omit "mailCode".',
    )
  }
  if (code === undefined) throw missingCode(use)
  const given = normalizeCode(code)
  // A malformed code doesn't count as a try.
  if (!CODE.test(given)) throw invalidField('mailCode', 'must be the eight digits from the email')
  const digest = await codes.countMailedCodeTry(db, session, new Date(now))
  if (!digest || !digests.matches(digest, PURPOSES[MAILS[use]], companyId, userId, given)) {
    await auditRefusal({ db, system }, session, { method: 'mailed_code' }, { client, now })
    throw wrongCode()
  }
  await codes.refundMailedCodeTry(db, companyId, userId, digest)
  return digest
}

/** `digest` is from `checkMailCode`. */
type Checked = { use: CodeUse; digest: Buffer | null }

/** Checks again with the member locked: code and factors can have changed. @throws Problem invalid_request */
export async function proveMailbox(
  tx: Tx,
  { companyId, userId }: MemberIds,
  owner: Prover,
  { use, digest }: Checked,
): Promise<boolean> {
  if (!mustProveMailbox(owner)) return false
  if (!digest) throw missingCode(use)
  if (!(await codes.isCurrentMailedCode(tx, companyId, userId, digest))) throw wrongCode()
  return true
}

/** False if the member has a second factor instead. @throws Problem invalid_request */
export async function consumeCode(tx: Tx, member: MemberIds, owner: Prover, checked: Checked) {
  const isProven = await proveMailbox(tx, member, owner, checked)
  if (isProven) await codes.consumeMailedCode(tx, member.companyId, member.userId)
  return isProven
}

function missingCode(use: CodeUse) {
  return invalidField(
    'mailCode',
    'is missing',
    `Without a second factor, you need an emailed code. Request one: POST /auth/second-factors/mail-code with {"for":"${use}"}.`,
  )
}

function wrongCode() {
  return invalidField(
    'mailCode',
    'is wrong, used, or expired',
    'The code is wrong, used, expired, or out of tries. Request a new one.',
  )
}
