import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { expectProblem } from '../support/problem.ts'
import { exchange } from '../support/raw.ts'
import { type Answer, openTestService } from '../support/test-service.ts'

const service = await openTestService()
const [address = ''] = service.addresses
const admin = await service.addCompany()
const secret = await service.newSecret(admin)
const { accessToken: token, refreshToken } = await service.loginAs(admin)
const { companyId, email, password } = admin
const login = { companyId, email, password }

type Send = (body: string | Buffer, headers?: Record<string, string>) => Promise<Answer>

const unsupported = [415, 'unsupported_media_type'] as const

const JSON_TYPE = { 'content-type': 'application/json' }
const sender =
  (path: string, token?: string): Send =>
  (body, headers = JSON_TYPE) =>
    service.call(path, { body, token, headers })

const sendEvents: Send = (body, headers = {}) => service.send(companyId, secret, String(body), { headers })
const logIn = sender('/auth/login')
const logOut = sender('/auth/logout', token)
const regenerate = sender('/auth/webhook-secret/regenerate', token)
const changeAccount: Send = (body) =>
  service.call('/auth/account', { method: 'PATCH', body, token, headers: JSON_TYPE })
const get = (path: string) => service.call(path, { method: 'GET', token })

/** Routes with their own body, with an optional one, and without one. */
const routes = [sendEvents, logIn, regenerate, logOut, sender('/auth/refresh', refreshToken)]
for (const path of ['/auth/webhook-secret/status', '/auth/password/change']) routes.push(sender(path, token))
for (const path of ['register', 'verify-email', 'verify-email/resend', 'password/forgot', 'password/reset'])
  routes.push(sender(`/auth/${path}`))
for (const path of ['preview', 'accept']) routes.push(sender(`/auth/invitations/${path}`))

test('every route reads bodies strictly, with exact numbers (ASVS 1.4.2)', async () => {
  const message = expect.stringContaining('64-bit float')
  for (const send of routes) {
    expectProblem(await send('{"a":1,"a":1}'), [400, 'malformed_body'])
    expectProblem(await send('[{}]'), [400, 'invalid_request'])
    expectProblem(await send('{}', { 'content-type': 'text/plain' }), unsupported)
    const { body } = await send('{"a":[{"b/c":9007199254740993}]}')
    expect(body.errors).toEqual([{ path: '/a/0/b~1c', message }])
  }
  for (const send of [logIn, sendEvents, regenerate])
    for (const body of ['"text"', '[]', 'null']) expectProblem(await send(body), [400, 'invalid_request'])
})

test('event data keeps every digit of numbers within the range of doubles', async () => {
  const event = (amount: string) => `{"id":"amount","type":"a","data":{"amounts":[${amount}]}}`
  const message = expect.stringMatching(/range of a 64-bit float .* 400 characters$/)
  for (const amount of ['1e-20000', '-1e309', `1.${'0'.repeat(399)}`]) {
    const single = await sendEvents(event(amount))
    expect(single.body.errors).toEqual([{ path: '/data/amounts/0', message }])
    const inBatch = await sendEvents(`{"events":[${event(amount)}]}`)
    expect(inBatch.body.errors).toEqual([{ path: '/events/0/data/amounts/0', message }])
  }
  expect((await sendEvents(event('0.10000000000000001'))).body).toMatchObject({ accepted: 1 })
  expect((await sendEvents(event('0.1'))).body.code).toBe('event_id_conflict')
  expect((await sendEvents(event('0.100000000000000010'))).body).toMatchObject({ duplicates: 1 })
})

test('a body with a missing or mistyped field is refused (ASVS 2.2.1, 2.2.2, 15.3.5)', async () => {
  for (const value of [1, null, [password], '', undefined])
    expectProblem(await logIn(JSON.stringify({ ...login, password: value })), [400, 'invalid_request'])
  for (const expectedVersion of ['1', 1.5, -1, 2 ** 31, true, null, [1]])
    expectProblem(await regenerate(JSON.stringify({ expectedVersion })), [400, 'invalid_request'])
})

