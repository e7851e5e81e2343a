import { type RawBuilder, sql } from 'kysely'
import type { Executor } from './connect.ts'
import type { Database } from './schema.ts'

/** Deletes rows, but for `deleteEvery` in bounded statements, so that locks are short. Each returns how many it deleted. */

/** A table and its primary key. */
interface Rows<Table extends keyof Database> {
  table: Table
  key: readonly (keyof Database[Table] & string)[]
}

/** Deletes at most `max` rows that fulfil the condition, and skips those that are locked. */
export async function deleteLapsed<Table extends keyof Database>(
  db: Executor,
  { table, key }: Rows<Table>,
  condition: RawBuilder<unknown>,
  max: number,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with lapsed as (
      select ${columnsOf(key)} from ${sql.table(table)} where ${condition}
      limit ${max} for update skip locked
    )
    delete from ${sql.table(table)} t using lapsed l where ${areSame(key)}`.execute(db)
  return Number(numAffectedRows)
}

/** Deletes at most `max` rows of a company. Locks them in key order, so that two statements never deadlock. */
export async function deleteOfCompany<Table extends keyof Database>(
  db: Executor,
  companyId: string,
  { table, key }: Rows<Table>,
  max: number,
): Promise<number> {
  const columns = columnsOf(key)
  const { numAffectedRows = 0n } = await sql`
    with locked as (
      select ${columns} from ${sql.table(table)} where company_id = ${companyId}
      order by ${columns} limit ${max} for update
    )
    delete from ${sql.table(table)} t using locked l where ${areSame(key)}`.execute(db)
  return Number(numAffectedRows)
}

/** Deletes all rows that fulfil the condition, in one statement; returns how many. For when no instance runs. */
export async function deleteEvery(
  db: Executor,
  table: keyof Database,
  condition = sql`true`,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`delete from ${sql.table(table)} where ${condition}`.execute(db)
  return Number(numAffectedRows)
}

/** Whether row `t` of the table is row `l` of the locked ones. */
function areSame(key: readonly string[]): RawBuilder<unknown> {
  return sql.join(
    key.map((column) => sql`t.${sql.ref(column)} = l.${sql.ref(column)}`),
    sql` and `,
  )
}

function columnsOf(key: readonly string[]): RawBuilder<unknown> {
  return sql.join(key.map((column) => sql.ref(column)))
}
