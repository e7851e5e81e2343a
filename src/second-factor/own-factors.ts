import { isConcerned, type MemberIds } from '../company/account.ts'
import type { Digests } from '../crypto/digests.ts'
import { normalizeCode } from '../crypto/totp.ts'
import type { Tx } from '../database/connect.ts'
import type { FactorKind } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Act, type ActContext, type Actor, countChange, perform } from '../session/acts.ts'
import { endOtherSessions } from '../session/ending-repository.ts'
import { withdrawSecondFactor } from '../session/repository.ts'
import { sessionEnded } from '../session/session.ts'
import type { System } from '../system.ts'
import { replaceRecoveryCodes } from './codes-repository.ts'
import * as repository from './repository.ts'

/** Changing a factor locks the member, ends the other sessions, and is audited and emailed (ASVS 6.3.7, 7.4.3). */

/** Removing the last factor removes the recovery codes. @throws Problem not_found, factor_required, session_ended */
export async function removeFactor(context: Context, actor: Actor, id: string): Promise<void> {
  const { companyId, userId, sessionId } = actor.session
  await countChange(context, actor)
  await asOwner(context, actor, async (act, owner) => {
    const { tx } = act
    const removed = await repository.deleteFactor(tx, companyId, userId, id)
    if (!removed)
      throw new Problem(
        'not_found',
        'You have no second factor with this ID. List yours with GET /auth/second-factors.',
      )
    if (!removed.isConfirmed) return
    const kinds = await repository.storeKinds(tx, companyId, userId)
    if (kinds.length === 0) {
      if (isConcerned(owner))
        throw new Problem(
          'factor_required',
          'Your company requires a second factor, and this is your only one. Add another factor first.',
        )
      await replaceRecoveryCodes(tx, companyId, userId, [])
    }
    await settle(act, actor, owner, { action: 'second_factor_remove', id, ...removed })
    if (kinds.length === 0) await withdrawSecondFactor(tx, companyId, sessionId)
  })
}

/** The previous codes no longer work. @throws Problem factor_required, session_ended */
export async function renewRecoveryCodes(context: Context, actor: Actor): Promise<string[]> {
  const { ipAddress } = actor.client
  await countChange(context, actor)
  return await asOwner(context, actor, async ({ tx, audit, mail }, owner) => {
    if (owner.secondFactors.length === 0)
      throw new Problem('factor_required', 'Recovery codes require a second factor. Add one first.')
    const codes = await storeNewCodes(context, tx, actor.session)
    await mail({ kind: 'recovery_codes_replaced', recipient: owner.email, data: { ipAddress } })
    await audit('recovery_codes')
    return codes
  })
}

/** Locks the member. @throws Problem session_ended */
export async function asOwner<Result>(
  context: ActContext,
  actor: Actor,
  work: (act: Act, owner: repository.Owner) => Promise<Result>,
): Promise<Result> {
  const lock = (tx: Tx, companyId: string) => repository.lockOwner(tx, companyId, actor.session.userId)
  return await perform(context, actor, { permission: null, lock }, async (act, owner) => {
    if (!owner) throw sessionEnded()
    return await work(act, owner)
  })
}

export type Changed = { id: string; kind: FactorKind; name: string }

/** @throws Problem session_ended */
export async function settle(
  { tx, audit, mail }: Act,
  { session: { companyId, userId, sessionId }, client: { ipAddress } }: Actor,
  { email: recipient, secondFactors: before }: repository.Owner,
  { action, id, kind, name }: Changed & { action: 'second_factor_add' | 'second_factor_remove' },
): Promise<void> {
  if (!(await endOtherSessions(tx, companyId, { userId, sessionId, reason: 'ended_by_user' })))
    throw sessionEnded()
  const isFirst = before.length === 0
  const added = isFirst ? 'first_factor_added' : 'second_factor_added'
  const letter = action === 'second_factor_add' ? added : 'second_factor_removed'
  const data = { ipAddress, factor: { kind, name }, ...(isFirst && { userId }) }
  await mail({ kind: letter, recipient, data })
  await audit(action, { subject: id, details: { kind } })
}

export async function storeNewCodes({ system, digests }: Context, tx: Tx, member: MemberIds) {
  const codes = newRecoveryCodes(system)
  const stored = codes.flatMap((code) => digestsOfCode(digests, member, code).slice(0, 1))
  await replaceRecoveryCodes(tx, member.companyId, member.userId, stored)
  return codes
}

const CODES = 10
/** Crockford's base32: without letters that look like digits, or like each other. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const LENGTH = 26
/** Codes from earlier releases. */
const EARLIER_LENGTH = 24

/** Each code has 130 random bits, in groups of four letters. */
export function newRecoveryCodes({ randomBytes }: Pick<System, 'randomBytes'>): string[] {
  return Array.from({ length: CODES }, () => {
    const letters = [...randomBytes(LENGTH)].map((byte) => ALPHABET[byte % ALPHABET.length]).join('')
    return (letters.match(/.{1,4}/g) ?? []).join('-')
  })
}

/** Under all master keys; none if the text can't be a code. */
export function digestsOfCode(digests: Digests, { companyId, userId }: MemberIds, code: string) {
  const letters = normalizeCode(code).toUpperCase().replaceAll('O', '0').replace(/[IL]/g, '1')
  const hasLength = letters.length === LENGTH || letters.length === EARLIER_LENGTH
  const isCode = hasLength && [...letters].every((letter) => ALPHABET.includes(letter))
  return isCode ? digests.of('recovery code', companyId, userId, letters) : []
}