test('an unknown field is refused by its name (ASVS 8.2.3, 15.3.3)', async () => {
  const rows: [Send, object, string][] = [
    [logIn, { ...login, Email: email }, '/Email'],
    [regenerate, { version: 1 }, '/version'],
    [logOut, { a: 1 }, '/a'],
    [changeAccount, { name: 'Ada', role: 'admin' }, '/role'],
    [changeAccount, { name: 'Ada', emailVerified: true }, '/emailVerified'],
  ]
  for (const [send, json, path] of rows) {
    const { body } = await send(JSON.stringify(json))
    expect(body.errors).toEqual([{ path, message: 'is unknown' }])
  }
})

test('an invalid field of an event is named, even in a batch (ASVS 2.2.1)', async () => {
  const good = { type: 'a', data: {} }
  const rows: [wrong: object, path: string, message: RegExp][] = [
    [{ ...good, type: 'X' }, '/type', /^must be words of a-z 0-9 _ separated by dots$/],
    [{ ...good, data: null }, '/data', /^must be an object$/],
    [{ ...good, data: [] }, '/data', /^must be an object$/],
    [{ ...good, id: 1 }, '/id', /^must be a string$/],
    [{ ...good, occurredAt: '2026-11-20 10:15:00Z' }, '/occurredAt', /^must be a time with a T/],
    [{ ...good, companyId }, '/companyId', /^is unknown$/],
    [{ type: 'a' }, '/data', /missing/],
    [{}, '/type', /missing/],
    [{ events: [] }, '/events', /^must have at least 1 item$/],
    [{ events: good }, '/events', /^must be an array$/],
    [{ events: [good], type: 'a' }, '/type', /^is unknown$/],
  ]
  for (const [wrong, path, message] of rows) {
    const forms: [object, string][] = [[wrong, path]]
    if (!('events' in wrong)) forms.push([{ events: [good, good, good, wrong] }, `/events/3${path}`])
    for (const [body, at] of forms) {
      const answer = await sendEvents(JSON.stringify(body))
      expectProblem(answer, [400, 'invalid_request'])
      expect(answer.body.errors).toEqual([{ path: at, message: expect.stringMatching(message) }])
    }
  }
})

test.for([
  ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'json'],
  ...['application/\tjson', 'application/json, text/plain', 'application/problem+json'],
  ...['application/json; charset=utf-16', 'application/json;charset=iso-8859-1'],
  ...['application/json; charset=utf-8; charset=utf-16', 'application/json; version=1; charset="utf-16"'],
  'application/json; version',
])('a body of type %j returns 415 (ASVS 4.1.1)', async (type) => {
  expectProblem(await logIn('{}', { 'content-type': type }), unsupported)
})

test('a body without a type, or with an encoding, returns 415', async () => {
  expectProblem(await logIn('{}', {}), unsupported)
  expectProblem(await logIn(gzipSync('{}'), { ...JSON_TYPE, 'content-encoding': 'gzip' }), unsupported)
  expectProblem(await logIn('{}', { ...JSON_TYPE, 'content-encoding': 'x' }), unsupported)
})

test('every spelling of JSON in UTF-8 is accepted', async () => {
  for (const type of [
    'Application/JSON',
    'application/json;charset="UTF-8"',
    'application/json; charset=utf8;',
    'application/json\t;\tversion=1 ; charset=utf-8;; x="a;\\"charset=x"',
  ]) {
    const headers = { 'content-type': type, 'content-encoding': 'Identity' }
    expect([type, (await logIn(JSON.stringify(login), headers)).status]).toEqual([type, 200])
  }
})

const padded = (bytes: number) => {
  const event = { type: 'padded', data: { padding: '' } }
  event.data.padding = 'x'.repeat(bytes - JSON.stringify(event).length)
  return JSON.stringify(event)
}

