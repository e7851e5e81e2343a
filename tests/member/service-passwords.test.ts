import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import { listAudit } from '../support/audit.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { must } from '../support/second-factors.ts'
import { type Answer, PASSWORD, type Person, times, useSharedService } from '../support/test-service.ts'

/** A service account can have two passwords at a time. Each one's sessions end with it. */

const { service } = await useSharedService()
const admin = await service.addCompany()
const { companyId } = admin
let token = ''

beforeEach(async () => {
  token = (await service.loginAs(admin)).accessToken
})

async function addServer(): Promise<Person> {
  const json = { name: 'Billing Worker', role: 'developer' }
  const { id: userId, email, password } = await must(service.call('/auth/members', { token, json }))
  return { companyId, userId, email, password }
}
const replace = (server: Person, json?: object, at = 0) =>
  service.call(`/auth/members/${server.userId}/password`, { token, at, ...(json && { json }) })
/** Replaces the password, and returns the account with the new one. */
async function withNext(server: Person, previousValidSeconds?: number): Promise<Person> {
  const { password } = await must(replace(server, { previousValidSeconds }))
  return { ...server, password }
}
const auditOf = async (server: Person) =>
  (await listAudit(service.db, 'service_password', server)).map(({ details }) => details)
const passwordsOf = async (server: Person) =>
  (await service.call(`/auth/members/${server.userId}`, { method: 'GET', token })).body.passwords
const tokenOf = async (server: Person) => (await service.loginAs(server)).accessToken
const RESET = [401, 'password_reset']
const endOf = ({ status, body }: Answer) => [status, body.reason]
const readEnd = async (credential: string) => endOf(await service.getSession({ token: credential, at: 1 }))
const statusOf = async (credential: string) => (await service.getSession({ token: credential, at: 1 })).status
const canSignIn = async (server: Person) => (await service.login(server, { at: 1 })).status === 200
/** Moves the previous password's end, because it counts by the database's clock. */
async function letPreviousExpire({ userId }: Person) {
  const user = service.db.updateTable('users').where('user_id', '=', userId)
  await user.set({ former_password_until: sql`clock_timestamp() - interval '1 millisecond'` }).execute()
}
/** A service account as earlier releases created it. */
async function addOlder(): Promise<Person> {
  const server = await addServer()
  await service.db.deleteFrom('service_passwords').where('user_id', '=', server.userId).execute()
  const user = service.db.updateTable('users').where('user_id', '=', server.userId)
  await user.set({ password_hash: await service.context.hasher.hash(PASSWORD), password_epoch: 0 }).execute()
  return { ...server, password: PASSWORD }
}

test('a service password is listed by its last characters and last use (ASVS 6.4.1)', async () => {
  const server = await addServer()
  const now = new Date(service.clock.now()).toISOString()
  const listed = { hint: server.password.slice(-4), createdAt: now, lastUsedAt: null, expiresAt: null }
  expect(await passwordsOf(server)).toEqual([listed])
  await service.loginAs(server)
  // Rounded down to the hour.
  expect(await passwordsOf(server)).toEqual([{ ...listed, lastUsedAt: `${now.slice(0, 13)}:00:00.000Z` }])
  const person = await service.call(`/auth/members?search=${admin.email}`, { method: 'GET', token })
  expect(person.body.members).toHaveLength(1)
  expect(person.body.members[0]).not.toHaveProperty('passwords')
})

test('a replaced password no longer works by default, and its sessions end', async () => {
  const server = await addServer()
  const opened = await tokenOf(server)
  const { body } = await replace(server)
  expect(body).toEqual({ password: expect.stringMatching(/^gsp_/), previousExpiresAt: null })
  expect(await readEnd(opened)).toEqual(RESET)
  const next = { ...server, password: body.password }
  expect(await Promise.all([server, next].map(canSignIn))).toEqual([false, true])
  expect(await auditOf(server)).toEqual([null])
  // Users choose their own passwords.
  expectProblem(await replace(await service.addUser(admin)), [404, 'not_found'])
  for (const previousValidSeconds of [-1, 604_801, 1.5])
    expectField(await replace(server, { previousValidSeconds }), '/previousValidSeconds')
})

