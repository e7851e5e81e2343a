import type pg from 'pg'

interface TableSize {
  table: string
  rows: number
  /** With its indexes. */
  bytes: number
}

/** What was added to a table. */
export type TableGrowth = TableSize

/** Rows and bytes of every table; those of a partition count for the whole. */
export async function measureTables(connection: pg.Client): Promise<TableSize[]> {
  const { rows: names } = await connection.query<{ name: string; root: string; bytes: string }>(
    `select c.oid::regclass::text as name, coalesce(pg_partition_root(c.oid), c.oid)::regclass::text as root,
       pg_total_relation_size(c.oid) as bytes
     from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname !~ '^kysely'
     order by 2, 1`,
  )
  const sizes = new Map<string, TableSize>()
  for (const { name, root, bytes } of names) {
    const { rows } = await connection.query<{ count: string }>(`select count(*) from ${name}`)
    const size = sizes.get(root) ?? { table: root, rows: 0, bytes: 0 }
    size.rows += Number(rows[0]?.count)
    size.bytes += Number(bytes)
    sizes.set(root, size)
  }
  return [...sizes.values()]
}

/** What was added to each table; those that did not change are left out. */
export function growthBetween(before: TableSize[], after: TableSize[]): TableGrowth[] {
  const former = new Map(before.map((size) => [size.table, size]))
  return after
    .map(({ table, rows, bytes }) => {
      const { rows: rowsBefore = 0, bytes: bytesBefore = 0 } = former.get(table) ?? {}
      return { table, rows: rows - rowsBefore, bytes: bytes - bytesBefore }
    })
    .filter(({ rows, bytes }) => rows !== 0 || bytes !== 0)
}

/** The growth in another length of time, at the same pace. */
export function scaleGrowth(growths: TableGrowth[], factor: number): TableGrowth[] {
  return growths.map(({ table, rows, bytes }) => ({
    table,
    rows: Math.round(rows * factor),
    bytes: Math.round(bytes * factor),
  }))
}
