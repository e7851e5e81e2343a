import { checkName } from '../company/checks.ts'
import {
  challengeIn,
  creationOptions,
  type RegistrationResponse,
  readRegistration,
} from '../crypto/passkeys.ts'
import { describeTotp, matchTotp, newTotpSecret } from '../crypto/totp.ts'
import type { Tx } from '../database/connect.ts'
import { isUniqueViolation } from '../database/faults.ts'
import type { FactorKind } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Act, type Actor, countChange } from '../session/acts.ts'
import { storeMethods } from '../session/repository.ts'
import { methodsOf, type Session, sessionEnded } from '../session/session.ts'
import { newId } from '../system.ts'
import { issueSessionChallenge } from './challenges.ts'
import { consumeEnrolment } from './challenges-repository.ts'
import { consumeMailedCode } from './codes-repository.ts'
import { methodValuesOf } from './factor.ts'
import { checkMailCode, mustProveMailbox, proveMailbox } from './mailbox.ts'
import { asOwner, type Changed, settle, storeNewCodes } from './own-factors.ts'
import * as repository from './repository.ts'
import { sealingContext } from './sealed.ts'

/** Members add authenticator apps, which the first code confirms, and passkeys, which sign a challenge. */

const MAX: Record<FactorKind, number> = { totp: 2, passkey: 20 }
/** An authenticator app waits this long for its first code. */
const SETUP_MS = 3_600_000
const HANDLE_BYTES = 64
const APP_NAME = 'Authenticator app'

/** The app works after `confirmTotp`. @throws Problem invalid_request, permission_denied, quota_reached */
export async function addTotp(context: Context, actor: Actor, mailCode: string | undefined) {
  const { session, now } = actor
  const { system, sealer } = context
  const { companyId, userId, email, companyName } = session
  requirePerson(session)
  await countChange(context, actor)
  const digest = await checkMailCode(context, actor, 'factor', mailCode)
  const [id, secret] = [newId(system), newTotpSecret(system.randomBytes)]
  const sealedSecret = sealer.seal(secret, sealingContext(companyId, id))
  await asOwner(context, actor, async ({ tx }, owner) => {
    await requireRoom(tx, session, 'totp')
    const mailboxProven = await proveMailbox(tx, session, owner, { use: 'factor', digest })
    const app = { factorId: id, name: APP_NAME, sealedSecret, mailboxProven, at: new Date(now) }
    await repository.insertTotp(tx, companyId, userId, app)
  })
  return { id, ...describeTotp(secret, { issuer: companyName, email }) }
}

/** Returns recovery codes for the first factor. @throws Problem invalid_request, not_found, session_ended */
export async function confirmTotp(
  context: Context,
  actor: Actor,
  { id, code }: { id: string; code: string },
): Promise<string[] | undefined> {
  const { db, sealer } = context
  const { session, now } = actor
  const { companyId, userId } = session
  await countChange(context, actor)
  const since = new Date(now - SETUP_MS)
  const app = await repository.findUnconfirmedTotp(db, companyId, userId, { factorId: id, since })
  if (!app?.sealedSecret) throw notWaiting()
  const secret = sealer.open(app.sealedSecret, sealingContext(companyId, id))
  const step = matchTotp(secret, code, now)
  if (step === null)
    throw invalidField(
      'code',
      'is wrong',
      'The code is wrong. Check the clock of the device, then send the next code.',
    )
  return await asOwner(context, actor, async (act, owner) => {
    // The app was added without a code, while the member had a different factor.
    if (mustProveMailbox(owner) && !app.mailboxProven)
      throw invalidField(
        'code',
        'is for an authenticator app that was added without an emailed code',
        'This authenticator app was added without an emailed code. Add it again with one.',
      )
    const confirmed = { factorId: id, step, at: new Date(now) }
    if (!(await repository.confirmTotp(act.tx, companyId, userId, confirmed))) throw notWaiting()
    return await settleAdded(context, act, actor, { owner, id, kind: 'totp', name: APP_NAME })
  })
}

const notWaiting = () =>
  new Problem(
    'not_found',
    'This authenticator app is not waiting for its first code. It was confirmed, replaced, or added more than an hour ago. Add it again.',
  )