test('bodies are limited to 16 KB, and to 512 KB for events (ASVS 2.4.1, RFC 9110 section 15.5.14)', async () => {
  for (const send of routes) {
    const [limit, accepted] = send === sendEvents ? [512 * 1024, 202] : [16 * 1024, 400]
    expectProblem(await send(padded(limit + 1)), [413, 'payload_too_large'])
    expect((await send(padded(limit))).status).toBe(accepted)
  }
})

test('a chunked body is refused at its limit, and the connection closed', async () => {
  const head =
    'POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n'
  const chunk = `4000\r\n${' '.repeat(16 * 1024)}\r\n`
  const [answer] = await exchange(address, `${head}\r\n${chunk}1\r\n{`)
  expect(answer?.headers['connection']).toBe('close')
  if (answer) expectProblem(answer, [413, 'payload_too_large'])
})

test('every route refuses broken escapes and unknown parameters in queries (ASVS 3.5.6, 15.3.7)', async () => {
  const reads = ['/auth/audit', '/auth/session', '/.well-known/jwks.json', '/openapi.json']
  const message = expect.stringMatching(/valid percent-encoding/)
  for (const withQuery of [
    ...reads.map((path) => (query: string) => get(path + query)),
    (query: string) => service.call(`/auth/login${query}`, { json: login }),
    (query: string) => service.call(`/auth/logout${query}`, { token }),
    (query: string) => service.send(companyId, secret, '{"type":"a","data":{}}', { query }),
  ]) {
    expect((await withQuery('?a=%c3&%a9')).body.errors).toEqual([{ path: '/querystring', message }])
    expectProblem(await withQuery('?a=1'), [400, 'invalid_request'])
  }
  expectProblem(await get('/../sign-in?%ff'), [400, 'invalid_request'])
})

const queries = '__proto__=1 constructor[prototype]=1 scope=all&a=1 scope=all&scope=all scope= scope=ALL'
test.for(queries.split(' '))('a logout with the query %s is refused (ASVS 15.3.6, 15.3.7)', async (query) => {
  expectProblem(await service.call(`/auth/logout?${query}`, { token }), [400, 'invalid_request'])
})

test('an unknown path returns 404, whatever its body', async () => {
  const nothing = [404, 'not_found'] as const
  const paths = ['', '/', '/auth/login/', '/auth//login', '/AUTH/login', '/auth/login%2f']
  for (const path of paths) expectProblem(await service.call(path), nothing)
  expectProblem(await sender('/nothing')('{', { 'content-type': 'text/plain' }), nothing)
  expectProblem(await get('/nothing'), nothing)
})

test.for([
  ['/auth/login', 'POST'],
  ['/auth/members', 'GET, HEAD, POST'],
  // DELETE applies to an invitation's ID in the same position.
  ['/auth/invitations/preview', 'DELETE, POST'],
  ['/.well-known/jwks.json', 'GET, HEAD'],
] as const)('%s allows only %s (ASVS 4.1.4, RFC 9110 section 15.5.6)', async ([path, allow]) => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    if (allow.includes(method)) continue
    const answer = await service.call(path, { method, ...(method === 'PUT' && { body: 'x' }) })
    expectProblem(answer, [405, 'method_not_allowed'])
    expect([method, answer.headers['allow']]).toEqual([method, allow])
  }
})

test.for([
  ['/api/auth/login', 'POST'],
  ['/api/nothing', ''],
] as const)('TRACE %s returns 405 and echoes nothing (ASVS 13.4.4)', async ([path, allow]) => {
  const head = `TRACE ${path} HTTP/1.1\r\nHost: x\r\nX-Canary: canary\r\nConnection: close\r\n\r\n`
  const [answer] = await exchange(address, head)
  expect([answer?.status, answer?.headers['allow']]).toEqual([405, allow])
  expect(JSON.stringify(answer)).not.toContain('canary')
})
