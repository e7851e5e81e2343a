import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** One signing secret per company, sealed; a new version replaces the old one. */

export async function findSecret(db: Executor, companyId: string) {
  return await db
    .selectFrom('signing_secrets')
    .select(['version', 'sealed_secret as sealedSecret'])
    .where('company_id', '=', companyId)
    .executeTakeFirst()
}

export async function isSecretInForce(db: Executor, companyId: string, version: number): Promise<boolean> {
  const found = await db
    .selectFrom('signing_secrets as s')
    .innerJoin('companies as c', 'c.company_id', 's.company_id')
    .select('s.version')
    .where((eb) => eb.and({ 's.company_id': companyId, 's.version': version, 'c.status': 'active' }))
    .executeTakeFirst()
  return found !== undefined
}

export async function findSecretStatus(db: Executor, companyId: string) {
  return await db
    .selectFrom('signing_secrets as s')
    .innerJoin('users as u', (join) =>
      join.onRef('u.company_id', '=', 's.company_id').onRef('u.user_id', '=', 's.created_by'),
    )
    .select(['s.version', 's.hint', 's.created_at as createdAt', 's.created_by as createdBy'])
    .select(['s.last_used_at as lastUsedAt', 'u.email'])
    .where('s.company_id', '=', companyId)
    .executeTakeFirst()
}

interface NewSecret {
  version: number
  sealedSecret: string
  hint: string
  createdAt: Date
  createdBy: string
}

/** False if the version before is no longer current. It stays recognizable for a day: see refusals.ts. */
export async function replaceSecret(db: Executor, companyId: string, secret: NewSecret): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with former as (
      select company_id, version, sealed_secret from signing_secrets
      where company_id = ${companyId}::uuid and version = ${secret.version}::int - 1
      for update
    ), kept as (
      insert into former_signing_secrets (company_id, version, sealed_secret, replaced_at)
      select company_id, version, sealed_secret, ${secret.createdAt}::timestamptz from former
      on conflict (company_id) do update set version = excluded.version, sealed_secret = excluded.sealed_secret,
        replaced_at = excluded.replaced_at
      returning company_id
    )
    insert into signing_secrets as s (company_id, version, sealed_secret, hint, created_at, created_by)
    select ${companyId}::uuid, ${secret.version}::int, ${secret.sealedSecret}, ${secret.hint},
      ${secret.createdAt}::timestamptz, ${secret.createdBy}::uuid
    -- After the CTE kept, which would otherwise run last, and find the previous version replaced.
    where ${secret.version}::int = 1 or exists (select from kept)
    on conflict (company_id) do update set version = excluded.version, sealed_secret = excluded.sealed_secret,
      hint = excluded.hint, created_at = excluded.created_at, created_by = excluded.created_by, last_used_at = null
    where s.version = excluded.version - 1`.execute(db)
  return numAffectedRows === 1n
}

export async function touchSecret(db: Executor, companyId: string, version: number, minute: Date) {
  await sql`
    update signing_secrets set last_used_at = ${minute}
    where company_id = ${companyId} and version = ${version} and (last_used_at is null or last_used_at < ${minute})
  `.execute(db)
}

/** For a new master key. */
export async function listSealedAcrossCompanies(db: Executor) {
  return await db
    .selectFrom('signing_secrets')
    .select(['company_id as companyId', 'version', 'sealed_secret as sealedSecret'])
    .execute()
}

export async function resealSecret(
  db: Executor,
  companyId: string,
  change: { before: string; after: string },
): Promise<void> {
  await db
    .updateTable('signing_secrets')
    .set({ sealed_secret: change.after })
    .where('company_id', '=', companyId)
    .where('sealed_secret', '=', change.before)
    .execute()
}
