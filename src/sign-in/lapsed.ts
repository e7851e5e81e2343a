import type { MemberIds } from '../company/account.ts'
import { recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { lockUser } from '../company/repository.ts'
import type { Context } from '../http/context.ts'
import { queueMail } from '../mail/service.ts'
import { NIL_ID, newId } from '../system.ts'
import { deleteLapsed, listLapsedAcrossCompanies, noteTold } from './repository.ts'

/** The password was right, and the second factor never came: somebody else can have the password, so the member is told. */

/** Who lets a challenge lapse and begins again is no stranger: a sign-in that is completed consumes those of its network. */
const GRACE_MS = 15 * 60_000
const MAX = 200
const REFUSAL = { reason: 'factor_missing', isKnown: true, isLockout: false, isGuessed: false } as const

/** If one member fails, the others still follow. @throws the first error, at the end */
export async function settleLapsedAcrossCompanies(
  context: Pick<Context, 'db' | 'system'>,
  now: number,
  signal?: AbortSignal,
): Promise<void> {
  const failures: unknown[] = []
  const until = new Date(now - GRACE_MS)
  for (let last: MemberIds = { companyId: NIL_ID, userId: NIL_ID }; ; ) {
    const members = await listLapsedAcrossCompanies(context.db, until, last, MAX)
    for (const member of members) {
      if (signal?.aborted) return
      await settle(context, member, { until, now }).catch((error: unknown) => failures.push(error))
    }
    const end = members.at(-1)
    if (!end || members.length < MAX) break
    last = end
  }
  if (failures.length > 0) throw failures[0]
}

async function settle(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { companyId, userId }: MemberIds,
  { until, now }: { until: Date; now: number },
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // In the lock order of a sign-in: the user, then the challenges.
    await lockUser(tx, companyId, userId)
    const begun = await deleteLapsed(tx, companyId, userId, until)
    const [first] = begun
    if (!first) return
    // Their minutes are over, so no sign-in waits for the locks of these sums.
    await recordRefusedSignIns(
      tx,
      begun.map((one) => ({ ...one, ...REFUSAL, companyId, userId, mailId: newId(system) })),
    )
    const recipient = await noteTold(tx, companyId, userId, new Date(now))
    if (!recipient) return
    const about = { recipient, data: { ipAddress: first.ipAddress }, now: first.at.getTime() }
    await queueMail(tx, system, companyId, { kind: 'second_factor_missing', ...about })
  })
}
