import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Companies and users as operators see them. */

function selectCompanies(db: Executor) {
  return db
    .selectFrom('companies as c')
    .leftJoin('subscriptions as s', 's.company_id', 'c.company_id')
    .select(['c.company_id as companyId', 'c.handle', 'c.name', 'c.status'])
    .select(['s.plan', 's.status as subscription'])
    .select(({ selectFrom, fn, cast }) =>
      selectFrom('users as u')
        .select(cast<number>(fn.countAll(), 'integer').as('count'))
        .whereRef('u.company_id', '=', 'c.company_id')
        .where('u.status', '!=', 'deleted')
        .as('users'),
    )
    .select('c.created_at as createdAt')
}

export async function listCompaniesAcrossCompanies(db: Executor, limit: number) {
  return await selectCompanies(db)
    .orderBy('c.created_at', 'desc')
    .orderBy('c.company_id', 'desc')
    .limit(limit)
    .execute()
}

export async function findCompany(db: Executor, companyId: string) {
  return await selectCompanies(db)
    .leftJoin('signing_secrets as v', 'v.company_id', 'c.company_id')
    .select([
      's.current_period_end as currentPeriodEnd',
      sql<string[]>`array(select u.email from users u where u.company_id = c.company_id and u.role = 'admin'
        and u.status = 'active' order by u.email)`.as('admins'),
      'v.version as signingSecretVersion',
      'c.second_factor_policy as secondFactor',
    ])
    .where('c.company_id', '=', companyId)
    .executeTakeFirst()
}

/** Only deleted users have no email. */
function selectUsers(db: Executor, companyId: string) {
  return db
    .selectFrom('users')
    .select(['user_id as userId', 'kind', 'email', 'name', 'role', 'assignments', 'status'])
    .select(['second_factors as secondFactors', 'email_verified_at as emailVerifiedAt'])
    .select(['locked_out_at as lockedOutAt', 'created_at as createdAt'])
    .where('company_id', '=', companyId)
    .where('status', '!=', 'deleted')
    .$narrowType<{ email: string }>()
}

export async function listUsers(db: Executor, companyId: string, limit: number) {
  return await selectUsers(db, companyId).orderBy('email').limit(limit).execute()
}

export async function findUser(
  db: Executor,
  companyId: string,
  user: { userId: string } | { email: string },
) {
  const users = selectUsers(db, companyId)
  const found =
    'userId' in user ? users.where('user_id', '=', user.userId) : users.where('email', '=', user.email)
  return await found.executeTakeFirst()
}
