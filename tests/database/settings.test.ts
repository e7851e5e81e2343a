import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate, pendingMigrations } from '../../src/database/migrate.ts'
import { whenDone } from '../support/cleanup.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { addReader } from '../support/platform.ts'
import { openTestService, times } from '../support/test-service.ts'

/** A database or a role can have any defaults, so each connection sets what the service relies on. */

async function setDefaults(url: string, defaults: Record<string, string>) {
  const name = new URL(url).pathname.slice(1)
  for (const [setting, value] of Object.entries(defaults))
    await runStatement(url, `alter database ${name} set ${setting} = '${value}'`)
}

async function openWithDefaults(defaults: Record<string, string>) {
  const { url } = await openTestService()
  await setDefaults(url, defaults)
  return await openTestService({ url, env: { DATABASE_POOL_SIZE: '20' } })
}

test('defaults of the database do not change how values are written', async () => {
  const service = await openWithDefaults({
    datestyle: 'German, DMY',
    intervalstyle: 'sql_standard',
    timezone: 'Asia/Kathmandu',
    bytea_output: 'escape',
    extra_float_digits: '-15',
    standard_conforming_strings: 'off',
    array_nulls: 'off',
  })
  const admin = await service.addCompany()
  const { accessToken: token, refreshToken } = await service.loginAs(admin)
  expect((await service.refresh(refreshToken)).status).toBe(200)
  const { body } = await service.getSession({ token })
  expect(body.user.email).toBe(admin.email)

  const secret = await service.newSecret(admin)
  const occurredAt = '2026-02-03T04:05:06.789Z'
  const event = { id: 'one', type: 'a.b', occurredAt, data: {} }
  expect((await service.send(admin.companyId, secret, event)).status).toBe(202)
  const headers = await addReader(service)
  const feed = await service.ask('/events?wait=20', { method: 'GET', headers })
  expect(feed.body.events).toEqual([expect.objectContaining({ id: 'one', occurredAt })])
})

test('concurrent sign-ins succeed where transactions are serializable by default', async () => {
  const service = await openWithDefaults({ default_transaction_isolation: 'serializable' })
  const admin = await service.addCompany()
  const answers = await Promise.all(times(40, () => service.login(admin)))
  expect(answers.map(({ status }) => status)).toEqual(times(40, () => 200))
})

test('migrations finish where statements and transactions time out by default', async () => {
  const url = await createEmptyDatabase()
  const timeouts = ['statement', 'lock', 'idle_in_transaction_session', 'idle_session', 'transaction']
  await setDefaults(url, Object.fromEntries(timeouts.map((name) => [`${name}_timeout`, '300'])))
  const connection = connect({ url, poolSize: 1 })
  whenDone(connection.close)
  await sql`select pg_sleep(0.4)`.execute(connection.maintenance)
  await migrate(connection.maintenance)
  expect(await pendingMigrations(connection.db)).toEqual([])
})
