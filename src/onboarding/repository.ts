import { type Selectable, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database, TokenPurpose } from '../database/schema.ts'

/**
 * One-time tokens. Whoever deletes the row has used the token, so of many who try at once one does; the
 * effect is in the same transaction. A token comes without its company, so it is found by its hash.
 */

type TokenRow = Selectable<Database['one_time_tokens']>

/** Makes this the one token of its purpose and address; the one before it is no longer known. */
export async function replaceToken(
  db: Executor,
  companyId: string,
  token: {
    purpose: TokenPurpose
    email: string
    hash: Buffer
    role: string | null
    createdAt: Date
    expiresAt: Date
  },
): Promise<void> {
  const changing = {
    token_hash: token.hash,
    role: token.role,
    created_at: token.createdAt,
    expires_at: token.expiresAt,
  }
  await db
    .insertInto('one_time_tokens')
    .values({ company_id: companyId, purpose: token.purpose, email: token.email, ...changing })
    .onConflict((conflict) => conflict.columns(['company_id', 'purpose', 'email']).doUpdateSet(changing))
    .execute()
}

/** What a token that still works is for; it goes on working. */
export type FoundToken = Pick<TokenRow, 'company_id' | 'email' | 'role' | 'expires_at'> & {
  company_name: string
}

export async function findTokenAcrossCompanies(
  db: Executor,
  purpose: TokenPurpose,
  hash: Buffer,
  now: Date,
): Promise<FoundToken | undefined> {
  const { rows } = await sql<FoundToken>`
    select t.company_id, t.email, t.role, t.expires_at, c.name as company_name
    from one_time_tokens t join companies c on c.company_id = t.company_id
    where t.token_hash = ${hash} and t.purpose = ${purpose} and t.expires_at > ${now} and c.status = 'active'`.execute(
    db,
  )
  return rows[0]
}

export type UsedToken = Pick<TokenRow, 'company_id' | 'email' | 'role'>

/** Uses a token up; undefined if it does not work, or no more. */
export async function useTokenAcrossCompanies(
  db: Executor,
  purpose: TokenPurpose,
  hash: Buffer,
  now: Date,
): Promise<UsedToken | undefined> {
  const { rows } = await sql<UsedToken>`
    delete from one_time_tokens t using companies c
    where t.token_hash = ${hash} and t.purpose = ${purpose} and t.expires_at > ${now}
      and c.company_id = t.company_id and c.status = 'active'
    returning t.company_id, t.email, t.role`.execute(db)
  return rows[0]
}
