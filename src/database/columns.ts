import { type RawBuilder, type Selectable, sql } from 'kysely'
import { type ElementTypeName, toBinaryArray } from './binary-array.ts'
import type { Database } from './schema.ts'

/** By their names in rows, such as `{ userId: 'user_id' }`. */
type Columns = Record<string, string>

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

export function plain(table: string, columns: Columns): RawBuilder<unknown> {
  return sql.raw(
    Object.values(columns)
      .map((column) => `${table}.${column}`)
      .join(', '),
  )
}

type ItemColumns<Item> = Record<string, readonly [type: ElementTypeName, read: (item: Item) => unknown]>

/** Items as the table `i`, with these columns and `ord`, the place of the item from 1. */
export function itemTable<Item>(columns: ItemColumns<Item>): (items: Item[]) => RawBuilder<unknown> {
  const names = sql.raw([...Object.keys(columns), 'ord'].join(', '))
  const lists = Object.values(columns).map(([type, read]) => ({ type, cast: sql.raw(`::${type}[]`), read }))
  return (items) => {
    const parameters = lists.map(
      ({ type, cast, read }) => sql`${toBinaryArray(type, items.map(read))}${cast}`,
    )
    return sql`unnest(${sql.join(parameters)}) with ordinality as i (${names})`
  }
}
