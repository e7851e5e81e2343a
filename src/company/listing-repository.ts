import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus, SecondFactorPolicy, SubscriptionStatus } from '../database/schema.ts'

/** What operators see of companies and their users. */

interface ListedCompany {
  companyId: string
  name: string
  status: CompanyStatus
  plan: string
  subscription: SubscriptionStatus
  users: number
  createdAt: Date
}

const listedCompany = sql`
  c.company_id as "companyId", c.name, c.status, s.plan, s.status as subscription,
  (select count(*)::int from users u where u.company_id = c.company_id and u.status <> 'deleted') as users,
  c.created_at as "createdAt"`

export async function listCompaniesAcrossCompanies(db: Executor, limit: number): Promise<ListedCompany[]> {
  const { rows } = await sql<ListedCompany>`
    select ${listedCompany} from companies c left join subscriptions s on s.company_id = c.company_id
    order by c.created_at desc, c.company_id desc limit ${limit}`.execute(db)
  return rows
}

interface ShownCompany extends ListedCompany {
  currentPeriodEnd: Date
  /** Of active admins. */
  admins: string[]
  signingSecretVersion: number | null
  secondFactor: SecondFactorPolicy
}

export async function findCompany(db: Executor, companyId: string): Promise<ShownCompany | undefined> {
  const { rows } = await sql<ShownCompany>`
    select ${listedCompany}, s.current_period_end as "currentPeriodEnd",
      array(select u.email from users u where u.company_id = c.company_id and u.role = 'admin'
        and u.status = 'active' order by u.email) as admins,
      (select v.version from signing_secrets v where v.company_id = c.company_id) as "signingSecretVersion",
      c.second_factor_policy as "secondFactor"
    from companies c left join subscriptions s on s.company_id = c.company_id
    where c.company_id = ${companyId}`.execute(db)
  return rows[0]
}

const SHOWN_USER = [
  'user_id as userId',
  'kind',
  'email',
  'name',
  'role',
  'assignments',
  'status',
  'second_factors as secondFactors',
  'email_verified_at as emailVerifiedAt',
  'locked_out_at as lockedOutAt',
  'created_at as createdAt',
] as const

/** Without deleted ones, which alone have no e-mail. */
function selectUsers(db: Executor, companyId: string) {
  return db
    .selectFrom('users')
    .select(SHOWN_USER)
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
  const [column, value] =
    'userId' in user ? (['user_id', user.userId] as const) : (['email', user.email] as const)
  return await selectUsers(db, companyId).where(column, '=', value).executeTakeFirst()
}
