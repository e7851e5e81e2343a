import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Database } from './schema.ts'

/** Arrays in Postgres's binary format (`array_recv`): escaping and parsing text took a tenth of the time. */

interface ElementType {
  oid: number
  sizeOf(value: never): number
  write(buffer: Buffer, value: never, at: number): number
}

const text = (oid: number): ElementType => ({
  oid,
  sizeOf: (value: string) => Buffer.byteLength(value),
  write: (buffer, value: string, at) => at + buffer.write(value, at),
})

const EPOCH_MS = Date.UTC(2000, 0) // Postgres counts microseconds from here

const TYPES = {
  boolean: {
    oid: 16,
    sizeOf: () => 1,
    write: (buffer, value: boolean, at) => buffer.writeUInt8(Number(value), at),
  },
  bytea: {
    oid: 17,
    sizeOf: (value: Buffer) => value.length,
    write: (buffer, value: Buffer, at) => at + value.copy(buffer, at),
  },
  bigint: {
    oid: 20,
    sizeOf: () => 8,
    write: (buffer, value: string, at) => buffer.writeBigInt64BE(BigInt(value), at),
  },
  int: { oid: 23, sizeOf: () => 4, write: (buffer, value: number, at) => buffer.writeInt32BE(value, at) },
  text: text(25),
  json: text(114),
  timestamptz: {
    oid: 1184,
    sizeOf: () => 8,
    write(buffer, value: Date, at) {
      const microseconds = (value.getTime() - EPOCH_MS) * 1000
      if (Number.isNaN(microseconds)) throw invalidText()
      // Cheaper than a BigInt. Rounding down is also correct before 2000.
      buffer.writeInt32BE(Math.floor(microseconds / 2 ** 32), at)
      return buffer.writeUInt32BE(microseconds >>> 0, at + 4)
    },
  },
  uuid: {
    oid: 2950,
    sizeOf: () => 16,
    write(buffer, value: string, at) {
      const digits = value.replaceAll('-', '')
      if (digits.length !== 32 || buffer.write(digits, at, 'hex') !== 16) throw invalidText()
      return at + 16
    },
  },
} as const satisfies Record<string, ElementType>

/** With Postgres's code, so that a batch treats it as the fault of one item. */
function invalidText(): Error {
  return Object.assign(new Error('an array element has the wrong type'), { code: '22P02' })
}

export type ElementTypeName = keyof typeof TYPES

/** Number of dimensions, null flag, type; length and first index of the only dimension. */
const HEADER_BYTES = 20
const LENGTH_BYTES = 4

/** Values are null or in JavaScript's form: `Date`, `Buffer`, decimal text for bigint. */
export function toBinaryArray(type: ElementTypeName, values: readonly unknown[]): Buffer {
  const { oid, sizeOf, write }: ElementType = TYPES[type]
  let size = HEADER_BYTES
  for (const value of values) size += LENGTH_BYTES + (value === null ? 0 : sizeOf(value as never))
  const buffer = Buffer.allocUnsafe(size)
  let at = HEADER_BYTES
  let hasNull = 0
  for (const value of values) {
    const start = at + LENGTH_BYTES
    if (value === null) hasNull = 1
    at = value === null ? start : write(buffer, value as never, start)
    buffer.writeInt32BE(value === null ? -1 : at - start, start - LENGTH_BYTES)
  }
  buffer.writeInt32BE(values.length === 0 ? 0 : 1, 0)
  buffer.writeInt32BE(hasNull, 4)
  buffer.writeUInt32BE(oid, 8)
  if (values.length === 0) return buffer.subarray(0, 12)
  buffer.writeInt32BE(values.length, 12)
  buffer.writeInt32BE(1, 16)
  return buffer
}

/** Columns by their names in rows: `{ userId: 'user_id' }`. */
type Columns = Record<string, string>

export type RowOf<Table extends keyof Database, List extends Columns> = {
  [Name in keyof List]: List[Name] extends keyof Selectable<Database[Table]>
    ? Selectable<Database[Table]>[List[Name]]
    : never
}

export function aliased(table: string, columns: Columns): RawBuilder<unknown> {
  const named = Object.entries(columns).map(([name, column]) => `${table}.${column} as "${name}"`)
  return sql.raw(named.join(', '))
}

export function plain(table: string, columns: Columns): RawBuilder<unknown> {
  const named = Object.values(columns).map((column) => `${table}.${column}`)
  return sql.raw(named.join(', '))
}

type ItemColumns<Item> = Record<string, readonly [type: ElementTypeName, read: (item: Item) => unknown]>

/** Items as the table `i`. `ord` is an item's position, from 1. */
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
