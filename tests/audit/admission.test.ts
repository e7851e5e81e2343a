import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import { expectProblem } from '../support/problem.ts'
import {
  type Answer,
  countWaiting,
  openTestService,
  type TestService,
  times,
} from '../support/test-service.ts'

/** Reads of one company's audit trail must leave room for other companies. */

const open = (seconds: number) =>
  openTestService({
    env: { RATE_LIMIT_SCALE: '1', LIMIT_AUDIT_READS: `2/${seconds}`, DATABASE_POOL_SIZE: '2' },
  })
const service = await open(60)

async function readerOf(service: TestService) {
  const { accessToken: token } = await service.loginAs(await service.addCompany())
  const read = (path = '', accept = 'application/json') =>
    service.call(`/auth/audit${path}`, { method: 'GET', token, headers: { accept } })
  return { token, read }
}

async function whileReadsWait<Result>(service: TestService, act: () => Promise<Result>): Promise<Result> {
  return await service.db.transaction().execute(async (tx) => {
    await sql`lock table audit_events, audit_days in access exclusive mode`.execute(tx)
    return await act()
  })
}

const untilWaiting = (service: TestService, count: number) =>
  expect.poll(() => countWaiting(service.db), { timeout: 100_000 }).toBe(count)

test('two audit reads of a company run, eight wait, more get 429 (ASVS 15.2.2)', async () => {
  const [one, other] = [await readerOf(service), await readerOf(service)]
  const answers: Promise<Answer>[] = []
  const refused = await whileReadsWait(service, async () => {
    answers.push(one.read(), one.read('/daily'))
    await untilWaiting(service, 2)
    const more = times(9, () => one.read())
    answers.push(...more)
    const refused = await Promise.race(more)
    // Other companies and other requests are not affected.
    answers.push(other.read())
    await untilWaiting(service, 3)
    expect((await service.getSession({ token: one.token })).status).toBe(200)
    return refused
  })
  expectProblem(refused, [429, 'rate_limited'])
  expect(refused.headers['retry-after']).toBe('1')
  const statuses = (await Promise.all(answers)).map(({ status }) => status)
  expect(statuses.toSorted()).toEqual([...times(11, () => 200), 429])
})

test('an audit read that waited too long gets 429', async () => {
  const service = await open(1)
  const { read } = await readerOf(service)
  const running: Promise<Answer>[] = []
  const refused = await whileReadsWait(service, async () => {
    running.push(read(), read())
    await untilWaiting(service, 2)
    return await read('/daily')
  })
  expectProblem(refused, [429, 'rate_limited'])
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200])
})

test('an audit read that hits the statement timeout gets 503', async () => {
  const { auditDb, close } = connect({ url: service.url, poolSize: 1 })
  onTestFinished(close)
  const { rows } = await sql`show statement_timeout`.execute(auditDb)
  expect(rows).toEqual([{ statement_timeout: '2s' }])
  const { read } = await readerOf(service)
  for (const [path, accept] of [[''], ['/daily'], ['', 'text/csv']]) {
    const refused = await whileReadsWait(service, async () => {
      const answer = read(path, accept)
      await untilWaiting(service, 1)
      // This has the same effect as the timeout.
      await sql`select pg_cancel_backend(pid) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`.execute(service.db)
      return await answer
    })
    expectProblem(refused, [503, 'overloaded'])
    expect(refused.headers['retry-after']).toBe('1')
  }
  expect((await read('', 'text/csv')).status).toBe(200)
})
