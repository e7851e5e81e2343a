import { type RefusedSignIn, recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { holdUser } from '../company/service.ts'
import type { Context } from '../context.ts'
import { queueMail } from '../mail/service.ts'
import type { MemberIds } from '../second-factor/context.ts'
import { newId, type System } from '../system.ts'
import { type Begun, deleteLapsed, listLapsedAcrossCompanies, noteTold } from './lapsed-repository.ts'

/** Sign-ins whose second factor never came. Who began one knows the password, so its member is told, once a day. */

const MAX = 200
const NIL = '00000000-0000-0000-0000-000000000000'

/**
 * Deletes the challenges that have expired, and tells the members, until the signal aborts. One member that fails does not
 * keep the others from their turn.
 * @throws the first error, at the end
 */
export async function settleLapsedAcrossCompanies(
  context: Pick<Context, 'db' | 'system'>,
  now: number,
  signal?: AbortSignal,
): Promise<void> {
  const failures: unknown[] = []
  for (let last: MemberIds = { companyId: NIL, userId: NIL }; ; ) {
    const members = await listLapsedAcrossCompanies(context.db, new Date(now), last, MAX)
    for (const member of members) {
      if (signal?.aborted) return
      await settle(context, member, now).catch((error: unknown) => failures.push(error))
    }
    const end = members.at(-1)
    if (!end || members.length < MAX) break
    last = end
  }
  if (failures.length > 0) throw failures[0]
}

/** The member is held first, as in a sign-in, so that the two never deadlock. */
async function settle(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { companyId, userId }: MemberIds,
  now: number,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await holdUser(tx, companyId, userId)
    const begun = await deleteLapsed(tx, companyId, userId, new Date(now))
    const [first] = begun
    if (!first) return
    // Into minutes that have passed: nobody who holds their sums waits for this member.
    await recordRefusedSignIns(
      tx,
      begun.map((one) => refusalOf(system, { companyId, userId }, one)),
    )
    const recipient = await noteTold(tx, companyId, userId, new Date(now))
    if (!recipient) return
    const { ipAddress, createdAt } = first
    const about = { recipient, data: { ipAddress }, now: createdAt.getTime() }
    await queueMail(tx, system, companyId, { kind: 'second_factor_missing', ...about })
  })
}

/** Who knows the password is no stranger. */
function refusalOf(
  system: System,
  member: MemberIds,
  { email, network, ipAddress, createdAt: at }: Begun,
): RefusedSignIn {
  const about = { reason: 'factor_missing', isKnown: true, isLockout: false, isGuessed: false } as const
  return { ...member, ...about, email, network, ipAddress, at, mailId: newId(system) }
}
