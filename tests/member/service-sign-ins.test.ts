import { CompiledQuery } from 'kysely'
import pg from 'pg'
import { afterEach, expect, test, vi } from 'vitest'
import { changeSubscription } from '../../src/operator/companies.ts'
import { selectAudit } from '../support/audit.ts'
import { expectProblem } from '../support/problem.ts'
import {
  type Answer,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'

/** Sign-ins by service passwords have their own limits and costs. */

const hasher = await createCountingHasher()
const service = await openTestService({
  hasher,
  instances: 2,
  env: {
    TRUST_PROXY: '127.0.0.0/8',
    RATE_LIMIT_SCALE: '1',
    MAX_SESSIONS_PER_MEMBER: '2',
    LIMIT_ANONYMOUS: '100/60',
    LIMIT_REFUSALS: '20/60',
    LIMIT_ACCOUNT_FAILURES: '12/900',
  },
})
// Nothing is added to the sums of minutes that are over by the database's clock.
service.clock.advance(600)
const from = (network: string) => ({ headers: { 'x-forwarded-for': network } })

let offices = 0
/** A company with `count` service accounts. */
async function addFleet(count = 1, on = service) {
  offices += 1
  const admin = await on.addCompany()
  const { accessToken: token } = await on.loginAs(admin, from(`203.0.113.${offices}`))
  const json = { name: 'Worker', role: 'viewer' }
  const added = await Promise.all(times(count, () => on.call('/auth/members', { token, json })))
  const servers = added.map(({ body: { id, ...server } }) => ({ ...admin, userId: id, ...server }) as Person)
  return { admin, token, servers, server: servers[0] ?? admin }
}
const WRONG = `gsp_${'A'.repeat(43)}`
const signIn = (network: string, one: Person) => service.login(one, from(network))
const guess = (network: string, one: Person) => signIn(network, { ...one, password: WRONG })
function expectLimited(answer: Answer, policy: string, retryAfter = String(answer.headers['retry-after'])) {
  expectProblem(answer, [429, 'rate_limited'])
  expect(answer.headers).toMatchObject({ 'ratelimit-policy': policy, 'retry-after': retryAfter })
}
const statusesOf = async (answers: Promise<{ status: number }>[]) => [
  ...new Set((await Promise.all(answers)).map(({ status }) => status)),
]

afterEach(() => vi.restoreAllMocks())

test("sign-ins of service accounts do not consume their network's limits", async () => {
  const { admin, servers } = await addFleet(10)
  const network = '192.0.2.2'
  const people = await Promise.all(times(4, () => service.addUser(admin)))
  const fleet = times(5, () => servers).flat()
  const starting = fleet.map((one) => signIn(network, one))
  expect(await statusesOf(people.map((one) => signIn(network, one)))).toEqual([200])
  expect(await statusesOf(starting)).toEqual([200])
  // A second round within the minute would exceed the limit if sign-ins counted.
  expect(await statusesOf(fleet.map((one) => signIn(network, one)))).toEqual([200])
  const { headers } = await service.call('/.well-known/jwks.json', { method: 'GET', ...from(network) })
  const [, left] = /"anonymous";r=(\d+);/.exec(String(headers['ratelimit'])) ?? []
  expect(Number(left)).toBeGreaterThan(90)
})

test("a service account can have ten times a user's sessions", async () => {
  const { token, server } = await addFleet()
  const signIns = times(28, (n) => service.loginAs(server, { at: n % 2, ...from('192.0.2.1') }))
  const opened = await Promise.all(signIns)
  const sessions = opened.map(({ accessToken }) => service.getSession({ token: accessToken }))
  const live = (await Promise.all(sessions)).filter(({ status }) => status === 200)
  expect(live).toHaveLength(20)
  const audit = await service.call(`/auth/audit?actor=${server.userId}`, { method: 'GET', token })
  expect(audit.body.entries).toMatchObject([{ count: 28, details: { superseded: 8 } }])
})

/** A service with low limits of correct passwords. */
const limited = await openTestService({
  instances: 2,
  env: { RATE_LIMIT_SCALE: '1', LIMIT_SERVICE_SIGN_INS: '6/60', LIMIT_TRIAL_SIGN_INS: '10/3600' },
})

async function addPair() {
  const { admin, servers } = await addFleet(2, limited)
  const [one = admin, other = admin] = servers
  return { admin, one, other }
}

test('correct service passwords are limited per account, on all instances', async () => {
  const { admin, one, other } = await addPair()
  const answers = await Promise.all(times(12, (n) => limited.login(one, { at: n % 2 })))
  const refused = answers.filter(({ status }) => status !== 200)
  expect(refused).toHaveLength(6)
  for (const answer of refused) expectLimited(answer, '"service-sign-ins";q=6;w=60', '60')
  // One session of the admin, and six of the account.
  const sessions = limited.db.selectFrom('sessions').select('kind')
  expect(await sessions.where('company_id', '=', admin.companyId).execute()).toHaveLength(7)
  const byCookie = { headers: { 'x-session-mode': 'cookie' } }
  expect((await limited.login(one, byCookie)).status).toBe(429)
  expect((await limited.login({ ...one, password: WRONG })).status).toBe(401)
  expect((await limited.login(other)).status).toBe(200)
  limited.clock.advance(60)
  expect((await limited.login(one)).status).toBe(200)
})

test('on a trial, correct service passwords are limited per company', async () => {
  const { admin, one, other } = await addPair()
  await Promise.all(times(8, (n) => limited.login(one, { at: n % 2 })))
  const answers = await Promise.all(times(6, (n) => limited.login(other, { at: n % 2 })))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(4)
  limited.clock.advance(61)
  const refused = await limited.login(one)
  expectLimited(refused, '"trial-sign-ins";q=10;w=3600', '3539')
  await changeSubscription(limited.context, admin.companyId, { status: 'active' })
  // Sign-ins that the company's limit refused do not count for the account.
  limited.clock.advance(2)
  for (const _ of times(6, () => 0)) expect((await limited.login(one)).status).toBe(200)
})

test('a sign-in by service password takes three statements and no hash', async () => {
  const { admin, server } = await addFleet()
  const network = '192.0.2.3'
  await signIn(network, server)
  const verified = hasher.verified
  const statementsOf = async (act: () => Promise<{ status: number }>, status: number) => {
    const spy = vi.spyOn(pg.Client.prototype, 'query')
    expect((await act()).status).toBe(status)
    const texts = spy.mock.calls.map(([query]) => String(Object(query).text ?? query))
    spy.mockRestore()
    return texts.filter((text) => !/^set |pg_is_in_recovery|leased_until/.test(text))
  }
  expect(await statementsOf(() => signIn(network, server), 200)).toHaveLength(3)
  const wrong = [server, admin, { ...admin, email: 'nobody@company.example' }]
  const statements: string[][] = []
  for (const one of wrong) statements.push(await statementsOf(() => guess(network, one), 401))
  expect(statements[0]).toHaveLength(2)
  expect(statements).toEqual(times(3, () => statements[0]))
  expect(hasher.verified).toBe(verified)
})

test('the audit trail counts sign-ins of a service account by network', async () => {
  const { token, server } = await addFleet()
  await Promise.all(times(12, (n) => signIn(`198.51.100.${n % 2}`, server)))
  const read = async (path: string) =>
    (await service.call(`/auth/audit${path}`, { method: 'GET', token })).body
  const entries = async () => (await read(`?action=sign_in&actor=${server.userId}`)).entries
  const occurredAt = new Date(service.clock.now() - (service.clock.now() % 60_000)).toISOString()
  const sum = { occurredAt, outcome: 'done', actor: server.userId, sessionId: null, details: null, count: 6 }
  const networks = ['198.51.100.0', '198.51.100.1']
  const sums = networks.map((ipAddress) => expect.objectContaining({ ...sum, ipAddress }))
  const summed = await entries()
  expect(summed).toHaveLength(2)
  expect(summed).toEqual(expect.arrayContaining(sums))
  // Several networks in one statement, and then in sequence.
  await Promise.all(times(20, (n) => signIn(`198.51.101.${n}`, server)))
  for (const n of times(4, (n) => n)) await signIn(`198.51.102.${n}`, server)
  const all: { id: string; count: number }[] = await entries()
  expect(all).toHaveLength(20)
  expect(all.reduce((sum, { count }) => sum + count, 0)).toBe(36)
  const page = await read('?limit=5')
  const rest = await read(`?limit=100&cursor=${page.nextCursor}`)
  const ids = [...page.entries, ...rest.entries].map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toEqual(expect.arrayContaining(all.map(({ id }) => id)))
  expect((await read('/daily?days=1')).days).toMatchObject([{ signIns: 37 }])
  // No row of a sign-in names the account as its actor.
  const rows = await selectAudit(service.db).select('audit_id').where('actor', '=', server.userId).execute()
  expect(rows).toEqual([])
  service.clock.advance(60)
  await signIn('198.51.100.1', server)
  expect((await entries())[0].count).toBe(1)
})

test('a wrong service password reads the same rows, member or not', async () => {
  const { admin, server } = await addFleet()
  for (const n of times(5, (n) => n)) await signIn(`203.0.113.${100 + n}`, admin)
  const readsOf = async (email: string) => {
    const spy = vi.spyOn(pg.Client.prototype, 'query')
    await guess('192.0.2.20', { ...admin, email })
    const [lookUp] = spy.mock.calls
      .map(([query]) => Object(query))
      .filter(({ text }) => /statusOfCompany/.test(text))
    spy.mockRestore()
    const explain = CompiledQuery.raw(`explain (analyze, format json) ${lookUp.text}`, lookUp.values)
    const { rows } = await service.db.executeQuery<{ 'QUERY PLAN': object }>(explain)
    return JSON.stringify(rows[0]?.['QUERY PLAN'])
      .split('"Node Type"')
      .flatMap((node) => {
        const [, loops] = /"Actual Loops":(\d+)/.exec(node) ?? []
        const [, table] = /"Relation Name":"(\w+)"/.exec(node) ?? []
        return table && loops !== '0' ? [`${table} ${loops}`] : []
      })
      .toSorted()
  }
  const ofNobody = await readsOf('nobody@company.example')
  expect(ofNobody).toContain('service_passwords 1')
  for (const { email } of [admin, server]) expect(await readsOf(email)).toEqual(ofNobody)
})

test('too many wrong service passwords block their network before any look-up', async () => {
  const { server } = await addFleet()
  const person = (await addFleet(0)).admin
  const [network, other] = ['192.0.2.10', '192.0.2.11']
  for (const _ of times(20, () => 0)) expect((await guess(network, server)).status).toBe(401)
  const spy = vi.spyOn(pg.Client.prototype, 'query')
  const refused = await signIn(network, server)
  const texts = spy.mock.calls.map(([query]) => String(Object(query).text))
  expect(texts.filter((text) => text.includes('password_epoch'))).toEqual([])
  expectLimited(refused, '"refusals";q=20;w=60')
  expect((await service.getSession({ token: 'none', ...from(network) })).status).toBe(429)
  // So many wrong passwords would lock a user's account.
  expect((await signIn(other, server)).status).toBe(200)
  // Users have their own limit.
  expect((await signIn(network, person)).status).toBe(200)
  service.clock.advance(60)
  expect((await signIn(network, server)).status).toBe(200)
})

test('a blocked network has 20 look-ups a second for known companies', async () => {
  const [{ server }, stranger] = [await addFleet(), await addFleet()]
  const network = '192.0.2.12'
  await signIn(network, server)
  for (const _ of times(20, () => 0)) expect((await guess(network, stranger.server)).status).toBe(401)
  expect((await signIn(network, stranger.server)).status).toBe(429)
  expect(await statusesOf(times(30, () => signIn(network, server)))).toEqual([200])
  for (const _ of times(20, () => 0)) expect((await guess(network, server)).status).toBe(401)
  expectLimited(await signIn(network, server), '"service-password-checks";q=20;w=1')
  service.clock.advance(1)
  expect((await signIn(network, server)).status).toBe(200)
  // The network's other requests do not matter.
  const keySet = () => service.call('/.well-known/jwks.json', { method: 'GET', ...from(network) })
  expect(await statusesOf(times(110, keySet))).toContain(429)
  expect((await signIn(network, server)).status).toBe(200)
  service.clock.advance(24 * 3600)
  for (const _ of times(20, () => 0)) await guess(network, stranger.server)
  expect((await signIn(network, server)).status).toBe(429)
})

test('the audit trail shows wrong service passwords with their reason', async () => {
  const { admin, token, server } = await addFleet()
  const network = '192.0.2.13'
  for (const one of [server, server, admin, { ...admin, email: 'nobody@company.example' }])
    await guess(network, one)
  const { body } = await service.call('/auth/audit?action=sign_in', { method: 'GET', token })
  const summed = body.entries.filter(({ outcome }: { outcome: string }) => outcome === 'refused')
  expect(summed).toHaveLength(3)
  for (const [subject, reason, count] of [
    [server.userId, 'wrong_password', 2],
    [admin.userId, 'wrong_password', 1],
    [null, 'unknown_user', 1],
  ])
    expect(summed).toContainEqual(expect.objectContaining({ subject, reason, count }))
})

test("users' passwords count even where service accounts sign in", async () => {
  const { admin, server } = await addFleet()
  const network = '192.0.2.14'
  for (const _ of times(12, () => 0)) expect((await signIn(network, server)).status).toBe(200)
  const wrong = { ...admin, password: `not ${PASSWORD}` }
  for (const _ of times(9, () => 0)) await signIn(network, wrong)
  for (const _ of times(21, () => 0)) expect((await signIn(network, admin)).status).toBe(200)
  expectProblem(await signIn(network, admin), [429, 'rate_limited'])
  expect((await signIn(network, server)).status).toBe(200)
})

test("unknown users' passwords also count as anonymous where service accounts sign in", async () => {
  const { server } = await addFleet()
  const network = '192.0.2.88'
  expect((await signIn(network, server)).status).toBe(200)
  // A device cookie may be known, so it is looked up before the limit of attempts.
  const headers = { 'x-forwarded-for': network, cookie: `__Host-device=${'A'.repeat(43)}` }
  const attempts = times(110, (n) =>
    service.login({ ...server, email: `user${n}@spray.example`, password: PASSWORD }, { headers }),
  )
  const policies = (await Promise.all(attempts)).map(
    ({ status, headers }) => `${status} ${headers['ratelimit-policy']}`,
  )
  const countOf = (start: string) => policies.filter((policy) => policy.startsWith(start)).length
  expect(countOf('401')).toBe(30)
  expect(countOf('429 "sign-in-attempts"')).toBe(70)
  expect(countOf('429 "anonymous"')).toBe(10)
})
