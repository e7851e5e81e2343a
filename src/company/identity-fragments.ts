import { sql } from 'kysely'
import { aliased } from '../database/columns.ts'
import { ACCOUNT_COLUMNS, type Account } from './account.ts'

export interface Identity extends Account {
  passwordHash: string
  emailVerifiedAt: Date | null
  lockedOutAt: Date | null
}

export const identityColumns = sql`u.company_id as "companyId", u.user_id as "userId",
  ${aliased('a', ACCOUNT_COLUMNS)}, u.password_hash as "passwordHash", u.email_verified_at as "emailVerifiedAt",
  u.locked_out_at as "lockedOutAt"`

/** Joins users `u` and accounts `a` to `i`, which has the columns company_id and email. */
export const identities = sql`
  -- There is one at most. So the planner comes from the e-mail, and not from the company to all of its users.
  cross join lateral (select * from users u where u.company_id = i.company_id and u.email = i.email limit 1) u
  join accounts a on a.company_id = u.company_id and a.user_id = u.user_id`
