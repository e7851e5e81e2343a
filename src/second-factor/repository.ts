import { sql } from 'kysely'
import type { Account } from '../company/account.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { FactorKind, SecondFactorPolicy, UserKind } from '../database/schema.ts'
import type { Factor, Passkey } from './factor.ts'

/** Authenticator apps and passkeys of a member. To change them, lock the row of the member first. */

export interface Owner {
  email: string
  name: string
  role: string
  userKind: UserKind
  companyName: string
  secondFactors: FactorKind[]
  secondFactorPolicy: SecondFactorPolicy
}

/** Locks the company, for its policy, and then the member; undefined unless both are active. */
export async function lockOwner(tx: Tx, companyId: string, userId: string) {
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

export type FoundPasskey = Passkey & Pick<Account, 'companyId' | 'userId' | 'userStatus' | 'companyStatus'>

/** A credential id does not name its company. */
export async function findPasskeyAcrossCompanies(db: Executor, credentialId: Buffer) {
  const { rows } = await sql<FoundPasskey>`
    select ${factorColumns}, f.company_id as "companyId", f.user_id as "userId", u.status as "userStatus",
      c.status as "companyStatus"
    from second_factors f
    join users u on u.company_id = f.company_id and u.user_id = f.user_id
    join companies c on c.company_id = f.company_id
    where f.credential_id = ${credentialId}`.execute(db)
  return rows[0]
}

/** Adds an authenticator app that is not in force yet, in place of another such one. */
export async function insertTotp(
  tx: Tx,
  companyId: string,
  userId: string,
  app: { factorId: string; name: string; sealedSecret: string; mailboxProven: boolean; at: Date },
): Promise<void> {
  await sql`
    delete from second_factors
    where company_id = ${companyId} and user_id = ${userId} and confirmed_at is null`.execute(tx)
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

/** An authenticator app that waits for its first code since `since` or later. */
export async function findUnconfirmedTotp(
  db: Executor,
  companyId: string,
  userId: string,
  { factorId, since }: { factorId: string; since: Date },
) {
  return await db
    .selectFrom('second_factors')
    .select(['sealed_secret as sealedSecret', 'mailbox_proven as mailboxProven'])
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('factor_id', '=', factorId)
    .where('confirmed_at', 'is', null)
    .where('created_at', '>', since)
    .executeTakeFirst()
}

/** `step` is that of the first code, which is consumed. False if the app was confirmed before. */
export async function confirmTotp(
  tx: Tx,
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

type NewPasskey = Pick<Passkey, 'credentialId' | 'publicKey' | 'signCount' | 'backupEligible' | 'transports'>

/** A unique constraint refuses a credential that exists. */
export async function insertPasskey(
  tx: Tx,
  companyId: string,
  userId: string,
  passkey: NewPasskey & { factorId: string; name: string; at: Date },
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
export async function deleteFactor(tx: Tx, companyId: string, userId: string, factorId: string) {
  return await tx
    .deleteFrom('second_factors')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('factor_id', '=', factorId)
    .returning(({ eb }) => ['kind', 'name', eb('confirmed_at', 'is not', null).as('isConfirmed')])
    .executeTakeFirst()
}

/** Stores the kinds of the member's factors in the member's row, and returns them. */
export async function storeKinds(tx: Tx, companyId: string, userId: string): Promise<FactorKind[]> {
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

/** Returns the user handle of the member's passkeys: `handle`, unless there was one. Undefined for inactive members. */
export async function giveHandle(db: Executor, companyId: string, userId: string, handle: Buffer) {
  await sql`
    update users set passkey_handle = ${handle}
    where company_id = ${companyId} and user_id = ${userId} and passkey_handle is null and status = 'active'`.execute(
    db,
  )
  const { rows } = await sql<{ handle: Buffer | null }>`
    select passkey_handle as handle from users
    where company_id = ${companyId} and user_id = ${userId}`.execute(db)
  return rows[0]?.handle ?? undefined
}

/** Consumes all codes until `step` (RFC 6238, section 5.2). False if it was consumed before, or the app was removed. */
export async function consumeTotp(
  tx: Tx,
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
 * False if the counter has not grown (WebAuthn, section 6.1.1: there can be a copy of the passkey), if its backup eligibility
 * has changed, or if it was removed.
 */
export async function consumePasskey(
  tx: Tx,
  companyId: string,
  userId: string,
  use: { factorId: string; signCount: number; backupEligible: boolean; at: Date },
): Promise<boolean> {
  const { factorId, signCount, backupEligible, at } = use
  const { rows } = await sql`
    update second_factors set sign_count = ${signCount}, last_used_at = ${at}
    where company_id = ${companyId} and user_id = ${userId} and factor_id = ${factorId}
      and backup_eligible = ${backupEligible}
      and (sign_count < ${signCount} or (sign_count = 0 and ${signCount}::bigint = 0))
    returning factor_id`.execute(tx)
  return rows.length > 0
}

/** The next authenticator apps after `last`. */
export async function listSealedAcrossCompanies(
  db: Executor,
  last: { companyId: string; factorId: string },
  max: number,
) {
  const { rows } = await sql<{ companyId: string; factorId: string; sealedSecret: string }>`
    select company_id as "companyId", factor_id as "factorId", sealed_secret as "sealedSecret" from second_factors
    where (company_id, factor_id) > (${last.companyId}::uuid, ${last.factorId}::uuid) and kind = 'totp'
    order by company_id, factor_id limit ${max}`.execute(db)
  return rows
}

/** Does nothing if the secret is not `before` any more. */
export async function resealSecret(
  db: Executor,
  companyId: string,
  factorId: string,
  { before, after }: { before: string; after: string },
): Promise<void> {
  await sql`
    update second_factors set sealed_secret = ${after}
    where company_id = ${companyId} and factor_id = ${factorId} and sealed_secret = ${before}`.execute(db)
}
