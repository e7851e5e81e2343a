import { checkNewCompany, checkPassword } from '../company/checks.ts'
import { giveHandle, type NamedCompany, readNamedCompany, resolveCompany } from '../company/handles.ts'
import { proveEmail } from '../company/identity-repository.ts'
import { openCompany } from '../company/service.ts'
import type { Checks, Person } from '../crypto/password-policy.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { normalizeEmail } from '../http/email-address.ts'
import type { Received } from '../limits/client.ts'
import { isOurs } from '../limits/counters.ts'
import { byNetwork, quotasOf } from '../limits/subject.ts'
import type { MailKind } from '../mail/letters.ts'
import { queueMail } from '../mail/service.ts'
import { consumeToken, countAttempt, noSuchToken } from '../one-time-token/service.ts'
import { actIn } from '../session/acts.ts'

/** Registration and verification: a mailed token proves that the client reads the e-mail. */

interface NewCompany {
  companyName: string
  name: string
  email: string
  password: string
}

/** The admin must verify the e-mail first. @throws Problem invalid_request, rate_limited, overloaded */
export async function register(context: Context, company: NewCompany, received: Received) {
  const { db, config, system, hasher, counters } = context
  const { client, now } = received
  const { companyName, name, email } = checkNewCompany(company)
  return await counters.consumeFor(config.limits.register, byNetwork(client.network), received, async () => {
    const passwords = hasher.inTurn({ ...client, isKnown: false })
    const person = { email, name, companyName }
    await checkChosen({ ...context, hasher: passwords }, company.password, person, received)
    const passwordHash = await passwords.hash(company.password)
    const admin = { name, email, passwordHash, emailVerifiedAt: null, createdAt: new Date(now) }
    const { ipAddress, network } = client
    return await db.transaction().execute(async (tx) => {
      const { companyId, userId } = await openCompany(tx, system, { companyName, admin })
      const { audit, mail } = actIn(tx, system, { companyId, userId }, received)
      await mail({ kind: 'verify_email', recipient: email, data: { ipAddress }, network })
      await audit('register')
      return { companyId, userId }
    })
  })
}

/** A refused password counts against a limit of its own, since its estimate costs something. */
async function checkChosen(
  { config, counters, hasher, isBreached }: Omit<Context, 'hasher'> & Checks,
  password: string,
  person: Person,
  { client, now }: Received,
): Promise<void> {
  const { network } = client
  const { register, passwordChecks } = config.limits
  try {
    await counters.consume(passwordChecks, byNetwork(network), { now })
    await checkPassword('password', password, person, { hasher, isBreached })
  } catch (error) {
    if (!isOurs(error)) {
      client.noteLimit(null)
      await counters.refund(quotasOf(register, byNetwork(network)))
    }
    throw error
  }
}

/** @throws Problem invalid_request, rate_limited */
export async function verifyEmail(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const { now } = received
  return await consumeToken(context, { purpose: 'verify', token, now }, async (tx, { companyId, email }) => {
    const proven = await proveEmail(tx, companyId, email, { at: new Date(now) })
    if (!proven) throw noSuchToken()
    const { audit, mail } = actIn(tx, context.system, { companyId, ...proven }, received)
    await audit('verify_email')
    const companyHandle = await giveHandle(tx, context, companyId, now)
    // The first that names the handle, which people need on another device.
    await mail({ kind: 'companies', recipient: email, data: { isJustVerified: true } })
    return { companyId, companyHandle, email }
  })
}

type RequestedKind = Extract<MailKind, 'verify_email' | 'password_reset' | 'companies'>

/**
 * Queues a mail, which the sender drops without an account. No account is looked up, so that the answer reveals
 * none, or audited, since anyone could fill the trail. @throws Problem rate_limited
 */
export async function requestMail(
  { db, config, system, counters }: Context,
  kind: RequestedKind,
  account: NamedCompany & { email: string },
  { client, now }: Received,
): Promise<void> {
  const named = readNamedCompany(account)
  const recipient = normalizeEmail(account.email)
  const { ipAddress, network } = client
  // First: this bounds the rows of the outbox, and the counters below. Neither is noted, since the second names an account.
  await counters.consumeFor(config.limits.mailRequests, byNetwork(network), { now }, async () => {
    const companyId = await resolveCompany(db, named)
    const queue = () =>
      queueMail(db, system, companyId, { kind, recipient, data: { ipAddress }, network, now })
    try {
      // By company, so that requests in one leave those of another, and by network, so that a stranger leaves
      // those of the owner.
      const requester = byNetwork(network, kind, companyId, recipient)
      await counters.consumeFor(config.limits.mail, requester, { now }, queue)
    } catch (error) {
      // Enough mails were requested: the same answer.
      if (!(error instanceof Problem && error.code === 'rate_limited')) throw error
    }
  })
}
