import type { Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { isConcerned } from '../company/account.ts'
import { checkName } from '../company/checks.ts'
import { hashOpaque } from '../crypto/opaque.ts'
import { codeOf } from '../database/faults.ts'
import type { Database, FactorKind } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import { queueMail } from '../mail/service.ts'
import { requireActor } from '../session/acting.ts'
import { endOtherSessions } from '../session/ending-repository.ts'
import { storeMethods } from '../session/proof-repository.ts'
import { methodsOf, type Session, sessionEnded } from '../session/session.ts'
import { newId } from '../system.ts'
import { challengeOfSession } from './challenges.ts'
import { consumeEnrolment } from './challenges-repository.ts'
import type { Context, Received } from './context.ts'
import { methodValuesOf, type Passkey, type RegistrationResponse } from './factor.ts'
import { mustProveMailbox } from './held.ts'
import { checkMailCode } from './mailbox.ts'
import { challengeIn, creationOptions, readRegistration } from './passkeys.ts'
import { digestsOfCode, newRecoveryCodes } from './recovery-codes.ts'
import * as repository from './repository.ts'
import { sealingContext } from './sealed.ts'
import { describeTotp, matchTotp, newTotpSecret } from './totp.ts'

/**
 * A member adds and removes factors of their own. Each change is decided while the row of the member is held, ends the
 * other sessions, and is audited and mailed in its transaction (ASVS 6.3.7, 7.4.3).
 */

/** The most factors of a kind. */
const MAX: Record<FactorKind, number> = { totp: 2, passkey: 20 }
/** How long an authenticator app can be set up. */
const SETUP_MS = 3_600_000
const HANDLE_BYTES = 64
const APP_NAME = 'Authenticator app'

type Tx = Transaction<Database>

/** An authenticator app that is in force once its first code is confirmed. @throws Problem invalid_request, quota_reached */
export async function addTotp(
  context: Context,
  session: Session,
  mailCode: string | undefined,
  { now }: Received,
): Promise<{ id: string; secret: string; uri: string }> {
  const { db, system, sealer } = context
  const { companyId, userId, email, companyName } = session
  requirePerson(session)
  const consumeMailCode = await checkMailCode(context, session, mailCode, now)
  const [id, secret] = [newId(system), newTotpSecret(system.randomBytes)]
  const sealedSecret = sealer.seal(secret, sealingContext(companyId, id))
  await db.transaction().execute(async (tx) => {
    await hold(tx, session, now)
    await requireRoom(tx, session, 'totp')
    await consumeMailCode(tx)
    const mailboxProven = mustProveMailbox(session)
    const at = new Date(now)
    await repository.insertTotp(tx, companyId, userId, {
      factorId: id,
      name: APP_NAME,
      sealedSecret,
      mailboxProven,
      at,
    })
  })
  return { id, ...describeTotp(secret, { issuer: companyName, email }) }
}

/**
 * Puts an authenticator app in force by one of its codes. Returns recovery codes if it is the first factor.
 * @throws Problem invalid_request, not_found, session_ended
 */
export async function confirmTotp(
  context: Context,
  session: Session,
  { id, code }: { id: string; code: string },
  received: Received,
): Promise<string[] | undefined> {
  const { db, sealer } = context
  const { companyId, userId } = session
  const { now } = received
  const since = new Date(now - SETUP_MS)
  const app = await repository.findUnconfirmedTotp(db, companyId, userId, { factorId: id, since })
  if (!app) throw notWaiting()
  // The policy can have come after the app, which would then be in force without the mailed code.
  if (mustProveMailbox(session) && !app.mailboxProven)
    throw invalidField(
      'code',
      'is for an authenticator app that was begun without a mailed code; begin again',
    )
  const secret = sealer.open(app.sealedSecret, sealingContext(companyId, id))
  const step = matchTotp(secret, code.replaceAll(' ', ''), now)
  if (step === null)
    throw invalidField(
      'code',
      'is wrong',
      'The code is wrong. Check that the clock of the device is right, and send the next code.',
    )
  return await db.transaction().execute(async (tx) => {
    await hold(tx, session, now)
    const confirmed = { factorId: id, step, at: new Date(now) }
    if (!(await repository.confirmTotp(tx, companyId, userId, confirmed))) throw notWaiting()
    return await settleAdded(context, tx, session, { id, kind: 'totp', name: APP_NAME }, received)
  })
}

const notWaiting = () =>
  new Problem('not_found', 'No authenticator app with this id waits for its first code; begin again.')

/** What a browser makes a passkey with. @throws Problem permission_denied, session_ended */
export async function beginPasskey(
  context: Context,
  session: Session,
  received: Received,
): Promise<{ passkeyOptions: object }> {
  const { db, system, config } = context
  const { companyId, userId, email, name } = session
  requirePerson(session)
  const handle = await repository.giveHandle(db, companyId, userId, system.randomBytes(HANDLE_BYTES))
  const about = { purpose: 'enrolment', isPasswordProven: false } as const
  const challenge = await challengeOfSession(context, session, about, received)
  const factors = await repository.listFactors(db, companyId, userId)
  const existing = factors.filter((factor): factor is Passkey => factor.kind === 'passkey')
  return {
    passkeyOptions: await creationOptions(config.passkeys, { challenge, handle, email, name, existing }),
  }
}

/**
 * Adds a passkey. Returns recovery codes if it is the first factor.
 * @throws Problem invalid_request, quota_reached, session_ended
 */
export async function addPasskey(
  context: Context,
  session: Session,
  given: { response: RegistrationResponse; name: string; mailCode?: string | undefined },
  received: Received,
): Promise<{ id: string; recoveryCodes: string[] | undefined }> {
  const { db, system, config } = context
  const { companyId, userId, sessionId } = session
  const { now } = received
  const name = checkName('name', given.name)
  const { response } = given
  const challenge = challengeIn(response)
  const hash = challenge === undefined ? null : hashOpaque(challenge)
  const passkey = hash && challenge && (await readRegistration(config.passkeys, { response, challenge }))
  if (!hash || !passkey) throw notAccepted()
  const consumeMailCode = await checkMailCode(context, session, given.mailCode, now)
  const [id, at] = [newId(system), new Date(now)]
  const adding = db.transaction().execute(async (tx) => {
    await hold(tx, session, now)
    if (!(await consumeEnrolment(tx, companyId, { userId, sessionId, hash, now: at }))) throw notAccepted()
    await requireRoom(tx, session, 'passkey')
    await consumeMailCode(tx)
    await repository.insertPasskey(tx, companyId, userId, { ...passkey, factorId: id, name, at })
    const added = { id, kind: 'passkey', name, backupEligible: passkey.backupEligible } as const
    return { id, recoveryCodes: await settleAdded(context, tx, session, added, received) }
  })
  return await adding.catch((error: unknown) => {
    // Somebody has this passkey already. Nobody is told who.
    if (codeOf(error) === UNIQUE_VIOLATION) throw notAccepted()
    throw error
  })
}

const UNIQUE_VIOLATION = '23505'

/** The one answer to a registration that is not in order, whatever is wrong with it. */
const notAccepted = () =>
  invalidField(
    'response',
    'is not accepted',
    'The passkey is not accepted; ask for new options and try again.',
  )

/**
 * Removes one of the member's factors; with the last one, the recovery codes are void.
 * @throws Problem not_found, factor_required, session_ended
 */
export async function removeFactor(
  context: Context,
  session: Session,
  id: string,
  received: Received,
): Promise<void> {
  const { companyId, userId } = session
  await context.db.transaction().execute(async (tx) => {
    const owner = await hold(tx, session, received.now)
    const removed = await repository.deleteFactor(tx, companyId, userId, id)
    if (!removed) throw new Problem('not_found', 'You have no second factor with this id.')
    if (!removed.isConfirmed) return
    const kinds = await repository.storeKinds(tx, companyId, userId)
    if (kinds.length === 0) {
      if (isConcerned(owner))
        throw new Problem(
          'factor_required',
          'Your company asks for a second factor, and this is your last one: add another one first.',
        )
      await repository.replaceRecoveryCodes(tx, companyId, userId, [])
    }
    await settle(context, tx, session, 'second_factor_remove', { id, ...removed }, received)
  })
}

/** New recovery codes, which void the old ones. @throws Problem factor_required, session_ended */
export async function renewRecoveryCodes(
  context: Context,
  session: Session,
  { client: { ipAddress }, now }: Received,
): Promise<string[]> {
  const { companyId, userId, sessionId } = session
  return await context.db.transaction().execute(async (tx) => {
    const owner = await hold(tx, session, now)
    if (owner.secondFactors.length === 0)
      throw new Problem('factor_required', 'Recovery codes come with a second factor: add one first.')
    const codes = await storeNewCodes(context, tx, session)
    const mail = { recipient: owner.email, data: { ipAddress }, now }
    await queueMail(tx, context.system, companyId, { kind: 'recovery_codes_replaced', ...mail })
    const about = { action: 'recovery_codes', outcome: 'done', actor: userId, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(context.system, new Date(now), about))
    return codes
  })
}

/** Holds the member, and confirms that the session is live. @throws Problem session_ended */
async function hold(tx: Tx, session: Session, now: number): Promise<repository.Owner> {
  const owner = await repository.holdOwner(tx, session.companyId, session.userId)
  await requireActor(tx, session, now)
  if (!owner) throw sessionEnded()
  return owner
}

/** @throws Problem permission_denied */
function requirePerson({ userKind }: Session): void {
  if (userKind === 'service')
    throw new Problem('permission_denied', 'A service member has no second factor: its password is 256 bits.')
}

/** @throws Problem quota_reached */
async function requireRoom(tx: Tx, { companyId, userId }: Session, kind: FactorKind): Promise<void> {
  const factors = await repository.listFactors(tx, companyId, userId)
  if (factors.filter((factor) => factor.kind === kind).length < MAX[kind]) return
  const what = kind === 'totp' ? 'authenticator apps' : 'passkeys'
  throw new Problem(
    'quota_reached',
    `You have ${MAX[kind]} ${what}, the most there can be: remove one first.`,
  )
}

interface Changed {
  id: string
  kind: FactorKind
  name: string
  backupEligible?: boolean
}

/** What follows an added factor. Returns recovery codes if it is the first. */
async function settleAdded(
  context: Context,
  tx: Tx,
  session: Session,
  added: Changed,
  received: Received,
): Promise<string[] | undefined> {
  const { companyId, userId, sessionId } = session
  const factors = await repository.listFactors(tx, companyId, userId)
  await repository.storeKinds(tx, companyId, userId)
  const codes = factors.length === 1 ? await storeNewCodes(context, tx, session) : undefined
  await settle(context, tx, session, 'second_factor_add', added, received)
  // The session has proven the new factor; the time of its proof stays that of the password before.
  const amr = [...new Set([...methodsOf(session), ...methodValuesOf(added), 'mfa'])]
  await storeMethods(tx, companyId, sessionId, amr)
  return codes
}

/** Ends the other sessions, tells the member, and audits. @throws Problem session_ended */
async function settle(
  { system }: Context,
  tx: Tx,
  { companyId, userId, sessionId, email: recipient }: Session,
  action: 'second_factor_add' | 'second_factor_remove',
  { id, kind, name }: Changed,
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  if (!(await endOtherSessions(tx, companyId, userId, sessionId, 'ended_by_user'))) throw sessionEnded()
  const mail = action === 'second_factor_add' ? 'second_factor_added' : 'second_factor_removed'
  const data = { ipAddress, factor: { kind, name } }
  await queueMail(tx, system, companyId, { kind: mail, recipient, data, now })
  const about = {
    action,
    outcome: 'done',
    actor: userId,
    subject: id,
    sessionId,
    ipAddress,
    details: { kind },
  }
  await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
}

async function storeNewCodes(
  { system, digests }: Context,
  tx: Tx,
  { companyId, userId }: Session,
): Promise<string[]> {
  const codes = newRecoveryCodes(system)
  const stored = codes.flatMap((code) => digestsOfCode(digests, { companyId, userId }, code).slice(0, 1))
  await repository.replaceRecoveryCodes(tx, companyId, userId, stored)
  return codes
}
