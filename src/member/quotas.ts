import type { Config } from '../config/config.ts'
import type { Tx } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import { countOtherInvitations } from './invitation-repository.ts'
import { countMembers, lockQuotas } from './repository.ts'

/**
 * How many members and open invitations a company can have. An open invitation keeps room for its member, so a full company is
 * refused when it invites, not when somebody accepts. Transactions that add some go one after the other.
 */

export type Quotas = Config['quotas']

/** For an invitation that is accepted, which had room. @throws Problem quota_reached */
export async function requireRoomToJoin(tx: Tx, companyId: string, quotas: Quotas): Promise<void> {
  const max = await lockMax(tx, companyId, quotas)
  if ((await countMembers(tx, companyId)) >= max) throw full(max)
}

/** @throws Problem quota_reached */
export async function requireRoomForMember(
  tx: Tx,
  companyId: string,
  { email, now }: { email: string; now: Date },
  quotas: Quotas,
): Promise<void> {
  const max = await lockMax(tx, companyId, quotas)
  const invited = await countOtherInvitations(tx, companyId, { email, now })
  if ((await countMembers(tx, companyId)) + invited >= max) throw full(max)
}

async function lockMax(tx: Tx, companyId: string, { members, membersInTrial }: Quotas): Promise<number> {
  return (await lockQuotas(tx, companyId)) ? membersInTrial : members
}

function full(max: number): Problem {
  return new Problem(
    'quota_reached',
    `The company can have at most ${max} members, and open invitations count. Withdraw an invitation or delete a member.`,
  )
}

/** Those that members send. @throws Problem quota_reached if too many are open in trial */
export async function requireFewInvitations(
  tx: Tx,
  companyId: string,
  { email, now }: { email: string; now: Date },
  { invitationsInTrial: max }: Quotas,
): Promise<void> {
  if (!(await lockQuotas(tx, companyId))) return
  if ((await countOtherInvitations(tx, companyId, { email, now })) < max) return
  throw new Problem(
    'quota_reached',
    `On a trial, a company can have at most ${max} open invitations. Withdraw one, or wait until one is accepted.`,
  )
}
