import { expect, inject, test } from 'vitest'
import { changeSubscription, companySecurity } from '../../src/operator/companies.ts'
import { changeUserRole } from '../../src/operator/users.ts'
import { decode, forge, openForge, partsOf } from '../support/forge.ts'
import { addClient, basic, FORM, introspect } from '../support/platform.ts'
import { cutOff } from '../support/postgres.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { openTestService, useSharedService } from '../support/test-service.ts'

/** Introspection (RFC 7662) of access tokens and session cookies. */

const { service } = await useSharedService()
const client = await addClient(service)
const admin = await service.addCompany()
const seconds = () => Math.floor(service.clock.now() / 1000)
const INACTIVE = { status: 200, body: { active: false } }

const ask = async (token: string, at = 0) => {
  const { status, body, headers } = await introspect(service, client, token, at)
  expect(headers['cache-control']).toBe('no-store')
  return { status, body }
}

const post = (body: string | Buffer, headers: Record<string, string> = FORM, query = '') =>
  service.ask(`/introspect${query}`, { headers: { ...headers, authorization: basic(client) }, body })

test('an access token is described with the current rights of its user (ASVS 8.3.2, 8.3.3, 10.3.2, 10.3.3)', async () => {
  const { companyId } = await service.addCompany()
  const member = await service.addUser({ companyId }, 'viewer')
  const { accessToken, session } = await service.loginAs(member)
  const { iat, exp, iss } = decode(partsOf(accessToken)[1])
  const claims = { iss, aud: 'gatehouse', sub: member.userId, exp, iat, auth_time: seconds(), amr: ['pwd'] }
  const rights = { role: 'viewer', scope: 'risk:read analytics:read' }
  const plan_features = ['risk_assessment', 'event_ingest', 'reviews', 'analytics']
  const subscription = { subscription_status: 'trialing', plan: 'growth', plan_features }
  const described = { active: true, token_type: 'Bearer', ...claims, sid: session.id, company_id: companyId }
  const expected = { ...described, ...rights, ...subscription }
  for (const at of [0, 1]) expect(await ask(accessToken, at)).toEqual({ status: 200, body: expected })
  await changeUserRole(service.context, companyId, member, 'developer')
  await changeSubscription(service.context, companyId, { status: 'past_due', plan: 'enterprise' })
  const more = { role: 'developer', scope: 'risk:read risk:assess analytics:read events:inspect' }
  const plan = { plan: 'enterprise', plan_features: expect.arrayContaining(['graph']) }
  const changed = { ...described, ...more, ...plan, subscription_status: 'past_due' }
  expect((await ask(accessToken, 1)).body).toEqual(changed)
})

test('a cookie is described with the earlier of its two expiry times', async () => {
  const opened = seconds()
  const { cookieIdleSeconds: idle, cookieMaxAgeSeconds: longest } = service.config
  const cookie = await service.cookieOf(admin)
  const issued = { iss: `${service.config.publicUrl}/api`, aud: 'gatehouse', iat: opened, exp: opened + idle }
  const claims = { ...issued, sub: admin.userId, auth_time: opened, amr: ['pwd'] }
  expect((await ask(cookie)).body).toMatchObject({ active: true, token_type: 'session_cookie', ...claims })
  while (seconds() + idle < opened + longest) {
    service.clock.advance(idle - 1)
    expect((await service.getSession({ cookie })).status).toBe(200)
  }
  expect((await ask(cookie, 1)).body).toMatchObject({ iat: opened, exp: opened + longest })
})

test('introspection does not renew a cookie (ASVS 7.3.1)', async () => {
  const cookie = await service.cookieOf(admin)
  const exp = seconds() + service.config.cookieIdleSeconds
  service.clock.advance(3600)
  for (const _ of [1, 2]) expect((await ask(cookie)).body.exp).toBe(exp)
  service.clock.advance(service.config.cookieIdleSeconds - 3600)
  expect(await ask(cookie)).toEqual(INACTIVE)
})

test('auth_time is the older value of token and session, or absent (ASVS 10.3.4)', async () => {
  const { access, accessToken, sessionId } = await openForge(service, admin)
  const proven = access.claims['auth_time'] as number
  const bodyWith = async (claims: object) =>
    (await ask(forge(access, { payload: { ...access.claims, ...claims } }))).body
  expect((await bodyWith({ auth_time: proven - 100 })).auth_time).toBe(proven - 100)
  expect((await bodyWith({ auth_time: proven + 100 })).auth_time).toBe(proven)
  // Older tokens and sessions can lack it.
  expect(await bodyWith({ auth_time: undefined })).not.toHaveProperty('auth_time')
  const change = service.db.updateTable('sessions').set({ auth_time: null, amr: null })
  await change.where('session_id', '=', sessionId).execute()
  const { body } = await ask(accessToken)
  expect([body.active, 'auth_time' in body, 'amr' in body]).toEqual([true, false, false])
})

