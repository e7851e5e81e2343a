import { type Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import type { Database } from '../../src/database/schema.ts'
import { whenDone } from '../support/cleanup.ts'
import { openTestService, times } from '../support/test-service.ts'

const service = await openTestService()

test('connections are replaced, and no statement fails, nor a transaction that is in progress', async () => {
  const { db, close } = connect({ url: service.url, poolSize: 4, lifetimeSeconds: 1 })
  whenDone(close)
  const pidOf = async (on: Kysely<Database>) => {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.01)`.execute(on)
    return rows[0]?.pid
  }
  const pids = async () => await Promise.all(times(4, () => pidOf(db)))
  const first = await pids()
  const areLeft = async () => (await pids()).some((pid) => first.includes(pid))
  await db.transaction().execute(async (tx) => {
    const own = await pidOf(tx)
    expect(first).toContain(own)
    expect(await areLeft()).toBe(true)
    while (await areLeft());
    expect(await pidOf(tx)).toBe(own)
  })
  expect(await areLeft()).toBe(false)
})
