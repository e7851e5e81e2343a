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

test('connections are replaced after their lifetime without a failed statement or transaction', async () => {
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

test('a credential or database that stops working returns 503, and recovers', async () => {
  const name = `gatehouse_${randomBytes(6).toString('hex')}`
  const { url: home } = await openTestService()
  const url = new URL(home)
  const database = url.pathname.slice(1)
  Object.assign(url, { username: name, password: 'first' })
  const operate = (statement: string) => runStatement(inject('serverUrl'), statement)
  await operate(`create role ${name} superuser login password 'first'`)
  whenDone(() => operate(`drop role ${name}`))
  const one = await openTestService({ url: url.href, timeoutScale: 1 })
  const admin = await one.addCompany()
  for (const [code, breakIt, mendIt] of [
    ['28000', `alter role ${name} nologin`, `alter role ${name} login`],
    ['28P01', `alter role ${name} password 'second'`, `alter role ${name} password 'first'`],
    ['3D000', `alter database ${database} rename to ${name}`, `alter database ${name} rename to ${database}`],
  ] as const) {
    await cutOff(inject('serverUrl'), database)
    await operate(breakIt)
    await operate(`alter database ${code === '3D000' ? name : database} allow_connections true`)
    const refused = await one.login(admin)
    expect([code, refused.status, refused.headers['retry-after']]).toEqual([code, 503, '1'])
    expect(one.logs.join('')).toContain(code)
    await operate(mendIt)
    await expect.poll(async () => (await one.login(admin)).status).toBe(200)
  }
})
