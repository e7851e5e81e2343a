import { type NotNull, sql } from 'kysely'
import { updatingUser } from '../company/repository.ts'
import type { NewPasskey } from '../crypto/passkeys.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { FactorKind } from '../database/schema.ts'

/** A member's authenticator apps and passkeys. Lock the member's row before you change them. */

/** Locks the company, for its policy, and then the member. Undefined unless both are active. */
export async function lockOwner(tx: Tx, companyId: string, userId: string) {
  return await tx
    .with('company', (cte) =>
      cte
        .selectFrom('companies')
        .select(['company_id', 'second_factor_policy as secondFactorPolicy'])
        .where('company_id', '=', companyId)
        .where('status', '=', 'active')
        .forShare(),
    )
    .selectFrom('company as c')
    .innerJoin('users as u', 'u.company_id', 'c.company_id')
    .select(['u.email', 'u.role', 'u.kind as userKind', 'u.second_factors as secondFactors'])
    .select('c.secondFactorPolicy')
    .where('u.user_id', '=', userId)
    .where('u.status', '=', 'active')
    .forNoKeyUpdate('u')
    .$narrowType<{ email: NotNull }>()
    .executeTakeFirst()
}

export type Owner = NonNullable<Awaited<ReturnType<typeof lockOwner>>>

type TotpColumns = { kind: 'totp'; sealedSecret: NotNull }
type PasskeyColumns = { kind: 'passkey'; handle: NotNull } & Record<keyof NewPasskey, NotNull>

/** The public key is in COSE form (RFC 9052, section 7). */
function selectFactors(db: Executor) {
  return db
    .selectFrom('second_factors as f')
    .innerJoin('users as u', (join) =>
      join.onRef('u.company_id', '=', 'f.company_id').onRef('u.user_id', '=', 'f.user_id'),
    )
    .select(['f.factor_id as factorId', 'f.kind', 'f.name', 'f.created_at as createdAt'])
    .select(['f.last_used_at as lastUsedAt', 'f.sealed_secret as sealedSecret'])
    .select(['f.credential_id as credentialId', 'f.public_key as publicKey', 'f.transports'])
    .select(['f.backup_eligible as backupEligible', 'u.passkey_handle as handle'])
    .select(({ cast }) => cast<number | null>('f.sign_count', 'float8').as('signCount'))
}

export async function listFactors(db: Executor, companyId: string, userId: string) {
  return await selectFactors(db)
    .where('f.company_id', '=', companyId)
    .where('f.user_id', '=', userId)
    .where('f.confirmed_at', 'is not', null)
    .orderBy('f.factor_id')
    .$narrowType<TotpColumns | PasskeyColumns>()
    .execute()
}

type Factor = Awaited<ReturnType<typeof listFactors>>[number]
export type Passkey = Extract<Factor, { kind: 'passkey' }>

export async function findPasskeyAcrossCompanies(db: Executor, credentialId: Buffer) {
  return await selectFactors(db)
    .innerJoin('companies as c', 'c.company_id', 'f.company_id')
    .select(['f.company_id as companyId', 'f.user_id as userId'])
    .select(['u.status as userStatus', 'c.status as companyStatus'])
    .where('f.credential_id', '=', credentialId)
    .$narrowType<PasskeyColumns>()
    .executeTakeFirst()
}

export type FoundPasskey = NonNullable<Awaited<ReturnType<typeof findPasskeyAcrossCompanies>>>

