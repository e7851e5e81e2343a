import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { expect, inject, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { connect } from '../../src/database/connect.ts'
import type { Database } from '../../src/database/schema.ts'
import { whenDone } from '../support/cleanup.ts'
import { cutOff } from '../support/postgres.ts'
import { openTestService, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()

test('expired connections are replaced without a failed statement or transaction', async () => {
  const { db, close } = connect({ url: service.url, poolSize: 4, lifetimeSeconds: 1 })
  whenDone(close)
  const pidOf = async (on: Kysely<Database>) => {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.01)`.execute(on)
    return rows[0]?.pid
  }
  const pids = async () => await Promise.all(times(4, () => pidOf(db)))
  const pidsAtFirst = await db.transaction().execute(async (tx) => {
    const own = await pidOf(tx)
    const others = await pids()
    while ((await pids()).some((pid) => others.includes(pid)));
    expect(await pidOf(tx)).toBe(own)
    return [own, ...others]
  })
  expect((await pids()).filter((pid) => pidsAtFirst.includes(pid))).toEqual([])
})

test('requests return 503 until the database accepts the password again', async () => {
  const name = `gatehouse_${randomBytes(6).toString('hex')}`
  const { url: home } = await openTestService()
  const database = new URL(home).pathname.slice(1)
  const operate = (statement: string) => runStatement(inject('serverUrl'), statement)
  await operate(`create role ${name} superuser login password 'first'`)
  whenDone(() => operate(`drop role ${name}`))
  const { href: url } = Object.assign(new URL(home), { username: name, password: 'first' })
  const one = await openTestService({ url, timeoutScale: 1 })
  const admin = await one.addCompany()
  await operate(`alter role ${name} password 'second'`)
  await cutOff(inject('serverUrl'), database)
  await operate(`alter database ${database} allow_connections true`)
  const refused = await one.login(admin)
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
  expect(one.logs.join('')).toContain('28P01')
  await operate(`alter role ${name} password 'first'`)
  await expect.poll(async () => (await one.login(admin)).status).toBe(200)
})