test('a replaced password and its sessions stay valid for the requested time', async () => {
  const server = await addServer()
  const before = await service.loginAs(server)
  const { password, previousExpiresAt } = await must(replace(server, { previousValidSeconds: 3600 }))
  const next = { ...server, password }
  expect(await auditOf(server)).toEqual([{ previousExpiresAt }])
  expect(service.logs.join('')).not.toContain(password)
  const { rows } = await sql<{ seconds: number }>`
    select extract(epoch from ${previousExpiresAt}::timestamptz - clock_timestamp())::float
      as seconds`.execute(service.db)
  expect(rows[0]?.seconds).toBeLessThanOrEqual(3600)
  expect(rows[0]?.seconds).toBeGreaterThan(0)
  // The time counts by the database's clock, not by the service's.
  service.clock.advance(7200)
  token = (await service.loginAs(admin)).accessToken
  const [later, ofNext] = [await tokenOf(server), await tokenOf(next)]
  const refreshed = await must(service.refresh(before.refreshToken))
  for (const one of [refreshed.accessToken, later, ofNext]) expect(await statusOf(one)).toBe(200)
  expect(await passwordsOf(server)).toMatchObject([
    { hint: password.slice(-4), expiresAt: null },
    { hint: server.password.slice(-4), expiresAt: previousExpiresAt },
  ])

  await letPreviousExpire(server)
  for (const one of [refreshed.accessToken, later]) expect(await readEnd(one)).toEqual(RESET)
  expect(endOf(await service.refresh(refreshed.refreshToken))).toEqual(RESET)
  expect(endOf(await service.call('/auth/logout', { token: later }))).toEqual(RESET)
  expect(await canSignIn(server)).toBe(false)
  expect(await statusOf(ofNext)).toBe(200)
  expect(await passwordsOf(server)).toHaveLength(1)
  const { body } = await service.call('/auth/sessions', { method: 'GET', token: ofNext })
  expect(body.sessions).toHaveLength(1)
})

test('a third password invalidates the first one and its sessions', async () => {
  const first = await addServer()
  const opened = await tokenOf(first)
  const second = await withNext(first, 3600)
  const ofSecond = await tokenOf(second)
  const third = await withNext(second, 3600)
  expect(await Promise.all([first, second, third].map(canSignIn))).toEqual([false, true, true])
  expect([await statusOf(opened), await statusOf(ofSecond)]).toEqual([401, 200])
  expect(await passwordsOf(first)).toHaveLength(2)
  // A replacement that does not keep the previous password invalidates both.
  const fourth = await withNext(third)
  expect(await Promise.all([second, third, fourth].map(canSignIn))).toEqual([false, false, true])
  expect(await statusOf(ofSecond)).toBe(401)
  expect(await passwordsOf(first)).toHaveLength(1)
})

test('concurrent replacements on two instances leave two passwords', async () => {
  const server = await addServer()
  const answers = await Promise.all(times(6, (n) => replace(server, { previousValidSeconds: 3600 }, n % 2)))
  expect(answers.map(({ status }) => status)).toEqual(times(6, () => 200))
  const all = [server, ...answers.map(({ body }) => ({ ...server, password: body.password }))]
  const working = (await Promise.all(all.map(canSignIn))).filter((isWorking) => isWorking)
  expect(working).toHaveLength(2)
  expect(await passwordsOf(server)).toHaveLength(2)
})

