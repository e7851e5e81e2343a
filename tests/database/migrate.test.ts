import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate, pendingMigrations } from '../../src/database/migrate.ts'
import { explain } from '../../src/process/startup.ts'
import { whenDone } from '../support/cleanup.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { linesAbout } from '../support/log-lines.ts'
import { asRole } from '../support/postgres.ts'
import { countWaiting, openTestService, type TestService, times } from '../support/test-service.ts'

const service = await openTestService({ instances: 2, env: { DATABASE_POOL_SIZE: '2' } })

/** Requests of a company that sends events: a read, a batched write, a transaction, and a guarded update. */
async function openRequests(of: TestService) {
  const admin = await of.addCompany()
  const secret = await of.newSecret(admin)
  const { accessToken: token } = await of.loginAs(admin)
  const event = { type: 'a.b', data: {} }
  const send = (payload: unknown, at: number) => of.send(admin.companyId, secret, payload, { at })
  return {
    check: (at: number) => of.getSession({ token, at }),
    event: (at: number) => send(event, at),
    events: (at: number) => send({ events: [event, event] }, at),
    login: (at: number) => of.login(admin, { at }),
  }
}
const requests = await openRequests(service)

/** A connection outside the service's pool. */
async function openClient(url = service.url) {
  const client = new pg.Client({ connectionString: url, application_name: 'test' })
  await client.connect()
  whenDone(() => client.end())
  return client
}

function openConnection(url: string, poolSize = 2) {
  const connection = connect({ url, poolSize })
  whenDone(connection.close)
  return connection
}

const LOCK = 'select pg_advisory_lock(3853314791062309107)'

test('eight instances that start at the same time run each migration once', async () => {
  const url = await createEmptyDatabase()
  const instances = times(8, () => openConnection(url))
  const names = (await Promise.all(instances.map(({ maintenance }) => migrate(maintenance)))).flat()
  expect(names).toContain('0001-core')
  expect(new Set(names).size).toBe(names.length)
  const { db } = openConnection(url)
  expect(await pendingMigrations(db)).toEqual([])
  const { rows } = await (await openClient(url)).query('select name from kysely_migration order by name')
  expect(rows.map(({ name }) => name)).toEqual(names)
})

test('a new database has no account, company, or client (ASVS 6.3.2)', async () => {
  const { maintenance, db } = openConnection(await createEmptyDatabase())
  await migrate(maintenance)
  for (const table of ['users', 'companies', 'platform_clients', 'signing_secrets'] as const)
    expect([table, await db.selectFrom(table).selectAll().execute()]).toEqual([table, []])
})

test("an instance waits for another's migrations longer than a statement may take", async () => {
  const url = await createEmptyDatabase()
  const { maintenance, db } = openConnection(url)
  const holder = await openClient(url)
  await holder.query(LOCK)
  const said: string[] = []
  const migrating = migrate(maintenance, (text) => said.push(text))
  const untilItWaits = () => expect.poll(() => countWaiting(db)).toBe(1)
  await untilItWaits()
  // Same effect as the statement's timeout, without its five seconds.
  await holder.query(`select pg_cancel_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`)
  await untilItWaits()
  await holder.query('select pg_advisory_unlock_all()')
  expect(await migrating).toContain('0001-core')
  expect(said[0]).toMatch(/^Waiting to migrate the database: another instance/)
  // The service's lock wait ends too, and is repeated a limited number of times.
  const { rows } = await sql`show lock_timeout`.execute(maintenance)
  expect(rows).toEqual([{ lock_timeout: '5s' }])
})

test('an up-to-date database needs neither the lock nor write permission', async () => {
  await (await openClient()).query(LOCK)
  const url = new URL(asRole(service.url, 'gatehouse'))
  url.searchParams.set('options', '-c default_transaction_read_only=on')
  expect(await migrate(openConnection(url.href).db)).toEqual([])
})

