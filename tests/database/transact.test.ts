import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { transact } from '../../src/database/connect.ts'
import { openTestService } from '../support/test-service.ts'

const { db } = await openTestService()
const count = (tx: typeof db, counter: string) =>
  sql`insert into rate_counters (counter, hits, window_ends_at) values (${counter}, 1, now())`.execute(tx)
const isCounted = async (counter: string) =>
  (await sql`select from rate_counters where counter = ${counter}`.execute(db)).rows.length > 0

test('a transaction that is rolled back returns its outcome, and writes nothing', async () => {
  const outcome = await transact<'done' | 'undone'>(db, async (tx, rollBack) => {
    await count(tx, 'undone')
    throw rollBack('undone')
  })
  expect([outcome, await isCounted('undone')]).toEqual(['undone', false])
  expect(await transact(db, async (tx) => (await count(tx, 'done')) && 'done')).toBe('done')
  expect(await isCounted('done')).toBe(true)
})

test('an error is thrown even if an outcome was prepared', async () => {
  const failing = transact(db, async (tx, rollBack) => {
    rollBack(undefined)
    await count(tx, 'failed')
    throw new Error('another')
  })
  await expect(failing).rejects.toThrow('another')
  expect(await isCounted('failed')).toBe(false)
})
