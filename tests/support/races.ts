import { type Kysely, sql } from 'kysely'
import { expect } from 'vitest'
import type { Database } from '../../src/database/schema.ts'
import { countWaiting } from './test-service.ts'

/** The row that the race is about. */
type Held =
  | { table: 'subscriptions'; companyId: string }
  | { table: 'users'; companyId: string; userId: string }
  | { table: 'invitations'; companyId: string; email: string }

/** Starts the acts while the row is locked. Releases them in order once all wait and `meanwhile` has run. */
export async function releaseTogether<Result>(
  db: Kysely<Database>,
  { table, companyId, ...key }: Held,
  acts: (() => Promise<Result>)[],
  meanwhile = async () => {},
): Promise<Result[]> {
  const which =
    'userId' in key ? sql`user_id = ${key.userId}` : 'email' in key ? sql`email = ${key.email}` : sql`true`
  const { running } = await db.transaction().execute(async (tx) => {
    await sql`select from ${sql.table(table)} where company_id = ${companyId} and ${which} for update`.execute(
      tx,
    )
    const running = []
    for (const act of acts) {
      running.push(act())
      await expect.poll(() => countWaiting(db), { timeout: 50_000 }).toBe(running.length)
    }
    await meanwhile()
    return { running }
  })
  return await Promise.all(running)
}
