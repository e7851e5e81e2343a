import type { MemberIds } from '../company/account.ts'
import { recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { lockUser } from '../company/repository.ts'
import type { Context } from '../http/context.ts'
import { queueMail } from '../mail/service.ts'
import { NIL_ID, newId } from '../system.ts'
import { deleteLapsed, listLapsedAcrossCompanies, noteTold } from './repository.ts'

/** A correct password without its second factor may have leaked, so the member gets an email. */

/** Time to retry: a completed sign-in consumes the challenges of its network. Sums of refused sign-ins stay open for it. */
const GRACE_MS = 8 * 60_000
const MAX = 200
const REFUSAL = { reason: 'factor_missing', isKnown: true, isLockout: false, isGuessed: false } as const

/** A failure of one member does not stop the others. @throws the first error, at the end */
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
    // Lock order of a sign-in: user, then challenges.
    await lockUser(tx, companyId, userId)
    const begun = await deleteLapsed(tx, companyId, userId, until)
    const [first] = begun
    if (!first) return
    // These sums are for past minutes, so no sign-in waits for their locks.
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
