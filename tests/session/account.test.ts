import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { listAudit } from '../support/audit.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import type { Credential } from '../support/second-factors.ts'
import {
  createClock,
  createCountingHasher,
  NEW_PASSWORD,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'
import { auditOfSession, copySession, ended } from './state.ts'

const hasher = await createCountingHasher()
const service = await openTestService({ instances: 2, hasher })
const COMPANY = 'Ticket counters of the north'
const { context } = service
const admin = await service.addCompany({ name: COMPANY })

const listAs = async (credential: Credential, at = 0) =>
  (await service.call('/auth/sessions', { method: 'GET', at, ...credential })).body.sessions
const end = (id: string, credential: Credential, options = {}) =>
  service.call(`/auth/sessions/${id}`, { method: 'DELETE', ...credential, ...options })

test('the session list shows active sessions of both kinds, last used first (ASVS 7.5.2)', async () => {
  const person = await service.addUser(admin)
  // One session will have expired, one has ended, and one belongs to a colleague.
  await service.cookieOf(person)
  service.clock.advance(12 * 3600 + 1)
  const gone = await service.loginAs(person)
  await service.call('/auth/logout', { token: gone.accessToken })
  await service.loginAs(await service.addUser(admin))

  const now = () => new Date(service.clock.now()).toISOString()
  const { refreshToken, session } = await service.loginAs(person, { headers: { 'user-agent': 'curl/8.0' } })
  const { id, createdAt } = session
  service.clock.advance(100)
  const cookie = await service.cookieOf(person)
  const opened = { createdAt: now(), lastSeenAt: now(), ipAddress: '127.0.0.1' }
  service.clock.advance(100)
  const { body: refreshed } = await service.refresh(refreshToken)
  expect(await listAs({ token: refreshed.accessToken }, 1)).toEqual([
    { ...opened, id, kind: 'token', createdAt, lastSeenAt: now(), userAgent: 'curl/8.0', current: true },
    { ...opened, id: expect.any(String), kind: 'cookie', userAgent: null, current: false },
  ])
  service.clock.advance(1)
  const byCookie = await listAs({ cookie })
  expect(byCookie.map(({ kind, current }: Record<string, unknown>) => [kind, current])).toEqual([
    ['cookie', true],
    ['token', false],
  ])
})

test('the session list has at most 1,000 sessions', async () => {
  const { accessToken: token, session } = await service.loginAs(await service.addUser(admin))
  await copySession(service, session.id, { count: 1_100 })
  expect(await listAs({ token })).toHaveLength(1_000)
})

test('a session ended from the list ends on every instance (ASVS 7.5.2, 10.4.9)', async () => {
  const person = await service.addUser(admin)
  const [mine, other] = [await service.loginAs(person), await service.loginAs(person)]
  const cookie = await service.cookieOf(person)
  expect((await end(other.session.id, { token: mine.accessToken })).status).toBe(204)
  const endedByUser = ended('ended_by_user')
  expect(await service.getSession({ token: other.accessToken, at: 1 })).toMatchObject(endedByUser)
  expect(await service.refresh(other.refreshToken, { at: 1 })).toMatchObject(endedByUser)
  for (const credential of [{ token: mine.accessToken }, { cookie }])
    expect((await service.getSession({ ...credential, at: 1 })).status).toBe(200)
  expect(await auditOfSession(service, other.session.id)).toEqual([
    { action: 'session_end', outcome: 'done', actor: person.userId, ip_address: '127.0.0.1' },
  ])
})

test('ending the current session expires the cookie', async () => {
  const person = await service.addUser(admin)
  const cookie = await service.cookieOf(person)
  const [own] = await listAs({ cookie })
  const answer = await end(own.id.toUpperCase(), { cookie })
  expect(answer.status).toBe(204)
  expect(answer.headers['set-cookie']).toMatch(/^__Host-session=;.*Secure/)
  expect((await service.getSession({ cookie })).status).toBe(401)
})

test("other people's sessions look like missing ones (ASVS 8.2.2)", async () => {
  const person = await service.addUser(admin)
  const { accessToken } = await service.loginAs(person)
  const gone = await service.loginAs(person)
  await end(gone.session.id, { token: accessToken })
  const others = [
    (await service.loginAs(await service.addUser(admin))).session.id,
    (await service.loginAs(admin)).session.id,
    (await service.loginAs(await service.addCompany())).session.id,
    gone.session.id,
    randomUUID(),
  ]
  const rows = () => service.db.selectFrom('sessions').selectAll().orderBy('session_id').execute()
  const before = await rows()
  const answers = []
  for (const id of others) answers.push(await end(id, { token: accessToken }))
  for (const answer of answers) {
    expectProblem(answer, [404, 'not_found'])
    expect({ ...answer.body, requestId: '' }).toEqual({ ...answers[0]?.body, requestId: '' })
  }
  expect(await rows()).toEqual(before)
  for (const id of ['x', `urn:uuid:${randomUUID()}`, '%00'])
    expect((await end(id, { token: accessToken })).status).toBe(400)
})

test('a session ends even if one clock is a minute ahead', async () => {
  const [slow, fast] = [createClock(), createClock()]
  const apart = await openTestService({ instances: 2, clocks: [slow, fast] })
  const person = await apart.addCompany()
  const cookie = await apart.cookieOf(person)
  const { sessions } = (await apart.call('/auth/sessions', { method: 'GET', cookie })).body
  fast.advance(12 * 3600 + 30)
  slow.advance(12 * 3600 - 30)
  const { accessToken } = await apart.loginAs(person, { at: 1 })
  const ending = { method: 'DELETE', token: accessToken, at: 1 }
  expect((await apart.call(`/auth/sessions/${sessions[0].id}`, ending)).status).toBe(204)
  expect((await apart.getSession({ cookie })).status).toBe(401)
})

test('only one of fifty concurrent requests ends a session', async () => {
  const person = await service.addUser(admin)
  const [mine, other] = [await service.loginAs(person), await service.loginAs(person)]
  const answers = await Promise.all(
    times(50, (index) => end(other.session.id, { token: mine.accessToken }, { at: index % 2 })),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([204, ...times(49, () => 404)])
})

const change = (credential: Credential, json: object, options = {}) =>
  service.call('/auth/password/change', { json, ...credential, ...options })
const json = { currentPassword: PASSWORD, newPassword: NEW_PASSWORD }

test("changing the password ends the user's other sessions (ASVS 6.2.2, 7.4.3)", async () => {
  const person = await service.addUser(admin)
  const [mine, other] = [await service.loginAs(person), await service.loginAs(person)]
  const cookie = await service.cookieOf(person)
  const colleague = await service.loginAs(admin)
  expect((await change({ token: mine.accessToken }, json)).status).toBe(204)
  for (const credential of [{ token: other.accessToken }, { cookie }])
    expect(await service.getSession({ ...credential, at: 1 })).toMatchObject(ended('password_changed'))
  expect(await service.refresh(other.refreshToken, { at: 1 })).toMatchObject(ended('password_changed'))
  expect((await service.refresh(mine.refreshToken, { at: 1 })).status).toBe(200)
  expect((await service.getSession({ token: colleague.accessToken })).status).toBe(200)
  expect((await service.login(person)).status).toBe(401)
  expect((await service.login({ ...person, password: json.newPassword })).status).toBe(200)
})

test.for<[what: string, change: (person: Person) => object, path: string, verified: number]>([
  ['a wrong current password', () => ({ currentPassword: 'not it at all' }), '/currentPassword', 1],
  ['a current password too long', () => ({ currentPassword: 'x'.repeat(1_000) }), '/currentPassword', 0],
  ['the same password', () => ({ newPassword: PASSWORD }), '/newPassword', 0],
  ['a new one too short', () => ({ newPassword: 'short' }), '/newPassword', 0],
  ['the email address', ({ email }) => ({ newPassword: email }), '/newPassword', 0],
  ['the company name', () => ({ newPassword: COMPANY }), '/newPassword', 0],
])('a password change with %s is refused (ASVS 6.2.1, 6.2.3, 6.2.4, 6.2.11)', async (row) => {
  const [, changeOf, path, verified] = row
  const person = await service.addUser(admin)
  const { accessToken: token } = await service.loginAs(person)
  hasher.verified = 0
  expectField(await change({ token }, { ...json, ...changeOf(person) }), path)
  expect(hasher.verified).toBe(verified)
  expect((await service.login(person)).status).toBe(200)
  const audit = await listAudit(service.db, 'password_change', person)
  expect(audit.map(({ outcome }) => outcome)).toEqual(times(verified, () => 'refused'))
})

test('only one of two concurrent password changes succeeds', async () => {
  const person = await service.addUser(admin)
  const sessions = [await service.loginAs(person), await service.loginAs(person)]
  // The winner's change ends the other session, so its request must be admitted earlier.
  const bothVerify = Promise.withResolvers<void>()
  let verifying = 0
  hasher.beforeVerifying = async () => {
    verifying += 1
    if (verifying === sessions.length) bothVerify.resolve()
    await bothVerify.promise
  }
  onTestFinished(() => {
    hasher.beforeVerifying = undefined
  })
  const answers = await Promise.all(
    sessions.map(({ accessToken }, at) =>
      change({ token: accessToken }, { ...json, newPassword: `password of number ${at}` }, { at }),
    ),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 400])
  for (const [at, { status }] of answers.entries()) {
    const password = `password of number ${at}`
    expect((await service.login({ ...person, password })).status).toBe(status === 204 ? 200 : 401)
  }
})

test.for<[what: string, happen: (person: Person, token: string) => Promise<unknown>]>([
  ['the session is ended', (_, token) => service.call('/auth/logout', { token, at: 1 })],
  ['the user is disabled', (person) => changeUserStatus(context, person.companyId, person, 'disabled')],
  ['the company is suspended', ({ companyId }) => changeCompanyStatus(context, companyId, 'suspended')],
])('a password change fails if %s during the check (ASVS 7.4.2, 8.3.2)', async ([, happen]) => {
  const person = await service.addUser(await service.addCompany())
  const { accessToken: token } = await service.loginAs(person)
  const hash = () =>
    service.db.selectFrom('users').select('password_hash').where('user_id', '=', person.userId).execute()
  const before = await hash()
  hasher.beforeVerifying = async () => {
    hasher.beforeVerifying = undefined
    await happen(person, token)
  }
  expect((await change({ token }, json)).status).toBeOneOf([400, 401])
  expect(await hash()).toEqual(before)
})

test('wrong current passwords are limited, and count as failed sign-ins (ASVS 2.4.1, 6.1.1, 6.3.1)', async () => {
  const own = await openTestService({
    instances: 2,
    env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '1000/60', LIMIT_PASSWORD_CHANGES: '20/60' },
  })
  const person = await own.addCompany()
  const { accessToken: token } = await own.loginAs(person)
  const wrong = { ...json, currentPassword: 'not it' }
  const guess = (at: number) => own.call('/auth/password/change', { token, json: wrong, at })
  for (let count = 0; count < 4; count += 1)
    expect((await own.login({ ...person, password: 'not it' })).status).toBe(401)
  const answers = await Promise.all(times(20, (index) => guess(index % 2)))
  const statuses = answers.map(({ status }) => status).toSorted()
  expect(statuses).toEqual([...times(6, () => 400), ...times(14, () => 429)])
  expect((await own.login(person)).status).toBe(429)
  expect((await guess(0)).headers['ratelimit-policy']).toBe('"password-changes";q=20;w=60')
  own.clock.advance(901)
  const again = await own.loginAs(person)
  const request = { token: again.accessToken, json }
  expect((await own.call('/auth/password/change', request)).status).toBe(204)
})