test('a replacement ends the session of a concurrent old-password sign-in (ASVS 15.4.2)', async () => {
  for (const _ of times(5, () => 0)) {
    const server = await addServer()
    const [, ...signIns] = await Promise.all([
      replace(server, undefined, 1),
      ...times(4, (n) => service.login(server, { at: n % 2 })),
    ])
    for (const { status, body } of signIns) {
      if (status !== 200) expect(status).toBe(401)
      else expect(await statusOf(body.accessToken)).toBe(401)
    }
  }
})

test('a third password ends the session of a concurrent first-password refresh', async () => {
  for (const _ of times(5, () => 0)) {
    const server = await addServer()
    const { refreshToken } = await service.loginAs(server)
    const next = await withNext(server, 3600)
    const [, refreshed] = await Promise.all([
      replace(next, { previousValidSeconds: 3600 }, 1),
      service.refresh(refreshToken),
    ])
    if (refreshed.status === 200) expect(await statusOf(refreshed.body.accessToken)).toBe(401)
    else expect(endOf(refreshed)).toEqual(RESET)
  }
})

test.for([
  ['is replaced', undefined],
  ['expires', 3600],
] as const)('a password from an earlier release works until it %s', async ([, seconds]) => {
  const server = await addOlder()
  const opened = await tokenOf(server)
  const former = { hint: null, createdAt: null, lastUsedAt: expect.any(String), expiresAt: null }
  expect(await passwordsOf(server)).toEqual([former])
  const next = await withNext(server, seconds)
  if (seconds !== undefined) {
    expect([await canSignIn(server), await statusOf(opened)]).toEqual([true, 200])
    const current = { hint: next.password.slice(-4), expiresAt: null }
    const expiring = { ...former, expiresAt: expect.any(String) }
    expect(await passwordsOf(server)).toMatchObject([current, expiring])
    await letPreviousExpire(server)
  }
  expect([await canSignIn(server), await statusOf(opened)]).toEqual([false, 401])
  const third = await withNext(next, 3600)
  expect(await Promise.all([server, next, third].map(canSignIn))).toEqual([false, true, true])
})

test.for([
  ['disabled', { method: 'PATCH', json: { status: 'disabled' } }],
  ['deleted', { method: 'DELETE' }],
] as const)("a %s service account's password no longer works", async ([what, change]) => {
  const server = await addServer()
  const opened = await tokenOf(server)
  const { status } = await service.call(`/auth/members/${server.userId}`, { token, ...change })
  expect(status).toBeLessThan(300)
  expect([await canSignIn(server), await statusOf(opened)]).toEqual([false, 401])
  const stored = service.db.selectFrom('service_passwords').select('hint')
  const left = await stored.where('user_id', '=', server.userId).execute()
  expect(left).toHaveLength(what === 'deleted' ? 0 : 1)
})

test('a sign-in does not reveal the kind of account (ASVS 6.3.8)', async () => {
  const server = await addServer()
  const person = await service.addUser(admin)
  const nobody = { ...person, email: 'nobody@company.example' }
  const nowhere = { ...server, companyId: server.userId }
  const disabled = await addServer()
  const disabling = { method: 'PATCH', token, json: { status: 'disabled' } }
  await service.call(`/auth/members/${disabled.userId}`, disabling)
  const form = `gsp_${'A'.repeat(43)}`
  const cases = [
    disabled,
    ...[server, person, nobody, nowhere].map((one) => ({ ...one, password: form })),
    // Also passwords in the form of users' passwords.
    ...[server, nobody].map((one) => ({ ...one, password: PASSWORD })),
  ]
  const answers = await Promise.all(cases.map((one) => service.login(one)))
  const bytes = answers.map(({ status, body }) =>
    JSON.stringify([status, { ...body, requestId: '' }, Object.keys(body)]),
  )
  expect(new Set(bytes).size).toBe(1)
  expect(answers[0]?.status).toBe(401)
  const namesOf = ({ headers }: Answer) => Object.keys(headers).sort().join()
  expect(new Set(answers.slice(0, 5).map(namesOf)).size).toBe(1)
})
