import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Database } from './schema.ts'

/** Column lists that several statements share, so that rows leave all of them with the same names. */

/** Columns of a table by their names in rows, such as `{ userId: 'user_id' }`. */
type Columns = Record<string, string>

/** The row that those columns of a table make. */
export type RowOf<Table extends keyof Database, List extends Columns> = {
  [Name in keyof List]: List[Name] extends keyof Selectable<Database[Table]>
    ? Selectable<Database[Table]>[List[Name]]
    : never
}

/** `s.user_id as "userId", …` for what a statement returns. Made once: it is one piece of text. */
export function aliased(table: string, columns: Columns): RawBuilder<unknown> {
  return sql.raw(
    Object.entries(columns)
      .map(([name, column]) => `${table}.${column} as "${name}"`)
      .join(', '),
  )
}

/** `s.user_id, …` for what a statement hands on to its next part. */
export function plain(table: string, columns: Columns): RawBuilder<unknown> {
  return sql.raw(
    Object.values(columns)
      .map((column) => `${table}.${column}`)
      .join(', '),
  )
}