test('a database that is not in UTF-8 is refused', async () => {
  const options = `encoding 'LATIN1' locale_provider libc locale 'C' template template0`
  const { db } = openConnection(await createEmptyDatabase(options))
  const error = await migrate(db).catch((error: unknown) => error)
  expect(explain(error)).toMatch(/^The database's encoding is LATIN1.*UTF8/)
})

test('a failed migration reports why, and leaves no partial change', async () => {
  const url = await createEmptyDatabase()
  await runStatement(url, 'create table audit_events (in_the_way text)')
  const { db } = openConnection(url)
  await expect(migrate(db)).rejects.toThrow('audit_events')
  expect(await pendingMigrations(db)).toContain('0001-core')
  const { rows } = await (await openClient(url)).query(`select to_regclass('companies') as companies`)
  expect(rows).toEqual([{ companies: null }])
})

describe('when the server ends every connection (ASVS 16.5.2)', () => {
  const endAll = (client: pg.Client) =>
    client.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'gatehouse'`)

  /** Expects that the pool can open as many transactions as it has connections. */
  async function expectWholePool({ db }: Pick<ReturnType<typeof connect>, 'db'>, size = 2) {
    const { promise: allOpen, resolve } = Promise.withResolvers<void>()
    let open = 0
    const openOne = () =>
      db.transaction().execute(async (tx) => {
        await sql`select 1`.execute(tx)
        open += 1
        if (open === size) resolve()
        await allOpen
      })
    await Promise.all(times(size, openOne))
  }

  test('idle connections are replaced, however often the server ends them', async () => {
    const killer = await openClient()
    // More often than the pool has connections.
    for (const at of [0, 1, 0, 1]) {
      await Promise.all(Object.values(requests).map((send) => send(at)))
      await endAll(killer)
    }
    for (const at of [0, 1]) await expect.poll(async () => (await requests.check(at)).status).toBe(200)
    await expectWholePool(service)
  })

  test('a transaction fails if its connection ends between two statements', async () => {
    const killer = await openClient()
    const connection = openConnection(service.url)
    for (const _ of [1, 2, 3]) {
      const work = connection.db.transaction().execute(async (tx) => {
        await sql`create table never_committed (id int)`.execute(tx)
        await endAll(killer)
        // The connection ends while it is idle.
        await sleep(50)
        await sql`select 1`.execute(tx)
      })
      await expect(work).rejects.toThrow()
    }
    await expectWholePool(connection)
    expect(connection.pool.waitingCount).toBe(0)
    const { rows } = await killer.query(`select to_regclass('never_committed') as it`)
    expect(rows).toEqual([{ it: null }])
  })
})

describe('a request returns 503 if the database keeps it waiting (ASVS 16.5.2)', async () => {
  // Timeouts as in production.
  const strict = await openTestService({ instances: 2, timeoutScale: 1, env: { DATABASE_POOL_SIZE: '2' } })
  const [connection] = strict.connections
  if (!connection) throw new Error('a service has an instance')
  const requests = await openRequests(strict)
  const refused = { status: 503, headers: { 'retry-after': '1' }, body: { code: 'unavailable' } }

  test('a request waits two seconds for a lock; the next one succeeds', async () => {
    const { rows } = await sql`select current_setting('statement_timeout') as statement,
      current_setting('lock_timeout') as lock,
      current_setting('idle_in_transaction_session_timeout') as idle`.execute(connection.db)
    expect(rows).toEqual([{ statement: '5s', lock: '2s', idle: '10s' }])
    const blocker = await openClient(strict.url)
    await blocker.query('begin; lock table events in access exclusive mode')
    const sent = Promise.all([requests.event(0), requests.events(1)])
    expect((await requests.check(0)).status).toBe(200)
    for (const answer of await sent) {
      expect(answer).toMatchObject(refused)
      const lines = await linesAbout(strict, answer)
      expect(lines).toContainEqual(
        expect.objectContaining({ err: expect.objectContaining({ code: '55P03' }) }),
      )
    }
    await blocker.query('rollback')
    expect((await requests.event(0)).status).toBe(202)
  })

  test('a request waits three seconds for a connection; other instances serve (ASVS 13.2.6)', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const holders = times(2, () =>
      connection.db.transaction().execute(async (tx) => {
        await sql`select 1`.execute(tx)
        await held
      }),
    )
    whenDone(async () => release())
    const answers = await Promise.all(Object.values(requests).map((send) => send(0)))
    for (const answer of answers) expect(answer).toMatchObject(refused)
    expect((await requests.event(1)).status).toBe(202)
    release()
    await Promise.all(holders)
    for (const send of Object.values(requests)) expect((await send(0)).status).toBeLessThan(300)
  })
})
