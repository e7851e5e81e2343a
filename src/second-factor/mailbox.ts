import type { Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import type { LimitState } from '../limits/list.ts'
import { queueMail } from '../mail/service.ts'
import { countChange } from '../session/acting.ts'
import type { Session } from '../session/session.ts'
import type { System } from '../system.ts'
import type { Context, Received } from './context.ts'
import type { Digests } from './digests.ts'
import { mustProveMailbox } from './held.ts'
import { countTry, isCurrent, refundTry, storeCode } from './mailbox-repository.ts'
import { recordRefusal } from './refusals.ts'
import type { Owner } from './repository.ts'

/**
 * A member whom the policy concerns proves their mailbox before the first factor: otherwise somebody who knows the password
 * could add a factor of their own. The code is made when its mail is sent, so no row ever holds it. It is good for one
 * factor, and consumed when that is in force: who begins with an app and then takes a passkey needs no other code.
 */

const LIFETIME_MS = 600_000
const DIGITS = 8
const PURPOSE = 'mailbox code'

/** Mails a code. @throws Problem permission_denied unless the member needs one; rate_limited */
export async function mailCode(
  { db, system, counters, config }: Context,
  session: Session,
  { client: { ipAddress }, now }: Received,
): Promise<LimitState> {
  if (!mustProveMailbox(session))
    throw new Problem('permission_denied', 'You need no code: add a second factor without one.')
  const { companyId, userId, sessionId, email: recipient } = session
  await countChange({ counters, config }, session, now)
  return await counters.consumeFor(config.limits.mailboxCodes, [companyId, userId], now, async (limit) => {
    await db.transaction().execute(async (tx) => {
      const data = { ipAddress }
      await queueMail(tx, system, companyId, { kind: 'mailbox_code', recipient, data, now })
      const about = { action: 'mailbox_code', outcome: 'done', actor: userId, sessionId, ipAddress }
      await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
    })
    return limit
  })
}

/** Makes the code of a mail that is being sent. Eight digits (ASVS 6.5.4) for 10 minutes (ASVS 6.5.5). */
export async function issueCode(
  { db, system, digests }: { db: Executor; system: System; digests: Digests },
  { companyId, userId }: { companyId: string; userId: string },
  now: number,
): Promise<string> {
  const code = randomDigits(system)
  const { digest } = digests.current(PURPOSE, companyId, userId, code)
  await storeCode(db, companyId, userId, { digest, expiresAt: new Date(now + LIFETIME_MS) })
  return code
}

/** Each code is as likely as any other: 2^48 is so much larger that what is left over does not matter. */
function randomDigits({ randomBytes }: System): string {
  return String(randomBytes(6).readUIntBE(0, 6) % 10 ** DIGITS).padStart(DIGITS, '0')
}

/**
 * Checks the code of a member who must prove their mailbox. Returns its digest, to be consumed; null if none is needed.
 * @throws Problem invalid_request
 */
export async function checkMailCode(
  { db, system, digests }: Context,
  session: Session,
  code: string | undefined,
  { client, now }: Received,
): Promise<Buffer | null> {
  const { companyId, userId } = session
  if (!mustProveMailbox(session)) return null
  if (code === undefined) throw missingCode()
  const digest = await countTry(db, companyId, userId, new Date(now))
  if (!digest || !digests.matches(digest, PURPOSE, companyId, userId, code.replaceAll(' ', ''))) {
    await recordRefusal({ db, system }, session, 'mailed_code', { client, now }, session.sessionId)
    throw wrongCode()
  }
  await refundTry(db, companyId, userId, digest)
  return digest
}

/**
 * Whether the mailbox was proven by a code that was checked, once the member is held. The policy can have come since, or
 * another code.
 * @throws Problem invalid_request
 */
export async function proveMailbox(
  tx: Transaction<Database>,
  { companyId, userId }: Session,
  owner: Owner,
  digest: Buffer | null,
): Promise<boolean> {
  if (!mustProveMailbox(owner)) return false
  if (!digest) throw missingCode()
  if (!(await isCurrent(tx, companyId, userId, digest))) throw wrongCode()
  return true
}

function missingCode() {
  return invalidField(
    'mailCode',
    'is missing',
    'Your company asks for a second factor: prove your mailbox first, by the code of POST /auth/second-factors/mail-code.',
  )
}

function wrongCode() {
  return invalidField(
    'mailCode',
    'is wrong, used or expired',
    'The code is wrong, used or expired, or had five tries; ask for another one.',
  )
}
