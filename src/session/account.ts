import type { Kysely } from 'kysely'
import * as companies from '../company/service.ts'
import type { Limits } from '../config.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import { isTooLong } from '../crypto/password-policy.ts'
import { appendAudit, newEntry } from '../database/audit.ts'
import type { Counters } from '../database/counters.ts'
import type { Database } from '../database/schema.ts'
import { invalidField, type LimitState, Problem } from '../errors.ts'
import { queueMail } from '../mail/service.ts'
import type { System } from '../system.ts'
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
      const facts = { action: 'session_end', outcome: 'done', actor: userId, sessionId, ipAddress }
      await appendAudit(tx, companyId, newEntry(system, ending.now, facts))
    })
  }

  /**
   * Changes the password of who knows the current one; the user's other sessions end. Guesses count as those
   * at sign-in do, and together with them.
   * @throws Problem invalid_request, session_ended, rate_limited
   * @throws HashingOverload
   */
  async function changePassword(
    caller: SessionWithAccount,
    passwords: { currentPassword: string; newPassword: string },
    { ipAddress, limitAddress, now }: Caller,
  ): Promise<LimitState> {
    const { company_id: companyId, user_id: userId, session_id: sessionId, email } = caller
    const { currentPassword, newPassword } = passwords
    companies.checkPassword(newPassword, { email, companyName: caller.company_name }, '/newPassword')
    if (newPassword.normalize('NFC') === currentPassword.normalize('NFC'))
      throw invalidField('/newPassword', 'must be another than the current one')
    // Not 401, which would tell clients that the session has ended.
    const wrong = () => invalidField('/currentPassword', 'is wrong')
    if (isTooLong(currentPassword)) throw wrong()
    const facts = { action: 'password_change', actor: userId, sessionId, ipAddress }
    const entry = (outcome: string) => newEntry(system, new Date(now), { ...facts, outcome })

    /** The hash that the current password matches; null if it is wrong. */
    async function matchCurrent(guesses: LimitState): Promise<string | null> {
      const [account] = await companies.findAccountsByEmail(db, [{ companyId, email }])
      const hash = account?.password_hash
      if ((await hasher.verify(hash, currentPassword)) && hash !== undefined) return hash
      if (guesses.remaining > 0) await appendAudit(db, companyId, entry('refused'))
      else await companies.noteLockout(db, companyId, email, entry('refused'))
      return null
    }

    /** False if somebody else has changed it meanwhile, or the user may do nothing any more. */
    async function replace(before: string, after: string): Promise<boolean> {
      const ending = { reason: 'password_changed', now: new Date(now) } as const
      const mail = { kind: 'password_changed', recipient: email, facts: { ipAddress }, now } as const
      return await db.transaction().execute(async (tx) => {
        // In the order in which a reset locks them: tokens, user, sessions.
        await repository.deleteResetTokens(tx, companyId, email)
        if (!(await companies.replacePasswordHash(tx, companyId, userId, { before, after }))) return false
        // It may have ended while the password was checked, and then has no say any more.
        if (!(await repository.isOpen(tx, companyId, sessionId)))
          throw new Problem('session_ended', 'The session has ended; sign in again.')
        await repository.endSessions(tx, companyId, userId, ending, sessionId)
        await queueMail(tx, system, companyId, mail)
        await appendAudit(tx, companyId, entry('done'))
        return true
      })
    }

    // By address too, so that who has stolen a session cannot keep its owner from changing the password.
    const changer = [companyId, userId, limitAddress]
    return await counters.countFor(limits.passwordChanges, changer, now, async (limit) => {
      const guesser = [companyId, email, limitAddress]
      const before = await counters.countFor(limits.signInFailures, guesser, now, matchCurrent)
      if (before === null) throw wrong()
      await counters.returnHit(limits.signInFailures, guesser, now).catch(() => {})
      if (!(await replace(before, await hasher.hash(newPassword)))) throw wrong()
      return limit
    })
  }

  return { listSessions, endSession, changePassword }
}
