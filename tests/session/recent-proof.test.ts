import { expect, test } from 'vitest'
import { forge, openForge } from '../support/forge.ts'
import { expectProblem } from '../support/problem.ts'
import { type Credential, claimsOf, cookieFrom, must } from '../support/second-factors.ts'
import {
  type Answer,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  times,
  useSharedService,
} from '../support/test-service.ts'

/** When and how a user last authenticated, and which requests require that to be recent. */

const { service } = await useSharedService()
const admin = await service.addCompany()

const prove = (credential: Credential, { password = PASSWORD, key = '', at = 0 } = {}) =>
  service.call('/auth/reauthenticate', {
    json: { password },
    at,
    ...credential,
    ...(key !== '' && { headers: { 'idempotency-key': key } }),
  })

/** Requires recent authentication: ends a different session, which does not exist. */
const ask = (credential: Credential, at = 0) =>
  service.call('/auth/sessions/01890a5d-ac96-774b-bcce-b302099a8057', { method: 'DELETE', at, ...credential })

const expectOld = (answer: Answer) => expectProblem(answer, [403, 'reauthentication_required'])
const expectRecent = (answer: Answer) => expectProblem(answer, [404, 'not_found'])

async function staleSession(person: Person = admin) {
  const signedIn = await service.loginAs(person)
  service.clock.advance(16 * 60)
  const { body } = await service.refresh(signedIn.refreshToken)
  return body
}

test('authentication is recent for 15 minutes, despite refreshes (ASVS 7.5.1, 7.5.3; RFC 9068 section 2.2.1)', async () => {
  const first = await service.loginAs(admin)
  expectRecent(await ask({ token: first.accessToken }))
  const before = claimsOf(first.accessToken)
  expect(before).toMatchObject({ amr: ['pwd'], auth_time: Math.floor(service.clock.now() / 1000) })
  service.clock.advance(14 * 60)
  const { body: refreshed } = await service.refresh(first.refreshToken)
  expect(claimsOf(refreshed.accessToken)).toMatchObject({ amr: ['pwd'], auth_time: before['auth_time'] })
  expectRecent(await ask({ token: refreshed.accessToken }))
  service.clock.advance(61)
  expectOld(await ask({ token: refreshed.accessToken }))
  // Ending the current session does not require it.
  const own = { method: 'DELETE', token: refreshed.accessToken }
  expect((await service.call(`/auth/sessions/${first.session.id}`, own)).status).toBe(204)
})

test('regenerating the secret requires recent authentication only of cookie sessions', async () => {
  const cookie = await service.cookieOf(admin)
  const { accessToken: token } = await staleSession()
  expectOld(await service.call('/auth/webhook-secret/regenerate', { cookie }))
  expect((await service.call('/auth/webhook-secret/regenerate', { token })).status).toBe(200)
  const next = cookieFrom(await prove({ cookie }))
  expect((await service.call('/auth/webhook-secret/regenerate', { cookie: next })).status).toBe(200)
})

test('sessions and tokens without auth_time work, but are never recent', async () => {
  const person = await service.addUser(admin, 'admin')
  const { access, accessToken, refreshToken } = await openForge(service, person)
  const { amr: _amr, auth_time: _time, ...claims } = access.claims
  const forged = forge(access, { payload: claims })
  expect((await service.getSession({ token: forged })).status).toBe(200)
  expectOld(await ask({ token: forged }))

  const cookie = await service.cookieOf(person)
  // Sessions opened by releases that did not record it.
  const sessions = service.db.updateTable('sessions').where('user_id', '=', person.userId)
  await sessions.set({ auth_time: null, amr: null }).execute()
  const { body } = await service.refresh(refreshToken, { at: 1 })
  for (const claim of ['amr', 'auth_time']) expect(claimsOf(body.accessToken)).not.toHaveProperty(claim)
  for (const credential of [{ token: accessToken }, { token: body.accessToken }, { cookie }])
    expectOld(await ask(credential))
  const proven = await prove({ token: body.accessToken })
  expectRecent(await ask({ token: proven.body.accessToken }))
})

