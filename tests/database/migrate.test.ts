import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { afterEach, describe, expect, inject, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate, pendingMigrations } from '../../src/database/migrate.ts'
import { explain } from '../../src/startup.ts'
import { whenDone } from '../support/cleanup.ts'
import { databaseUrl } from '../support/postgres.ts'
import { type Answer, openTestService, type TestService, times } from '../support/test-service.ts'

const serverUrl = inject('serverUrl')
const service = await openTestService({ instances: 2, env: { DATABASE_POOL_SIZE: '2' } })

/** A company that sends events, with an admin who is signed in. */
async function openAccount(of: TestService) {
  const admin = await of.addCompany()
  const secret = await of.newSecret(admin)
  const { accessToken: token } = await of.loginAs(admin)
  return { admin, secret, token }
}
const account = await openAccount(service)
const { admin, secret, token } = account

/** Releases, in reverse, what a test took. */
const taken: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const release of taken.splice(0).reverse()) await release()
})

/** A connection of the test's own, beside those of the service. */
async function openClient(url = service.url) {
  const client = new pg.Client({ connectionString: url, application_name: 'test' })
  await client.connect()
  taken.push(() => client.end())
  return client
}

async function openEmptyDatabase(options = '') {
  const name = `gatehouse_${randomBytes(6).toString('hex')}`
  await runStatement(serverUrl, `create database ${name} ${options}`)
  whenDone(() => runStatement(serverUrl, `drop database ${name} with (force)`))
  return databaseUrl(serverUrl, name)
}

function openConnection(url: string, poolSize = 2) {
  const connection = connect({ url, poolSize })
  taken.push(connection.close)
  return connection
}

/** Waits until a condition, polled at the database, holds. */
async function until(holds: () => Promise<boolean>) {
  while (!(await holds())) await sleep(10)
}

const waitsForLock = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
const countWaiting = async (client: pg.Client) => (await client.query(`select ${waitsForLock}`)).rowCount ?? 0

/** Each kind of request: one read, one write in a batch, one transaction, one guarded update. */
const requestsOf = (of: TestService, { admin, secret, token }: typeof account) => ({
  'a session check': (at: number) => of.getSession({ token, at }),
  'an event': (at: number) => of.send(admin.companyId, secret, { type: 'a.b', data: {} }, { at }),
  'a batch of events': (at: number) =>
    of.send(admin.companyId, secret, { events: times(3, () => ({ type: 'a.b', data: {} })) }, { at }),
  'a sign-in': (at: number) => of.login(admin, { at }),
})
const requests = requestsOf(service, account)

describe('migrations', () => {
  test('run once each when eight instances start at once on an empty database', async () => {
    const url = await openEmptyDatabase()
    const instances = times(8, () => openConnection(url))
    const ran = await Promise.all(instances.map(({ maintenance }) => migrate(maintenance)))
    const names = ran.flat()
    expect(names).toContain('0001-core')
    expect(new Set(names).size).toBe(names.length)
    const [first] = instances
    expect(first && (await pendingMigrations(first.db))).toEqual([])
    const { rows } = await (await openClient(url)).query('select name from kysely_migration order by name')
    expect(rows.map(({ name }) => name)).toEqual(names)
  })

  test('wait for another instance that runs them, for longer than a statement may take', async () => {
    const url = await openEmptyDatabase()
    const { maintenance } = openConnection(url)
    const holder = await openClient(url)
    await holder.query('select pg_advisory_lock(3853314791062309107)')
    const said: string[] = []
    const migrating = migrate(maintenance, (text) => said.push(text))
    await until(async () => (await countWaiting(holder)) === 1)
    // What the waiting statement's timeout does, without its five seconds.
    await holder.query(`select pg_cancel_backend(pid) ${waitsForLock}`)
    await until(async () => (await countWaiting(holder)) === 1)
    await holder.query('select pg_advisory_unlock_all()')
    expect(await migrating).toContain('0001-core')
    expect(said[0]).toMatch(/^Waiting to migrate the database: another instance/)
    // The service's own wait ends too, and is repeated a bounded number of times.
    const { rows } = await sql`show lock_timeout`.execute(maintenance)
    expect(rows).toEqual([{ lock_timeout: '5s' }])
  })

  test('need neither the lock nor the right to write on a current database', async () => {
    const holder = await openClient()
    await holder.query('select pg_advisory_lock(3853314791062309107)')
    const url = new URL(service.url)
    url.searchParams.set('options', '-c default_transaction_read_only=on')
    expect(await migrate(openConnection(url.href).db)).toEqual([])
  })

  test.each(['LATIN1', 'SQL_ASCII'])(
    'refuse a database in %s, which cannot store every text',
    async (encoding) => {
      const url = await openEmptyDatabase(
        `encoding '${encoding}' locale_provider libc locale 'C' template template0`,
      )
      const error = await migrate(openConnection(url).db).catch((error: unknown) => error)
      expect(explain(error)).toMatch(new RegExp(`^The encoding of the database is ${encoding}.*UTF8`))
    },
  )

  test('report what is wrong, and leave nothing half done', async () => {
    const url = await openEmptyDatabase()
    await runStatement(url, 'create table audit_events (in_the_way text)')
    const { db } = openConnection(url)
    await expect(migrate(db)).rejects.toThrow('audit_events')
    expect(await pendingMigrations(db)).toContain('0001-core')
    const { rows } = await (await openClient(url)).query(`select to_regclass('companies') as companies`)
    expect(rows).toEqual([{ companies: null }])
  })
})