/** Replaces an authenticator app that isn't confirmed yet. */
export async function insertTotp(
  tx: Tx,
  companyId: string,
  userId: string,
  app: Use & { name: string; sealedSecret: string; mailboxProven: boolean },
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

export async function findUnconfirmedTotp(
  db: Executor,
  companyId: string,
  userId: string,
  { factorId, since }: { factorId: string; since: Date },
) {
  return await db
    .selectFrom('second_factors')
    .select(['sealed_secret as sealedSecret', 'mailbox_proven as mailboxProven'])
    .where((eb) => eb.and({ company_id: companyId, user_id: userId, factor_id: factorId }))
    .where('confirmed_at', 'is', null)
    .where('created_at', '>', since)
    .executeTakeFirst()
}

const updatingFactor = (tx: Tx, companyId: string, userId: string, factorId: string) =>
  tx
    .updateTable('second_factors')
    .where((eb) => eb.and({ company_id: companyId, user_id: userId, factor_id: factorId }))

interface Use {
  factorId: string
  at: Date
}

/** Also consumes the first code. False if the app was already confirmed. */
export async function confirmTotp(tx: Tx, companyId: string, userId: string, use: Use & { step: number }) {
  const { numUpdatedRows } = await updatingFactor(tx, companyId, userId, use.factorId)
    .set({ confirmed_at: use.at, last_step: String(use.step) })
    .where('confirmed_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** A unique constraint rejects a credential that any member already has. */
export async function insertPasskey(
  tx: Tx,
  companyId: string,
  userId: string,
  passkey: NewPasskey & Use & { name: string },
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

export async function deleteFactor(tx: Tx, companyId: string, userId: string, factorId: string) {
  return await tx
    .deleteFrom('second_factors')
    .where((eb) => eb.and({ company_id: companyId, user_id: userId, factor_id: factorId }))
    .returning(({ eb }) => ['kind', 'name', eb('confirmed_at', 'is not', null).as('isConfirmed')])
    .executeTakeFirst()
}

/** Copies the kinds of confirmed factors to the member's row. */
export async function storeKinds(tx: Tx, companyId: string, userId: string): Promise<FactorKind[]> {
  const kinds = sql<FactorKind[]>`array(
    select distinct f.kind from second_factors f
    where f.company_id = users.company_id and f.user_id = users.user_id and f.confirmed_at is not null
    order by f.kind
  )`
  const user = await updatingUser(tx, companyId, userId)
    .set({ second_factors: kinds })
    .returning('second_factors as kinds')
    .executeTakeFirst()
  return user?.kinds ?? []
}

/** Returns the handle of the member's passkeys: `handle`, unless one exists. Inactive members get no new one. */
export async function giveHandle(db: Executor, companyId: string, userId: string, handle: Buffer) {
  await updatingUser(db, companyId, userId)
    .set({ passkey_handle: handle })
    .where('passkey_handle', 'is', null)
    .where('status', '=', 'active')
    .execute()
  const user = await db
    .selectFrom('users')
    .select('passkey_handle as handle')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return user?.handle ?? undefined
}

/** Consumes all codes up to `step` (RFC 6238, section 5.2). False if consumed before, or the app was removed. */
export async function consumeTotp(tx: Tx, companyId: string, userId: string, use: Use & { step: number }) {
  const { numUpdatedRows } = await updatingFactor(tx, companyId, userId, use.factorId)
    .set({ last_step: String(use.step), last_used_at: use.at })
    .where('confirmed_at', 'is not', null)
    .where('last_step', '<', String(use.step))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** False if the counter has not grown (WebAuthn, section 6.1.1: perhaps a copy). Passkeys without a counter stay at 0. */
export async function consumePasskey(
  tx: Tx,
  companyId: string,
  userId: string,
  use: Use & Pick<NewPasskey, 'signCount' | 'backupEligible'>,
): Promise<boolean> {
  const { numUpdatedRows } = await updatingFactor(tx, companyId, userId, use.factorId)
    .set({ sign_count: String(use.signCount), last_used_at: use.at })
    .where('backup_eligible', '=', use.backupEligible)
    .where('sign_count', use.signCount === 0 ? '=' : '<', String(use.signCount))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function listSealedAcrossCompanies(
  db: Executor,
  { companyId, factorId }: { companyId: string; factorId: string },
  max: number,
) {
  return await db
    .selectFrom('second_factors')
    .select(['company_id as companyId', 'factor_id as factorId', 'sealed_secret as sealedSecret'])
    .where(({ eb, refTuple, tuple }) =>
      eb(refTuple('company_id', 'factor_id'), '>', tuple(companyId, factorId)),
    )
    .where('kind', '=', 'totp')
    .orderBy('company_id')
    .orderBy('factor_id')
    .limit(max)
    .$narrowType<{ sealedSecret: NotNull }>()
    .execute()
}

export async function resealSecret(
  db: Executor,
  companyId: string,
  factorId: string,
  { before, after }: { before: string; after: string },
): Promise<void> {
  await db
    .updateTable('second_factors')
    .set({ sealed_secret: after })
    .where((eb) => eb.and({ company_id: companyId, factor_id: factorId, sealed_secret: before }))
    .execute()
}
