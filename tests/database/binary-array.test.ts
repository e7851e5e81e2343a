import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { type ElementTypeName, toBinaryArray } from '../../src/database/columns.ts'
import { openTestService } from '../support/test-service.ts'

const { db } = await openTestService()

const MOMENTS = [0, 1, -1, Date.UTC(2000, 0), Date.UTC(1999, 11, 31, 23, 59, 59, 999), Date.UTC(2999, 0)]

test.each<[ElementTypeName, unknown[]]>([
  ['boolean', [true, false]],
  ['bytea', [Buffer.alloc(0), Buffer.from([0, 255, 10])]],
  ['bigint', ['0', '-1', '9223372036854775807', '-9223372036854775808']],
  ['int', [0, -1, 2 ** 31 - 1, -(2 ** 31)]],
  ['text', ['', 'a "quoted" \\ text', 'null', '{}', 'e\u0301 ß 語 😀']],
  ['json', ['{"a":[1,"\\u0000"]}', 'null']],
  ['timestamptz', MOMENTS.map((ms) => new Date(ms))],
  ['uuid', [randomUUID(), '00000000-0000-0000-0000-000000000000']],
])('an array of %s reaches Postgres unchanged, with nulls or empty', async (type, values) => {
  for (const sent of [values, [null, ...values, null], [null], []]) {
    const { rows } = await sql<{ element: unknown }>`
      select element from unnest(${toBinaryArray(type, sent)}::${sql.raw(type)}[]) as element`.execute(db)
    const expected = type === 'json' ? sent.map((text) => text && JSON.parse(String(text))) : sent
    expect(rows.map(({ element }) => element)).toEqual(expected)
  }
})

test("a value of the wrong type is refused with Postgres's error code", () => {
  const invalid = expect.objectContaining({ code: '22P02' })
  for (const value of ['', '0'.repeat(31), '0'.repeat(33), 'g'.repeat(32)])
    expect(() => toBinaryArray('uuid', [value])).toThrow(invalid)
  expect(() => toBinaryArray('timestamptz', [new Date(Number.NaN)])).toThrow(invalid)
})