describe('when every connection is ended by the server (ASVS 16.5.2)', () => {
  const endAll = (client: pg.Client) =>
    client.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'gatehouse'`)

  /** The pool has all its places: as many transactions as it has are open at one time. */
  async function expectWholePool({ db }: Pick<ReturnType<typeof connect>, 'db'>, size = 2) {
    const { promise: allOpen, resolve } = Promise.withResolvers<void>()
    let open = 0
    await Promise.all(
      times(size, () =>
        db.transaction().execute(async (tx) => {
          await sql`select 1`.execute(tx)
          open += 1
          if (open === size) resolve()
          await allOpen
        }),
      ),
    )
    expect(open).toBe(size)
  }

  test('while idle, more often than the pool is large, requests are answered and the pool is whole', async () => {
    const killer = await openClient()
    for (let round = 0; round < 6; round += 1) {
      await Promise.all(Object.values(requests).map((send) => send(round % 2)))
      await endAll(killer)
    }
    // Until each instance has noticed.
    for (const at of [0, 1]) await until(async () => (await service.getSession({ token, at })).status === 200)
    await expectWholePool(service)
  })

  test('between two statements of a transaction, it fails, the process lives and the pool is whole', async () => {
    const killer = await openClient()
    const connection = openConnection(service.url)
    for (let round = 0; round < 4; round += 1) {
      const work = connection.db.transaction().execute(async (tx) => {
        await sql`create table never_committed (id int)`.execute(tx)
        await endAll(killer)
        // The end arrives while nothing is asked of the connection.
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

  test('under load, answers are good or 503, and what was acknowledged is stored', async () => {
    const killer = await openClient()
    let running = true
    const statuses: number[] = []
    const acknowledged: string[] = []
    const load = times(12, async (index) => {
      for (let turn = 0; running || turn < 1; turn += 1) {
        const id = `load-${index}-${turn}`
        const event = { id, type: 'a.b', data: {} }
        const payload = index % 2 === 0 ? event : { events: [event, { type: 'a.b', data: {} }] }
        const answer = await service.send(admin.companyId, secret, payload, { at: turn % 2 })
        const others = await Promise.all([service.getSession({ token, at: turn % 2 }), service.login(admin)])
        for (const { status, headers } of [answer, ...others]) {
          statuses.push(status)
          if (status === 503) expect(headers['retry-after']).toBe('1')
        }
        if (answer.status === 202) acknowledged.push(id)
      }
    })
    for (let ended = 0; ended < 40; ) {
      await sleep(50)
      ended += (await endAll(killer)).rowCount ?? 0
    }
    running = false
    await Promise.all(load)
    expect(statuses.filter((status) => ![200, 202, 503].includes(status))).toEqual([])
    for (const at of [0, 1]) await until(async () => (await service.getSession({ token, at })).status === 200)
    await expectWholePool(service)
    const { rows } = await killer.query('select event_id from events where event_id = any($1)', [
      acknowledged,
    ])
    expect(rows.length).toBe(acknowledged.length)
  })
})

describe('a request that the database keeps waiting is answered 503 with Retry-After (ASVS 16.5.2)', async () => {
  // Waits no longer than in production.
  const strict = await openTestService({ instances: 2, timeoutScale: 1, env: { DATABASE_POOL_SIZE: '2' } })
  const requestsOfStrict = requestsOf(strict, await openAccount(strict))
  const refused = { status: 503, headers: { 'retry-after': '1' }, body: { code: 'unavailable' } }
  /** The SQLSTATE that the answer's log line tells. */
  const causeOf = ({ body }: Answer, { logs } = service) => {
    const lines = logs
      .join('')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    return lines.find(({ requestId, err }) => requestId === body.requestId && err)?.err.code
  }
  const lockEvents = 'begin; lock table events in access exclusive mode'

  test('once it has waited for a lock for two seconds; the next one is served', async () => {
    const { rows } = await sql`select current_setting('statement_timeout') as statement,
      current_setting('lock_timeout') as lock,
      current_setting('idle_in_transaction_session_timeout') as idle`.execute(strict.db)
    expect(rows).toEqual([{ statement: '5s', lock: '2s', idle: '10s' }])
    const requests = requestsOfStrict
    const blocker = await openClient(strict.url)
    await blocker.query(lockEvents)
    const [single, batch, check] = await Promise.all([
      requests['an event'](0),
      requests['a batch of events'](1),
      requests['a session check'](0),
    ])
    for (const answer of [single, batch]) {
      expect(answer).toMatchObject(refused)
      expect(causeOf(answer, strict)).toBe('55P03')
    }
    expect(check.status).toBe(200)
    await blocker.query('rollback')
    expect((await requests['an event'](0)).status).toBe(202)
  })

  test('when its statement is cancelled', async () => {
    const blocker = await openClient()
    await blocker.query(lockEvents)
    const answers = [requests['an event'](0), requests['a batch of events'](1)]
    await until(async () => (await countWaiting(blocker)) === 2)
    await blocker.query(`select pg_cancel_backend(pid) ${waitsForLock}`)
    for (const answer of await Promise.all(answers)) {
      expect(answer).toMatchObject(refused)
      expect(causeOf(answer)).toBe('57014')
    }
    await blocker.query('rollback')
    expect((await requests['an event'](0)).status).toBe(202)
  })

  test('once it has waited three seconds for a connection; other instances serve', async () => {
    const requests = requestsOfStrict
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const holders = times(2, () =>
      strict.db.transaction().execute(async (tx) => {
        await sql`select 1`.execute(tx)
        await held
      }),
    )
    taken.push(
      () => Promise.all(holders),
      async () => release(),
    )
    const answers = await Promise.all(Object.values(requests).map((send) => send(0)))
    for (const answer of answers) expect(answer).toMatchObject(refused)
    expect((await requests['an event'](1)).status).toBe(202)
    release()
    await Promise.all(holders)
    for (const send of Object.values(requests)) expect((await send(0)).status).toBeLessThan(300)
  })
})
