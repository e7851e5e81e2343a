import { sql } from 'kysely'
import { PLATFORM, type SignInRefusal } from '../audit/entry.ts'
import { summingUpRefusedSignIns } from '../audit/fragments.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { mailEach } from '../mail/repository.ts'

export interface RefusedSignIn {
  companyId: string
  email: string
  network: string
  ipAddress: string
  reason: SignInRefusal
  userId: string | null
  /** The user's network or device is known. */
  isKnown: boolean
  at: Date
  /** The network's last guess within the limit: marks the user as locked out. */
  isLockout: boolean
  /** The last guess within the limit of all networks: the user gets an email, at most once a day. */
  isGuessed: boolean
  mailId: string
}

const refusedTable = itemTable<RefusedSignIn>({
  company_id: ['uuid', ({ companyId }) => companyId],
  email: ['text', ({ email }) => email],
  network: ['text', ({ network }) => network],
  ip_address: ['text', ({ ipAddress }) => ipAddress],
  reason: ['text', ({ reason }) => reason],
  user_id: ['uuid', ({ userId }) => userId],
  is_known: ['boolean', ({ isKnown }) => isKnown],
  at: ['timestamptz', ({ at }) => at],
  is_lockout: ['boolean', ({ isLockout }) => isLockout],
  is_guessed: ['boolean', ({ isGuessed }) => isGuessed],
  mail_id: ['uuid', ({ mailId }) => mailId],
})

/** Locked in key order, so that two statements never deadlock. */
const locked = sql`
  select u.company_id, u.user_id, g.is_lockout, g.at, g.mail_id, g.ip_address,
    (g.is_guessed and u.email_verified_at is not null
      and coalesce(u.guessing_told_at <= g.at - interval '1 day', true)) as is_told
  from (
    select company_id, email, bool_or(is_lockout) as is_lockout, bool_or(is_guessed) as is_guessed, max(at) as at,
      (array_agg(mail_id))[1] as mail_id, (array_agg(ip_address order by at desc))[1] as ip_address
    from item where is_lockout or is_guessed
    group by company_id, email
  ) g
  join users u on u.company_id = g.company_id and u.email = g.email
  order by u.company_id, u.user_id
  for update of u`

const mailGuessed = mailEach(sql`noted where is_told`, {
  companyId: sql`company_id`,
  mailId: sql`mail_id`,
  kind: sql<'password_guessing'>`'password_guessing'`,
  recipient: sql`email`,
  data: sql`json_build_object('ipAddress', ip_address)`,
  createdAt: sql`at`,
})

/** One statement, commit, and row each, so that response times do not reveal whether company and user exist. */
export async function recordRefusedSignIns(db: Executor, items: RefusedSignIn[]): Promise<void> {
  await sql`
    with item as (select * from ${refusedTable(items)}), locked as (${locked}), noted as (
      update users u set
        locked_out_at = case when l.is_lockout then l.at else u.locked_out_at end,
        guessing_told_at = case when l.is_told then l.at else u.guessing_told_at end
      from locked l where u.company_id = l.company_id and u.user_id = l.user_id
      returning u.company_id, u.email, l.is_told, l.at, l.mail_id, l.ip_address
    ), told as (${mailGuessed}), at_company as (
      select coalesce(c.company_id, ${PLATFORM}::uuid) as company_id, i.at, i.network, i.reason, i.is_known, i.email,
        i.ip_address, case when c.company_id is not null then i.user_id end as user_id
      from item i left join companies c on c.company_id = i.company_id and c.status <> 'deleting'
      -- After the users are locked, like the deletion of a user, which blanks the email in these sums.
      where (select count(*) from noted) >= 0
    ), ${summingUpRefusedSignIns('at_company')}
    select`.execute(db)
}
