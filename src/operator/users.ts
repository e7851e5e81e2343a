import type { Kysely } from 'kysely'
import { checkEmail, checkName, checkPassword, emailTaken } from '../company/checks.ts'
import * as companies from '../company/service.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { Database, UserStatus } from '../database/schema.ts'
import { queueMail } from '../mail/service.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import type { System } from '../system.ts'
import { auditOperator } from './audit.ts'
import { explainUnknownName } from './unknown-names.ts'

/** Acts of operators on the users of a company; each is audited in its transaction. */

interface Context {
  db: Kysely<Database>
  system: System
}

interface NewUser {
  email: string
  /** Default: the e-mail. */
  name?: string | undefined
  role: string
  password: string
}

/**
 * Creates a user whose e-mail counts as verified.
 * @throws Problem not_found for an unknown company, invalid_request for a value that is not accepted
 */
export async function createUser(
  { db, hasher, system }: Context & { hasher: PasswordHasher },
  companyId: string,
  { role, password, ...given }: NewUser,
): Promise<{ userId: string }> {
  const companyName = await companies.requireCompanyName(db, companyId)
  const email = checkEmail(given.email)
  const name = given.name === undefined ? email : checkName('name', given.name)
  checkPassword('password', password, { email, companyName })
  const passwordHash = await hasher.hash(password)
  const now = new Date(system.now())
  const user = { email, name, role, passwordHash, emailVerifiedAt: now, createdAt: now }
  const creation = db.transaction().execute(async (tx) => {
    const userId = await companies.addUser(tx, system, companyId, user)
    if (userId === undefined) throw emailTaken()
    await auditOperator(tx, system, companyId, now, { action: 'user_create', subject: userId })
    return { userId }
  })
  return await creation.catch(explainUnknownName)
}

/**
 * Disables a user and ends all sessions of the user, or enables a user, who must then sign in again.
 * @throws Problem not_found
 */
export async function changeUserStatus(
  { db, system }: Context,
  companyId: string,
  user: { userId: string } | { email: string },
  status: UserStatus,
): Promise<{ userId: string }> {
  const now = new Date(system.now())
  const action = status === 'disabled' ? 'user_disable' : 'user_enable'
  return await db.transaction().execute(async (tx) => {
    const userId = await companies.changeUserStatus(tx, companyId, user, status)
    if (status === 'disabled') await endUserSessions(tx, companyId, userId, 'user_disabled')
    await auditOperator(tx, system, companyId, now, { action, subject: userId })
    return { userId }
  })
}

/**
 * Invites an e-mail to a company, by mail.
 * @throws Problem not_found unless the company is active, invalid_request for the e-mail or the role
 */
export async function invite(
  { db, system }: Context,
  companyId: string,
  invitation: { email: string; role: string },
): Promise<{ email: string }> {
  const now = system.now()
  const data = { role: invitation.role }
  return await db.transaction().execute(async (tx) => {
    const email = await companies.checkInvitation(tx, companyId, invitation)
    await queueMail(tx, system, companyId, { kind: 'invitation', recipient: email, data, now })
    await auditOperator(tx, system, companyId, new Date(now), { action: 'invite', subject: email })
    return { email }
  })
}
