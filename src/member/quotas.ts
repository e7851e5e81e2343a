import type { Transaction } from 'kysely'
import type { Config } from '../config.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { countOtherInvitations } from './invitation-repository.ts'
import { countMembers, lockQuotas } from './quotas-repository.ts'

/** How many members and open invitations a company can have. Other transactions that add some wait until this one ends. */

type Quotas = Config['quotas']

/** @throws Problem quota_reached if there is no room for one more member */
export async function requireRoomForMember(
  tx: Transaction<Database>,
  companyId: string,
  { members, membersInTrial }: Quotas,
): Promise<void> {
  const max = (await lockQuotas(tx, companyId)) ? membersInTrial : members
  if ((await countMembers(tx, companyId)) < max) return
  throw new Problem('quota_reached', `The company has ${max} members, which is the most it can have.`)
}

/** @throws Problem quota_reached if there is no room for an invitation to this e-mail */
export async function requireRoomForInvitation(
  tx: Transaction<Database>,
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
