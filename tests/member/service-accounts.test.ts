import { beforeEach, expect, test } from 'vitest'
import { expectField, expectProblem } from '../support/problem.ts'
import { openTestService, type Person, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()
let token = ''

beforeEach(async () => {
  token = (await service.loginAs(admin)).accessToken
})

const add = (json: object = {}) =>
  service.call('/auth/members', { token, json: { name: 'Billing Worker', role: 'developer', ...json } })
async function addServer(): Promise<Person> {
  const { body } = await add()
  return { ...admin, userId: body.id, email: body.email, password: body.password }
}

test("a service account's password is shown once (ASVS 6.4.1)", async () => {
  const { status, body } = await add()
  expect(status).toBe(201)
  expect(body).toEqual({
    id: expect.any(String),
    email: expect.stringMatching(/^billing-worker-\d{4}@service\.invalid$/),
    password: expect.stringMatching(/^gsp_[A-Za-z0-9_-]{43}$/),
  })
  const { user } = await service.loginAs({ ...admin, ...body })
  expect(user).toMatchObject({ id: body.id, name: 'Billing Worker', role: 'developer' })
  const { body: shown } = await service.call(`/auth/members/${body.id}`, { method: 'GET', token })
  expect(shown).toMatchObject({ kind: 'service', emailVerified: true })
  expect(JSON.stringify(shown)).not.toContain(body.password)
  expect(service.logs.join('')).not.toContain(body.password)
})

test.for([
  ['Großer Dienst 1', /^gro-er-dienst-1-\d{4}@/],
  ['東京', /^service-\d{4}@/],
  ['x'.repeat(100), /^x{40}-\d{4}@/],
] as const)('a service account named %s gets an email of letters and digits', async ([name, email]) => {
  expect((await add({ name })).body.email).toMatch(email)
})

test('a service account cannot have a cookie, new email, or admin role', async () => {
  const server = await addServer()
  const headers = { 'x-session-mode': 'cookie' }
  const wrong = { ...server, password: `gsp_${'A'.repeat(43)}` }
  expectProblem(await service.login(wrong, { headers }), [401, 'invalid_credentials'])
  const { accessToken } = await service.loginAs(server)
  const own = (path: string, json: object) => service.call(path, { token: accessToken, json })
  for (const answer of [
    await service.login(server, { headers }),
    await own('/auth/email/change', { newEmail: 'else@where.example' }),
    await own('/auth/password/change', { currentPassword: server.password, newPassword: 'a new password' }),
  ])
    expectProblem(answer, [403, 'permission_denied'])
  expectProblem(await add({ role: 'admin' }), [400, 'invalid_request'])
  const promotion = { method: 'PATCH', token, json: { role: 'admin' } }
  expectField(await service.call(`/auth/members/${server.userId}`, promotion), '/role')
})

test('a service account needs no recent authentication', async () => {
  const server = await addServer()
  const { refreshToken } = await service.loginAs(server)
  const other = await service.loginAs(server)
  service.clock.advance(3600)
  const { body } = await service.refresh(refreshToken)
  const ending = { method: 'DELETE', token: body.accessToken }
  expect((await service.call(`/auth/sessions/${other.session.id}`, ending)).status).toBe(204)
})

test("service accounts count toward their company's limits, even concurrently (ASVS 2.4.1)", async () => {
  const small = await openTestService({
    instances: 2,
    env: { MAX_MEMBERS_IN_TRIAL: '4', LIMIT_SERVICE_PASSWORDS: '7/3600', RATE_LIMIT_SCALE: '1' },
  })
  const { accessToken } = await small.loginAs(await small.addCompany())
  const json = { name: 'Worker', role: 'viewer' }
  const addAt = (at: number) => small.call('/auth/members', { token: accessToken, json, at })
  const answers = await Promise.all(times(6, (n) => addAt(n % 2)))
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 409, 409, 409])
  expectProblem(await addAt(0), [409, 'quota_reached'])
  expectProblem(await addAt(1), [429, 'rate_limited'])
})
