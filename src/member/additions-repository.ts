import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Additions } from '../mail/notices.ts'
import { isPasswordOver } from '../session/session-fragments.ts'

const MAX_LISTED = 100

/** What an account has added to its company since a time, and what outlives a reset of the account. */
export async function listAdditions(
  db: Executor,
  companyId: string,
  { userId, since }: { userId: string; since: Date },
): Promise<Additions> {
  const members = await sql<Additions['members'][number]>`
    select user_id as id, email, name, role from users
    where company_id = ${companyId} and invited_by = ${userId} and created_at >= ${since} and status <> 'deleted'
    order by created_at, user_id limit ${MAX_LISTED}`.execute(db)
  const serviceAccounts = await sql<Additions['serviceAccounts'][number]>`
    select u.user_id as id, u.email, u.name, u.role from users u
    where u.company_id = ${companyId} and u.kind = 'service' and u.status <> 'deleted' and exists (
      select from service_passwords p
      where p.company_id = u.company_id and p.user_id = u.user_id and p.created_by = ${userId}
        and p.created_at >= ${since} and not ${isPasswordOver(sql`p.password_epoch`, 'u')}
    )
    order by u.created_at, u.user_id limit ${MAX_LISTED}`.execute(db)
  const secret = await sql<{ version: number; createdAt: Date }>`
    select version, created_at as "createdAt" from signing_secrets
    where company_id = ${companyId} and created_by = ${userId} and created_at >= ${since}`.execute(db)
  return {
    members: members.rows,
    serviceAccounts: serviceAccounts.rows,
    signingSecret: secret.rows[0] ?? null,
  }
}