test('re-authentication by token makes only the new tokens recent (ASVS 7.2.4)', async () => {
  const { accessToken: token, refreshToken } = await staleSession()
  const { status, body, headers } = await prove({ token })
  expect([status, body.tokenType]).toEqual([200, 'Bearer'])
  expect(headers['ratelimit-policy']).toBe('"refresh";q=30000;w=60')
  expect(claimsOf(body.accessToken)).toMatchObject({ auth_time: Math.floor(service.clock.now() / 1000) })
  for (const at of [0, 1]) expectRecent(await ask({ token: body.accessToken }, at))
  // A thief may have copied the previous tokens.
  expectOld(await ask({ token }))
  const { body: next } = await service.refresh(body.refreshToken, { at: 1 })
  expectRecent(await ask({ token: next.accessToken }))
  expect((await service.refresh(refreshToken)).body.code).toBe('refresh_token_reused')
})

test('re-authentication by cookie replaces the cookie (ASVS 7.2.4)', async () => {
  const cookie = await service.cookieOf(admin)
  service.clock.advance(16 * 60)
  expectOld(await ask({ cookie }))
  const answer = await prove({ cookie })
  expect([answer.status, answer.body]).toEqual([204, ''])
  for (const at of [0, 1]) {
    expectRecent(await ask({ cookie: cookieFrom(answer) }, at))
    expectProblem(await service.getSession({ cookie, at }), [401, 'invalid_token'])
  }
  expect(String(answer.headers['set-cookie'])).toMatch(/; Path=\/; HttpOnly; Secure; SameSite=Strict$/)
})

test('a retried re-authentication returns the same tokens', async () => {
  const { accessToken: token, refreshToken } = await staleSession()
  const first = await prove({ token }, { key: 'proof' })
  service.clock.advance(20)
  const again = await prove({ token }, { key: 'proof', at: 1 })
  expect(again.body.refreshToken).toBe(first.body.refreshToken)
  // A program that refreshed before its re-authentication has the same key.
  const refreshed = await service.refresh(refreshToken, { key: 'proof' })
  expect(refreshed.body.refreshToken).toBe(first.body.refreshToken)
  expect((await service.refresh(again.body.refreshToken)).status).toBe(200)
})

test('only one concurrent re-authentication replaces a cookie', async () => {
  const cookie = await service.cookieOf(await service.addUser(admin))
  const answers = await Promise.all(times(6, (n) => prove({ cookie }, { at: n % 2 })))
  const [winner, ...others] = answers.toSorted((one, other) => one.status - other.status)
  expect([winner?.status, ...others.map(({ status }) => status)]).toEqual([204, ...times(5, () => 401)])
  expect((await service.getSession({ cookie: winner ? cookieFrom(winner) : '' })).status).toBe(200)
})

test('a session that ends during re-authentication stays ended', async () => {
  const hasher = await createCountingHasher()
  const service = await openTestService({ hasher })
  const admin = await service.addCompany()
  const cookie = await service.cookieOf(admin)
  const { accessToken: token } = await service.loginAs(admin)
  for (const credential of [{ cookie }, { token }]) {
    hasher.beforeVerifying = async () => void (await must(service.call('/auth/logout', credential)))
    const json = { password: PASSWORD }
    const answer = await service.call('/auth/reauthenticate', { json, ...credential })
    expect([answer.status, answer.body.code]).toEqual([401, 'session_ended'])
    expect(answer.headers['set-cookie']).toBeUndefined()
  }
})

test("a refresh's idempotency key does not re-authenticate", async () => {
  const stale = await staleSession()
  const { body } = await service.refresh(stale.refreshToken, { key: 'one-key' })
  const answer = await prove({ token: body.accessToken }, { key: 'one-key' })
  expectProblem(answer, [409, 'idempotency_conflict'])
  expectOld(await ask({ token: body.accessToken }))
  expect((await prove({ token: body.accessToken }, { key: 'another-key' })).status).toBe(200)
})

test('re-authentication attempts are limited per session (ASVS 2.4.1, 6.1.1, 6.3.1)', async () => {
  const env = { LIMIT_REAUTHENTICATIONS: '2/60', RATE_LIMIT_SCALE: '1' }
  const strict = await openTestService({ instances: 2, env })
  const admin = await strict.addCompany()
  const [thief, owner] = [await strict.loginAs(admin), await strict.loginAs(admin)]
  const prove = ({ accessToken: token }: { accessToken: string }, json: object, at = 0) =>
    strict.call('/auth/reauthenticate', { token, json, at })
  const answers = await Promise.all(times(6, (n) => prove(thief, { password: 'a guess' }, n % 2)))
  expect(answers.map(({ status }) => status).sort()).toEqual([400, 400, 429, 429, 429, 429])
  expect((await prove(owner, { password: PASSWORD })).status).toBe(200)
})