/** @throws Problem permission_denied, session_ended */
export async function beginPasskey(context: Context, actor: Actor): Promise<{ passkeyOptions: object }> {
  const { db, system, config, opaque } = context
  const { session } = actor
  const { companyId, userId, email, name } = session
  requirePerson(session)
  await countChange(context, actor)
  const tag = Buffer.from(opaque.tag)
  const fresh = Buffer.concat([tag, system.randomBytes(HANDLE_BYTES - tag.length)])
  const handle = await repository.giveHandle(db, companyId, userId, fresh)
  if (!handle) throw sessionEnded()
  const about = { purpose: 'enrolment', isPasswordProven: false } as const
  const challenge = await issueSessionChallenge(context, session, about, actor)
  const factors = await repository.listFactors(db, companyId, userId)
  const existing = factors.filter((factor) => factor.kind === 'passkey')
  return {
    passkeyOptions: await creationOptions(config.passkeys, { challenge, handle, email, name, existing }),
  }
}

/** Returns recovery codes for the first factor. @throws Problem invalid_request, quota_reached, session_ended */
export async function addPasskey(
  context: Context,
  actor: Actor,
  given: { response: RegistrationResponse; name: string; mailCode?: string | undefined },
): Promise<{ id: string; recoveryCodes: string[] | undefined }> {
  const { system, config } = context
  const { session, now } = actor
  const { companyId, userId, sessionId } = session
  await countChange(context, actor)
  const name = checkName('name', given.name)
  const { response } = given
  const challenge = challengeIn(response)
  const hash = challenge === undefined ? null : context.opaque.hash(context.opaque.tag + challenge)
  const passkey = hash && challenge && (await readRegistration(config.passkeys, { response, challenge }))
  if (!hash || !passkey) throw notAccepted()
  const digest = await checkMailCode(context, actor, 'factor', given.mailCode)
  const [id, at] = [newId(system), new Date(now)]
  const adding = asOwner(context, actor, async (act, owner) => {
    const { tx } = act
    if (!(await consumeEnrolment(tx, companyId, { userId, sessionId, hash, now: at }))) throw notAccepted()
    await requireRoom(tx, session, 'passkey')
    await proveMailbox(tx, session, owner, { use: 'factor', digest })
    await repository.insertPasskey(tx, companyId, userId, { ...passkey, factorId: id, name, at })
    const added = { owner, id, kind: 'passkey', name, backupEligible: passkey.backupEligible } as const
    return { id, recoveryCodes: await settleAdded(context, act, actor, added) }
  })
  return await adding.catch((error: unknown) => {
    // A member already has this passkey, which the response must not reveal.
    if (isUniqueViolation(error)) throw notAccepted()
    throw error
  })
}

/** The same response for every cause. */
const notAccepted = () =>
  invalidField('response', 'is not accepted', 'The passkey was not accepted. Get new options and try again.')

function requirePerson({ userKind }: Session): void {
  if (userKind === 'service')
    throw new Problem(
      'permission_denied',
      'Service accounts cannot have second factors. Sign in as a member to add one.',
    )
}

async function requireRoom(tx: Tx, { companyId, userId }: Session, kind: FactorKind): Promise<void> {
  const factors = await repository.listFactors(tx, companyId, userId)
  if (factors.filter((factor) => factor.kind === kind).length < MAX[kind]) return
  const what = kind === 'totp' ? 'authenticator apps' : 'passkeys'
  throw new Problem('quota_reached', `You have ${MAX[kind]} ${what}, which is the maximum. Remove one first.`)
}

async function settleAdded(
  context: Context,
  act: Act,
  actor: Actor,
  { owner, ...added }: Changed & { owner: repository.Owner; backupEligible?: boolean },
): Promise<string[] | undefined> {
  const { tx } = act
  const { session } = actor
  const { companyId, userId, sessionId } = session
  const factors = await repository.listFactors(tx, companyId, userId)
  await repository.storeKinds(tx, companyId, userId)
  const codes = factors.length === 1 ? await storeNewCodes(context, tx, session) : undefined
  await consumeMailedCode(tx, companyId, userId)
  await settle(act, actor, owner, { action: 'second_factor_add', ...added })
  // The session has used the new factor. Its `auth_time` stays, because the user gave the password then.
  const amr = [...new Set([...methodsOf(session), ...methodValuesOf(added), 'mfa'])]
  await storeMethods(tx, companyId, sessionId, amr)
  return codes
}
