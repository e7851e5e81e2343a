import { createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { type Answer, openTestService } from '../support/test-service.ts'
import { expectProblem } from './problem.ts'
import { exchange } from './raw.ts'

const service = await openTestService()
const [address = ''] = service.addresses
const admin = await service.addCompany()
const secret = await service.newSecret(admin)
const { accessToken, refreshToken } = await service.loginAs(admin)
const { companyId, email, password } = admin

type Send = (body: string | Buffer, headers?: Record<string, string>) => Promise<Answer>

const JSON_TYPE = { 'content-type': 'application/json' }
const sender =
  (path: string, token?: string): Send =>
  (body, headers = JSON_TYPE) =>
    service.call(path, { body, token, headers })

const sendEvents = (body: string | Buffer, headers: Record<string, string> = JSON_TYPE, query = '') => {
  const timestamp = String(Math.floor(service.clock.now() / 1000))
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signature = createHmac('sha256', key).update(`msg_1.${timestamp}.`).update(body).digest('base64')
  return service.call(`/events/ingest${query}`, {
    body,
    headers: {
      'x-company-id': companyId,
      'webhook-id': 'msg_1',
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
      ...headers,
    },
  })
}

const bodyless = {
  '/auth/refresh': sender('/auth/refresh', refreshToken),
  '/auth/logout': sender('/auth/logout', accessToken),
  '/auth/webhook-secret/status': sender('/auth/webhook-secret/status', accessToken),
}
const routes: Record<string, Send> = {
  '/auth/login': sender('/auth/login'),
  '/auth/webhook-secret/regenerate': sender('/auth/webhook-secret/regenerate', accessToken),
  '/events/ingest': sendEvents,
  '/auth/register': sender('/auth/register'),
  '/auth/verify-email': sender('/auth/verify-email'),
  '/auth/verify-email/resend': sender('/auth/verify-email/resend'),
  '/auth/password/forgot': sender('/auth/password/forgot'),
  '/auth/password/reset': sender('/auth/password/reset'),
  '/auth/password/change': sender('/auth/password/change', accessToken),
  '/auth/invitations/preview': sender('/auth/invitations/preview'),
  '/auth/invitations/accept': sender('/auth/invitations/accept'),
  ...bodyless,
}

const logIn = sender('/auth/login')

/** Everything that the database holds, digested; but for the sums of refused events, which are there to change. */
async function contents(): Promise<unknown> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE' and table_name <> 'refused_requests'
    order by 1`.execute(service.db)
  const digests = tables.map(async ({ name }) => {
    const { rows } = await sql`
      select count(*), md5(string_agg(t::text, ' ' order by t::text)) from ${sql.table(name)} t`.execute(
      service.db,
    )
    return [name, rows]
  })
  return await Promise.all(digests)
}

test('every route reads its body strictly, and stores nothing of a refused one', async () => {
  // The secret's use is noted once a minute, and time stands still here.
  await sendEvents('{}')
  const before = await contents()
  for (const send of Object.values(routes)) {
    expectProblem(await send('{"a":1,"a":1}'), [400, 'malformed_body'])
    expectProblem(await send('[{}]'), [400, 'invalid_request'])
    expectProblem(await send('{}', { 'content-type': 'text/plain' }), [415, 'unsupported_media_type'])
  }
  expect(await contents()).toEqual(before)
})

test.for(['"text"', '1', 'true', '[]', 'null'])(
  'a JSON body that is not an object is refused: %s',
  async (body) => {
    expectProblem(await logIn(body), [400, 'invalid_request'])
    expectProblem(await sendEvents(body), [400, 'invalid_request'])
  },
)

describe('numbers:', () => {
  test('a number that a double cannot hold as written is refused with its path (ASVS 1.4.2)', async () => {
    for (const send of [logIn, sender('/auth/logout', accessToken), sendEvents]) {
      const answer = await send('{"a":[{"b/c":9007199254740993}]}')
      expectProblem(answer, [400, 'invalid_request'])
      const message = expect.stringContaining('64-bit float')
      expect(answer.body.errors).toEqual([{ path: '/a/0/b~1c', message }])
    }
  })

  test('the data of an event keeps every digit within the range of a double', async () => {
    const event = (amount: string) => `{"id":"amount","type":"a","data":{"amounts":[${amount}]}}`
    const message = expect.stringMatching(/range of a 64-bit float .* 400 characters$/)
    for (const amount of ['1e-20000', '-1e309', `1.${'0'.repeat(399)}`]) {
      const alone = await sendEvents(event(amount))
      expect(alone.body.errors).toEqual([{ path: '/data/amounts/0', message }])
      const inBatch = await sendEvents(`{"events":[${event(amount)}]}`)
      expect(inBatch.body.errors).toEqual([{ path: '/events/0/data/amounts/0', message }])
    }
    expect((await sendEvents(event('0.10000000000000001'))).body).toMatchObject({ accepted: 1 })
    expect((await sendEvents(event('0.1'))).body.code).toBe('event_id_conflict')
    expect((await sendEvents(event('0.100000000000000010'))).body).toMatchObject({ duplicates: 1 })
  })
})

describe('nothing is coerced, dropped, or filled in (ASVS 2.2.1, 15.3.3, 15.3.5):', () => {
  const login = { companyId, email, password }

  test.for([1, 0, true, null, [], [password], {}, ''])('a sign-in refuses the password %j', async (wrong) => {
    const answer = await service.call('/auth/login', { json: { ...login, password: wrong } })
    expectProblem(answer, [400, 'invalid_request'])
  })

  test.for(Object.keys(login))('a sign-in without %s is refused', async (name) => {
    const json = { ...login, [name]: undefined }
    expectProblem(await service.call('/auth/login', { json }), [400, 'invalid_request'])
  })

  test('an unknown field is refused by its name', async () => {
    const event = { type: 'a', data: {} }
    const rows: [Send, object, string][] = [
      [logIn, { ...login, role: 'admin' }, '/role'],
      [logIn, { ...login, Email: email }, '/Email'],
      [sender('/auth/webhook-secret/regenerate', accessToken), { version: 1 }, '/version'],
      [sendEvents, { ...event, companyId }, '/companyId'],
      [sendEvents, { events: [event], type: 'a' }, '/type'],
      [sendEvents, { events: [event, { ...event, at: 1 }] }, '/events/1/at'],
      [sender('/auth/logout', accessToken), { a: 1 }, '/a'],
    ]
    for (const [send, json, path] of rows) {
      const { body } = await send(JSON.stringify(json))
      expect(body.errors).toContainEqual({ path, message: 'is not known here' })
      expect(JSON.stringify(body.errors)).not.toMatch(/anyOf|null/)
    }
  })

  test('the field of a wrong event is named, alone and in a batch', async () => {
    const good = { type: 'a', data: {} }
    const rows: [wrong: object, path: string, message: RegExp][] = [
      [{ ...good, type: 'X' }, '/type', /^must be words of a-z 0-9 _ with a dot/],
      [{ ...good, type: 1 }, '/type', /string/],
      [{ ...good, data: 1 }, '/data', /object/],
      [{ ...good, id: '' }, '/id', /^must be 1 to 160 of A-Z a-z 0-9 _ \. -$/],
      [{ ...good, occurredAt: 'today' }, '/occurredAt', /^must be a time .*such as 2026/],
      [{ ...good, occurredAt: '2026-11-20 10:15:00Z' }, '/occurredAt', /^must be a time with a T/],
      [{ ...good, at: 1 }, '/at', /not known/],
      [{ data: {} }, '/type', /missing/],
      [{ type: 'a' }, '/data', /missing/],
      [{}, '/type', /missing/],
    ]
    for (const [wrong, path, message] of rows) {
      const batch = { events: [good, good, good, wrong] }
      for (const [body, prefix] of [
        [wrong, ''],
        [batch, '/events/3'],
      ] as const) {
        const answer = await sendEvents(JSON.stringify(body))
        expect([answer.status, answer.body.code]).toEqual([400, 'invalid_request'])
        expect(answer.body.errors).toEqual([{ path: prefix + path, message: expect.stringMatching(message) }])
      }
    }
    expect((await sendEvents('{"events":[]}')).body.errors).toEqual([
      { path: '/events', message: expect.any(String) },
    ])
    expect((await sendEvents('{"events":1}')).body.errors).toEqual([
      { path: '/events', message: expect.any(String) },
    ])
  })

  test('numbers and objects keep their types', async () => {
    for (const expectedVersion of ['1', 1.5, -1, 2 ** 31, true, null, [1]]) {
      const options = { json: { expectedVersion }, token: accessToken }
      const answer = await service.call('/auth/webhook-secret/regenerate', options)
      expectProblem(answer, [400, 'invalid_request'])
    }
    for (const wrong of [
      { type: ['a'] },
      { data: '{}' },
      { data: null },
      { data: [] },
      { id: 1 },
      { occurredAt: 1 },
    ]) {
      const answer = await sendEvents(JSON.stringify({ type: 'a', data: {}, ...wrong }))
      expectProblem(answer, [400, 'invalid_request'])
    }
    const events = { type: 'a', data: {} }
    expectProblem(await sendEvents(JSON.stringify({ events })), [400, 'invalid_request'])
  })
})

describe('the type of a body (ASVS 4.1.1):', () => {
  const types: Record<string, Record<string, string>> = {
    'no type': {},
    'text/plain': { 'content-type': 'text/plain' },
    'a form': { 'content-type': 'application/x-www-form-urlencoded' },
    'a multipart form': { 'content-type': 'multipart/form-data; boundary=x' },
    'charset=utf-16': { 'content-type': 'application/json; charset=utf-16' },
    'charset=iso-8859-1': { 'content-type': 'application/json;charset=iso-8859-1' },
    'a charset twice': { 'content-type': 'application/json; charset=utf-8; charset=utf-16' },
    'a quoted charset': { 'content-type': 'application/json; version=1; charset="utf-16"' },
    'a parameter without a value': { 'content-type': 'application/json; version' },
    'a tab in the type': { 'content-type': 'application/\tjson' },
    'a list of types': { 'content-type': 'application/json, text/plain' },
    'a different JSON type': { 'content-type': 'application/problem+json' },
    'a type without a subtype': { 'content-type': 'json' },
    gzip: { ...JSON_TYPE, 'content-encoding': 'gzip' },
    'an unknown encoding': { ...JSON_TYPE, 'content-encoding': 'x' },
  }
  test.for(Object.entries(types))('a body is answered 415 with %s', async ([name, headers]) => {
    const answer = await logIn(name === 'gzip' ? gzipSync('{}') : '{}', headers)
    expectProblem(answer, [415, 'unsupported_media_type'])
  })

  test('every spelling of JSON in UTF-8 is accepted', async () => {
    for (const type of [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
      'application/json;',
      'application/json; charset=utf8',
      'application/json\t;\tversion=1 ; charset=utf-8;; x="a;\\"charset=x"',
    ]) {
      const json = JSON.stringify({ companyId, email, password })
      const headers = { 'content-type': type, 'content-encoding': 'Identity' }
      expect([type, (await logIn(json, headers)).status]).toEqual([type, 200])
    }
  })
})

describe('the size of a body (ASVS 2.4.1, RFC 9110 section 15.5.14):', () => {
  const padded = (bytes: number) => {
    const event = { type: 'padded', data: { padding: '' } }
    event.data.padding = 'x'.repeat(bytes - JSON.stringify(event).length)
    return JSON.stringify(event)
  }

  test('every route refuses a byte more than 16 KB, and ingest than 512 KB', async () => {
    const limits = Object.entries(routes).map(([path, send]) => {
      const isIngest = path === '/events/ingest'
      return { send, limit: (isIngest ? 512 : 16) * 1024, accepted: isIngest ? 202 : 400 }
    })
    for (const { send, limit, accepted } of limits) {
      expectProblem(await send(padded(limit + 1)), [413, 'payload_too_large'])
      expect((await send(padded(limit))).status).toBe(accepted)
    }
  })

  test('a chunked body is refused at its limit, and the connection closed', async () => {
    const chunk = `4000\r\n${' '.repeat(16 * 1024)}\r\n`
    const [answer] = await exchange(
      address,
      `POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}1\r\n{`,
    )
    expect(answer?.headers['connection']).toBe('close')
    if (answer) expectProblem(answer, [413, 'payload_too_large'])
  })
})

test.for(['/%', '/%zz', '/auth/%e2%82', '/auth/login/%c0%af', '/%ff'])(
  'a path with a broken escape is answered 400: %s',
  async (path) => {
    expectProblem(await service.call(path, { method: 'GET' }), [400, 'invalid_request'])
  },
)

describe('queries:', () => {
  const get = (path: string) => service.call(path, { method: 'GET', token: accessToken })
  const json = { companyId, email, password }
  /** Routes that read a query, and ones that do not. */
  const withQuery: ((query: string) => Promise<Answer>)[] = [
    (query) => get(`/auth/audit${query}`),
    (query) => get(`/auth/session${query}`),
    (query) => get(`/.well-known/jwks.json${query}`),
    (query) => get(`/openapi.json${query}`),
    (query) => service.call(`/auth/login${query}`, { json }),
    (query) => service.call(`/auth/refresh${query}`, { token: refreshToken }),
    (query) => service.call(`/auth/logout${query}`, { token: accessToken }),
    (query) => service.call(`/auth/webhook-secret/status${query}`, { token: accessToken }),
    (query) => service.call(`/auth/webhook-secret/regenerate${query}`, { token: accessToken }),
    (query) => sendEvents('{"type":"a","data":{}}', JSON_TYPE, query),
  ]

  test('every route refuses a query with a broken escape, or an unknown parameter (ASVS 15.3.7)', async () => {
    for (const send of withQuery) {
      const broken = await send('?a=%ff')
      const message = expect.stringMatching(/percent-escapes/)
      expect(broken.body.errors).toEqual([{ path: '/querystring', message }])
      expectProblem(await send('?a=1'), [400, 'invalid_request'])
    }
    expectProblem(await get('/../sign-in?%ff'), [400, 'invalid_request'])
  })

  const escapes = ['%', '%z', '%zz', '%e', '%c3', '%c3&%a9', '%c0%af', '%ed%a0%80', '%u0041']
  test.for(escapes)('a search for %s is refused, since it is not UTF-8', async (text) => {
    const { body } = await get(`/auth/members?search=${text}`)
    expect(body.errors).toEqual([{ path: '/querystring', message: expect.stringMatching(/percent-escapes/) }])
  })

  test('a search for escaped UTF-8 finds it', async () => {
    const { status, body } = await get('/auth/members?search=%c3%89%F0%9F%98%80%25&limit=5')
    expect([status, body.members]).toEqual([200, []])
  })

  const refused = [
    'a',
    'a=1&a=2',
    '__proto__=1',
    'constructor[prototype]=1',
    'scope=all&scope=all',
    'scope=all&a=1',
  ]
  const scopes = ['scope=', 'scope', 'scope=ALL', 'scope[]=all', 'scope=all%00']
  test.for([...refused, ...scopes])('a logout with the query %s is refused (ASVS 15.3.7)', async (query) => {
    const answer = await service.call(`/auth/logout?${query}`, { token: accessToken })
    expectProblem(answer, [400, 'invalid_request'])
  })
})

test('an unknown path is answered 404, whatever its body', async () => {
  for (const path of [
    '',
    '/',
    '/nothing',
    '/auth',
    '/auth/login/',
    '/auth//login',
    '/AUTH/login',
    '/auth/login%2f',
  ])
    expectProblem(await service.call(path), [404, 'not_found'])
  for (const options of [
    { method: 'GET' },
    { body: 'a=1', headers: { 'content-type': 'text/plain' } },
    { body: '{', headers: JSON_TYPE },
  ])
    expectProblem(await service.call('/nothing', options), [404, 'not_found'])
  expectProblem(await service.call('/../livez', { method: 'GET' }), [404, 'not_found'])
})

test.for([
  ['/auth/login', 'POST'],
  ['/auth/members', 'GET, HEAD, POST'],
  // An invitation is deleted by its ID, which is in the same position.
  ['/auth/invitations/preview', 'DELETE, POST'],
  ['/auth/session', 'GET, HEAD'],
  ['/openapi.json', 'GET, HEAD'],
  ['/.well-known/jwks.json', 'GET, HEAD'],
] as const)(
  '%s allows %s, and answers 405 to other methods (ASVS 4.1.4, RFC 9110 section 15.5.6)',
  async ([path, allow]) => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      if (allow.includes(method)) continue
      const answer = await service.call(path, { method, ...(method === 'PUT' && { body: 'x' }) })
      expectProblem(answer, [405, 'method_not_allowed'])
      expect([method, answer.headers['allow']]).toEqual([method, allow])
    }
  },
)

test.for([
  ['/api/auth/login', 'POST'],
  ['/api/auth/session', 'GET, HEAD'],
  ['/api/nothing', ''],
])('TRACE %s is answered 405 and echoes nothing (ASVS 13.4.4)', async ([path, allow]) => {
  const [answer] = await exchange(
    address,
    `TRACE ${path} HTTP/1.1\r\nHost: x\r\nX-Canary: canary\r\nConnection: close\r\n\r\n`,
  )
  expect([answer?.status, answer?.headers['allow']]).toEqual([405, allow])
  expect(JSON.stringify(answer)).not.toContain('canary')
})
