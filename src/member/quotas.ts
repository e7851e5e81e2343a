import type { Config } from '../config.ts'
import type { Tx } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import { countOtherInvitations } from './invitation-repository.ts'
import { countMembers, lockQuotas } from './repository.ts'

/** How many members and open invitations a company can have. Transactions that add some go one after the other. */

type Quotas = Config['quotas']

/** @throws Problem quota_reached if there is no room for one more member */
export async function requireRoomForMember(tx: Tx, companyId: string, { members, membersInTrial }: Quotas) {
  const max = (await lockQuotas(tx, companyId)) ? membersInTrial : members
  if ((await countMembers(tx, companyId)) < max) return
  throw new Problem('quota_reached', `The company has ${max} members, which is the most it can have.`)
}

/** @throws Problem quota_reached if there is no room for an invitation to this e-mail */
export async function requireRoomForInvitation(
  tx: Tx,
  companyId: string,
  { email, now }: { email: string; now: Date },
  { invitationsInTrial: max }: Quotas,
): Promise<void> {
  if (!(await lockQuotas(tx, companyId))) return
  if ((await countOtherInvitations(tx, companyId, { email, now })) < max) return
  throw new Problem(
    'quota_reached',
    `In trial, ${max} invitations can be open at once: withdraw one, or wait until one is accepted.`,
  )
}