test('introspect, verify, and the session check share one statement', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const lookUps = () => service.metric('gatehouse_batch_size_sum{batch="sessions"}')
  await service.getSession({ token })
  const before = await lookUps()
  await ask(token)
  await service.ask('/verify', { method: 'GET', token })
  await service.getSession({ token })
  expect(await lookUps()).toBe(before + 3)
})

test('an invalid or expired credential is inactive, without a reason', async () => {
  const { accessToken, refreshToken } = await service.loginAs(admin)
  const [header, payload, signature] = partsOf(accessToken)
  const strange = ['', '..', '...', 'A'.repeat(43), '.'.repeat(60_000), 'é\u0000\ud800']
  const altered = [`${payload}.${signature}A`, `${'A'.repeat(60_000)}.${signature}`]
  const cookie = await service.cookieOf(admin)
  const misplaced = [refreshToken, `${accessToken} `, `Bearer ${accessToken}`, `__Host-session=${cookie}`]
  const others = [...altered.map((rest) => `${header}.${rest}`), ...misplaced, client.secret]
  for (const token of [...strange, ...others]) expect([token, await ask(token)]).toEqual([token, INACTIVE])
  // Encodings that no form has.
  for (const body of ['token=%zz', 'token=%ff', Buffer.from('token=\xff', 'latin1')])
    expect(await post(body)).toMatchObject(INACTIVE)
  service.clock.advance(900)
  expect(await ask(accessToken)).toEqual(INACTIVE)
})

test('a session that must enroll a second factor is inactive (ASVS 6.3.3)', async () => {
  const person = await service.addCompany()
  const [token, cookie] = [(await service.loginAs(person)).accessToken, await service.cookieOf(person)]
  const answers = () => Promise.all([ask(token), ask(cookie, 1)])
  const active = { body: { active: true } }
  expect(await answers()).toMatchObject([active, active])
  await companySecurity(service.context, person.companyId, { secondFactor: 'admins' })
  expect(await answers()).toEqual([INACTIVE, INACTIVE])
  await companySecurity(service.context, person.companyId, { secondFactor: 'optional' })
  expect(await answers()).toMatchObject([active, active])
})

test('introspection reads one token from a form, and ignores other parameters', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const form = new URLSearchParams({ token_type_hint: 'refresh_token', token, x: '1' })
  form.append('x', '2')
  const answer = await post(String(form))
  expect([answer.status, answer.body.sub]).toEqual([200, admin.userId])
  const encoded = [...token].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join('')
  const charset = { 'content-type': 'Application/X-WWW-Form-URLEncoded; charset="UTF-8"' }
  expect((await post(`tok%65n=${encoded}`, charset)).body.sub).toBe(admin.userId)
  for (const body of ['Token=x', 'token=x&token=x', 'token=x&tok%65n='])
    expectField(await post(body), '/token')
  for (const headers of [FORM, {}]) expectProblem(await post('', headers), [400, 'invalid_request'])
})

test('introspection refuses other content types, queries, and large bodies', async () => {
  for (const type of ['application/json', 'application/x-www-form-urlencoded; charset=utf-16'])
    expectProblem(await post('token=x', { 'content-type': type }), [415, 'unsupported_media_type'])
  expectProblem(await post(`token=${'A'.repeat(64 * 1024)}`), [413, 'payload_too_large'])
  expectProblem(await post('token=x', FORM, '?token=x'), [400, 'invalid_request'])
})

test('a refusal includes an OAuth error, and an outage never means inactive', async () => {
  const away = await openTestService()
  const [asking, reader] = [await addClient(away), await addClient(away, ['events:read'])]
  const person = await away.addCompany()
  const [token, cookie] = [(await away.loginAs(person)).accessToken, await away.cookieOf(person)]
  expect((await introspect(away, asking, token)).body.active).toBe(true)
  const post = async (authorization: string, body = 'token=x', headers: object = FORM) => {
    const answer = await away.ask('/introspect', { headers: { ...headers, authorization }, body })
    return [answer.status, answer.body.code, answer.body.error]
  }
  expect(await post('Basic x')).toEqual([401, 'invalid_client', 'invalid_client'])
  expect(await post(basic(reader))).toEqual([403, 'permission_denied', 'unauthorized_client'])
  expect(await post(basic(asking), '')).toEqual([400, 'invalid_request', 'invalid_request'])
  expect(await post(basic(asking), '-', {})).toEqual([415, 'unsupported_media_type', 'invalid_request'])
  await cutOff(inject('serverUrl'), new URL(away.url).pathname.slice(1))
  // The session's statement fails first. A second later, the client's statement fails.
  const unavailable = [503, 'unavailable', 'temporarily_unavailable']
  for (const credential of [token, cookie])
    expect(await post(basic(asking), `token=${credential}`)).toEqual(unavailable)
  away.clock.advance(1)
  expect(await post(basic(asking), `token=${token}`)).toEqual(unavailable)
})
