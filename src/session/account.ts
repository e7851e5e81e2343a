import type { Kysely } from 'kysely'
import * as companies from '../company/service.ts'
import type { Limits } from '../config.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import { appendAudit } from '../database/audit.ts'
import type { Counters } from '../database/counters.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { queueMail } from '../mail/service.ts'
import { newId, type System } from '../system.ts'
import type { SessionWithAccount } from './repository.ts'
import * as repository from './repository.ts'

/** What users do with their own account: see and end their sessions, and change their password. */

/** A server that signs in anew instead of refreshing may have very many. */
const MAX_LISTED = 1_000

interface Context {
  db: Kysely<Database>
  limits: Limits
  system: System
  hasher: PasswordHasher
  counters: Counters
}

interface Caller {
  ipAddress: string
  /** Whom limits count: the address, or the network that it is in. */
  limitAddress: string
  now: number
}

export type Account = ReturnType<typeof createAccount>

export function createAccount({ db, limits, system, hasher, counters }: Context) {
  /** The user's live sessions, those used last first; at most a thousand. */
  async function listSessions(
    { company_id: companyId, user_id: userId }: SessionWithAccount,
    now: number,
  ): Promise<repository.OwnSession[]> {
    return await repository.listSessions(db, companyId, userId, { now: new Date(now), max: MAX_LISTED })
  }

  /**
   * Ends one of the user's own sessions, the caller's included.
   * @throws Problem not_found
   */
  async function endSession(
    caller: SessionWithAccount,
    sessionId: string,
    { ipAddress, now }: Caller,
  ): Promise<void> {
    const { company_id: companyId, user_id: userId } = caller
    const ending = { reason: 'ended_by_user', now: new Date(now) } as const
    await db.transaction().execute(async (tx) => {
      if (!(await repository.endOwnSession(tx, companyId, userId, sessionId, ending)))
        throw new Problem('not_found', 'You have no live session with this id.')
      await audit(tx, caller, { action: 'session_end', outcome: 'done', sessionId, ipAddress, now })
    })
  }

  /**
   * Changes the password of who knows the current one; the user's other sessions end. Guesses count as those
   * at sign-in do, and together with them.
   * @throws Problem invalid_request, rate_limited
   * @throws HashingOverload
   */
  async function changePassword(
    caller: SessionWithAccount,
    { currentPassword, newPassword }: { currentPassword: string; newPassword: string },
    { ipAddress, limitAddress, now }: Caller,
  ): Promise<void> {
    const { company_id: companyId, user_id: userId, session_id: sessionId, email } = caller
    companies.checkPassword(newPassword, { email, companyName: caller.company_name }, '/newPassword')
    if (newPassword.normalize('NFC') === currentPassword.normalize('NFC')) {
      const message = 'must be another than the current one'
      throw new Problem('invalid_request', `newPassword ${message}`, {
        errors: [{ path: '/newPassword', message }],
      })
    }
    const guesser = [companyId, email, limitAddress]
    const guesses = await counters.takeHit(limits.signInFailures, guesser, now)
    const returnGuess = () => counters.returnHit(limits.signInFailures, guesser, now)
    const refuse = async (): Promise<never> => {
      await audit(db, caller, { action: 'password_change', outcome: 'refused', sessionId, ipAddress, now })
      if (guesses.remaining === 0) await companies.noteLockout(db, companyId, email, new Date(now))
      // Not 401, which would tell clients that the session has ended.
      throw new Problem('invalid_request', 'The current password is wrong.', {
        errors: [{ path: '/currentPassword', message: 'is wrong' }],
        limit: guesses,
      })
    }

    const [account] = await companies.findAccountsByEmail(db, [{ companyId, email }])
    const before = account?.password_hash
    let after: string
    try {
      if (!(await hasher.verify(before, currentPassword)) || before === undefined) return await refuse()
      after = await hasher.hash(newPassword)
    } catch (error) {
      // What was not checked was not guessed.
      if (!(error instanceof Problem)) await returnGuess()
      throw error
    }
    const at = new Date(now)
    const isChanged = await db.transaction().execute(async (tx) => {
      // Of two who change it at once one wins; the other no longer knows the current one.
      if (!(await companies.replacePasswordHash(tx, companyId, userId, { before, after }))) return false
      await repository.endSessions(tx, companyId, userId, { reason: 'password_changed', now: at }, sessionId)
      await queueMail(tx, system, companyId, {
        kind: 'password_changed',
        recipient: email,
        facts: { ipAddress },
        now,
      })
      await audit(tx, caller, { action: 'password_change', outcome: 'done', sessionId, ipAddress, now })
      return true
    })
    if (!isChanged) return await refuse()
    await returnGuess()
  }

  async function audit(
    executor: Kysely<Database>,
    { company_id: companyId, user_id: userId }: SessionWithAccount,
    entry: { action: string; outcome: string; sessionId: string; ipAddress: string; now: number },
  ): Promise<void> {
    const { now, ...rest } = entry
    const auditId = newId(system)
    await appendAudit(executor, companyId, { ...rest, auditId, occurredAt: new Date(now), actor: userId })
  }

  return { listSessions, endSession, changePassword }
}
