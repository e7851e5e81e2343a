import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Database } from './schema.ts'

/** Column lists that several statements share, so that their rows have the same names. */

/** Columns of a table by their names in rows, such as `{ userId: 'user_id' }`. */
type Columns = Record<string, string>

/** The type of a row with these columns of a table. */
export type RowOf<Table extends keyof Database, List extends Columns> = {
  [Name in keyof List]: List[Name] extends keyof Selectable<Database[Table]>
    ? Selectable<Database[Table]>[List[Name]]
    : never
}

/** `s.user_id as "userId", …`, for the result of a statement. */
export function aliased(table: string, columns: Columns): RawBuilder<unknown> {
  return sql.raw(
    Object.entries(columns)
      .map(([name, column]) => `${table}.${column} as "${name}"`)
      .join(', '),
  )
}

/** `s.user_id, …`, for a part of a statement that a later part reads. */
export function plain(table: string, columns: Columns): RawBuilder<unknown> {
  return sql.raw(
    Object.values(columns)
      .map((column) => `${table}.${column}`)
      .join(', '),
  )
}
