import { sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database, FactorKind, SecondFactorPolicy, UserKind } from '../database/schema.ts'
import type { Factor, KeyedDigest } from './factor.ts'

/** Authenticator apps, passkeys and recovery codes of a member. Whoever changes them holds the row of the member. */

/** The owner of factors, as the transaction holds them. */
export interface Owner {
  email: string
  name: string
  role: string
  userKind: UserKind
  companyName: string
  secondFactors: FactorKind[]
  secondFactorPolicy: SecondFactorPolicy
}

/** Holds a member and, before, the policy of the company until the transaction ends; undefined unless both are active. */
export async function holdOwner(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<Owner | undefined> {
  const { rows } = await sql<Owner>`
    with company as (select * from companies where company_id = ${companyId} and status = 'active' for share)
    select u.email, u.name, u.role, u.kind as "userKind", c.name as "companyName",
      u.second_factors as "secondFactors", c.second_factor_policy as "secondFactorPolicy"
    from company c join users u on u.company_id = c.company_id
    where u.user_id = ${userId} and u.status = 'active'
    for no key update of u`.execute(tx)
  return rows[0]
}

const factorColumns = sql`f.factor_id as "factorId", f.kind, f.name, f.created_at as "createdAt",
  f.last_used_at as "lastUsedAt", f.sealed_secret as "sealedSecret", f.credential_id as "credentialId",
  f.public_key as "publicKey", f.sign_count::float8 as "signCount", f.backup_eligible as "backupEligible", f.transports,
  u.passkey_handle as handle`

/** The confirmed factors, the oldest first. */
export async function listFactors(db: Executor, companyId: string, userId: string): Promise<Factor[]> {
  const { rows } = await sql<Factor>`
    select ${factorColumns}
    from second_factors f join users u on u.company_id = f.company_id and u.user_id = f.user_id
    where f.company_id = ${companyId} and f.user_id = ${userId} and f.confirmed_at is not null
    order by f.factor_id`.execute(db)
  return rows
}

/** Adds an authenticator app that is not in force yet, in place of another such one. */
export async function insertTotp(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  app: { factorId: string; name: string; sealedSecret: string; mailboxProven: boolean; at: Date },
): Promise<void> {
  await tx
    .deleteFrom('second_factors')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('confirmed_at', 'is', null)
    .execute()
  await tx
    .insertInto('second_factors')
    .values({
      company_id: companyId,
      factor_id: app.factorId,
      user_id: userId,
      kind: 'totp',
      name: app.name,
      created_at: app.at,
      mailbox_proven: app.mailboxProven,
      sealed_secret: app.sealedSecret,
    })
    .execute()
}

/** An authenticator app that is being set up since `since` or later. */
export async function findUnconfirmedTotp(
  db: Executor,
  companyId: string,
  userId: string,
  { factorId, since }: { factorId: string; since: Date },
): Promise<{ sealedSecret: string; mailboxProven: boolean } | undefined> {
  const row = await db
    .selectFrom('second_factors')
    .select(['sealed_secret', 'mailbox_proven as mailboxProven'])
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('factor_id', '=', factorId)
    .where('confirmed_at', 'is', null)
    .where('created_at', '>', since)
    .executeTakeFirst()
  return row?.sealed_secret
    ? { sealedSecret: row.sealed_secret, mailboxProven: row.mailboxProven }
    : undefined
}

/** Puts an authenticator app in force; `step` is that of its first code, which is used up. False if it was before. */
export async function confirmTotp(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  { factorId, step, at }: { factorId: string; step: number; at: Date },
): Promise<boolean> {
  const confirmed = await tx
    .updateTable('second_factors')
    .set({ confirmed_at: at, last_step: String(step) })
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('factor_id', '=', factorId)
    .where('confirmed_at', 'is', null)
    .returning('factor_id')
    .executeTakeFirst()
  return confirmed !== undefined
}

/** A unique constraint refuses a credential that is known. */
export async function insertPasskey(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  passkey: {
    factorId: string
    name: string
    credentialId: Buffer
    publicKey: Buffer
    signCount: number
    backupEligible: boolean
    transports: string[]
    at: Date
  },
): Promise<void> {
  await tx
    .insertInto('second_factors')
    .values({
      company_id: companyId,
      factor_id: passkey.factorId,
      user_id: userId,
      kind: 'passkey',
      name: passkey.name,
      created_at: passkey.at,
      confirmed_at: passkey.at,
      credential_id: passkey.credentialId,
      public_key: passkey.publicKey,
      sign_count: String(passkey.signCount),
      backup_eligible: passkey.backupEligible,
      transports: passkey.transports,
    })
    .execute()
}

/** Removes a factor, confirmed or not; undefined if the member has none with this id. */
export async function deleteFactor(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  factorId: string,
): Promise<{ kind: FactorKind; name: string; isConfirmed: boolean } | undefined> {
  const { rows } = await sql<{ kind: FactorKind; name: string; isConfirmed: boolean }>`
    delete from second_factors
    where company_id = ${companyId} and user_id = ${userId} and factor_id = ${factorId}
    returning kind, name, confirmed_at is not null as "isConfirmed"`.execute(tx)
  return rows[0]
}

/** Writes the kinds of the member's factors beside the member, and returns them. */
export async function storeKinds(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<FactorKind[]> {
  const { rows } = await sql<{ kinds: FactorKind[] }>`
    update users u set second_factors = array(
      select distinct f.kind from second_factors f
      where f.company_id = u.company_id and f.user_id = u.user_id and f.confirmed_at is not null
      order by f.kind
    )
    where u.company_id = ${companyId} and u.user_id = ${userId}
    returning u.second_factors as kinds`.execute(tx)
  return rows[0]?.kinds ?? []
}

/** The user handle of the member's passkeys, which is `handle` unless there is one. */
export async function giveHandle(
  db: Executor,
  companyId: string,
  userId: string,
  handle: Buffer,
): Promise<Buffer> {
  const { rows } = await sql<{ handle: Buffer }>`
    update users set passkey_handle = coalesce(passkey_handle, ${handle}::bytea)
    where company_id = ${companyId} and user_id = ${userId}
    returning passkey_handle as handle`.execute(db)
  return rows[0]?.handle ?? handle
}

/**
 * Uses up the codes of an authenticator app until `step` (RFC 6238, section 5.2); false if that one was used, or a later
 * one, or the app was removed.
 */
export async function consumeTotp(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  { factorId, step, at }: { factorId: string; step: number; at: Date },
): Promise<boolean> {
  const { rows } = await sql`
    update second_factors set last_step = ${step}, last_used_at = ${at}
    where company_id = ${companyId} and user_id = ${userId} and factor_id = ${factorId}
      and confirmed_at is not null and last_step < ${step}
    returning factor_id`.execute(tx)
  return rows.length > 0
}

/**
 * Stores the use of a passkey; false if its counter has not grown (WebAuthn, section 6.1.1), so that there can be a copy of
 * it, if its backup eligibility is another one, or if it was removed.
 */
export async function consumePasskey(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  {
    factorId,
    signCount,
    backupEligible,
    at,
  }: { factorId: string; signCount: number; backupEligible: boolean; at: Date },
): Promise<boolean> {
  const { rows } = await sql`
    update second_factors set sign_count = ${signCount}, last_used_at = ${at}
    where company_id = ${companyId} and user_id = ${userId} and factor_id = ${factorId}
      and backup_eligible = ${backupEligible}
      and (sign_count < ${signCount} or (sign_count = 0 and ${signCount}::bigint = 0))
    returning factor_id`.execute(tx)
  return rows.length > 0
}

/** Uses up a recovery code; returns how many are left, or undefined if there is none with such a digest. */
export async function consumeRecoveryCode(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  digests: KeyedDigest[],
): Promise<number | undefined> {
  const { rows } = await sql`
    delete from recovery_codes
    where company_id = ${companyId} and user_id = ${userId}
      and digest = any(${digests.map(({ digest }) => digest)}::bytea[])
    returning digest`.execute(tx)
  if (rows.length === 0) return undefined
  const keyIds = digests.map(({ keyId }) => keyId)
  return await countRecoveryCodes(tx, companyId, userId, keyIds)
}

/** The recovery codes that are left, but for those under master keys that are not configured any more. */
export async function countRecoveryCodes(
  db: Executor,
  companyId: string,
  userId: string,
  keyIds: string[],
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int from recovery_codes
    where company_id = ${companyId} and user_id = ${userId} and key_id = any(${keyIds}::text[])`.execute(db)
  return rows[0]?.count ?? 0
}

/** Gives a member these recovery codes alone. */
export async function replaceRecoveryCodes(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  codes: KeyedDigest[],
): Promise<void> {
  await tx
    .deleteFrom('recovery_codes')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .execute()
  if (codes.length === 0) return
  const rows = codes.map(({ digest, keyId }) => ({
    company_id: companyId,
    user_id: userId,
    digest,
    key_id: keyId,
  }))
  await tx.insertInto('recovery_codes').values(rows).execute()
}

/** Removes all factors, recovery codes, challenges and mailed codes of a member. */
export async function deleteAllOf(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  for (const table of [
    'second_factor_challenges',
    'second_factors',
    'recovery_codes',
    'mailbox_codes',
  ] as const)
    await sql`delete from ${sql.table(table)} where company_id = ${companyId} and user_id = ${userId}`.execute(
      tx,
    )
  await sql`
    update users set second_factors = '{}', wrong_codes = 0, passkey_handle = null
    where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}

/** Counts a wrong code; returns how many there were in a row. */
export async function countWrongCode(db: Executor, companyId: string, userId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    update users set wrong_codes = wrong_codes + 1 where company_id = ${companyId} and user_id = ${userId}
    returning wrong_codes as count`.execute(db)
  return rows[0]?.count ?? 0
}

/** Forgets the wrong codes before a right one. */
export async function forgetWrongCodes(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  await sql`
    update users set wrong_codes = 0
    where company_id = ${companyId} and user_id = ${userId} and wrong_codes > 0`.execute(tx)
}

/** Leaves a member without a password, until a mailed link gives another one. */
export async function clearPassword(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  await sql`
    update users set password_hash = '', locked_out_at = null
    where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}

/** The next authenticator apps after `last`, with their sealed secrets. */
export async function listSealedAcrossCompanies(
  db: Executor,
  last: { companyId: string; factorId: string },
  max: number,
): Promise<{ companyId: string; factorId: string; sealedSecret: string }[]> {
  const { rows } = await sql<{ companyId: string; factorId: string; sealedSecret: string }>`
    select company_id as "companyId", factor_id as "factorId", sealed_secret as "sealedSecret" from second_factors
    where (company_id, factor_id) > (${last.companyId}::uuid, ${last.factorId}::uuid) and kind = 'totp'
    order by company_id, factor_id limit ${max}`.execute(db)
  return rows
}

/** Replaces a sealed secret by the same secret sealed again, unless it is gone. */
export async function resealSecret(
  db: Executor,
  companyId: string,
  factorId: string,
  change: { before: string; after: string },
): Promise<void> {
  await sql`
    update second_factors set sealed_secret = ${change.after}
    where company_id = ${companyId} and factor_id = ${factorId} and sealed_secret = ${change.before}`.execute(
    db,
  )
}
