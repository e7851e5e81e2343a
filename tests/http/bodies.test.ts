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

/** One for each way in which a body is read: as JSON, as nothing, and as signed events. */
const readers = [sender('/auth/login'), sender('/auth/logout', accessToken), sendEvents] as Send[]
const byEachReader = (body: string | Buffer, headers?: Record<string, string>) =>
  readers.map((send) => () => send(body, headers))

async function expectProblems(expected: readonly [number, string], requests: (() => Promise<Answer>)[]) {
  for (const request of requests) expectProblem(await request(), expected)
}

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

/** Holds that each is refused as expected, that nothing of it is stored, and that others are still served. */
async function expectRefused(expected: readonly [number, string], requests: (() => Promise<Answer>)[]) {
  const before = await contents()
  await expectProblems(expected, requests)
  expect(await contents()).toEqual(before)
  const [next] = await exchange(
    address,
    'GET /api/.well-known/jwks.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  )
  expect(next?.status).toBe(200)
}

// The secret's use is noted once a minute, and time stands still here.
await sendEvents('{}')

const malformed: Record<string, string | Buffer> = {
  __proto__: '{"__proto__":{"admin":true}}',
  '__proto__ in escapes': '{"\\u005f_proto_\\u005F":{}}',
  '__proto__ further in': '{"data":[{"__proto__":1}]}',
  'constructor.prototype': '{"constructor":{"prototype":{"admin":true}}}',
  'constructor.prototype in escapes': '{"\\u0063onstructor":{"prototyp\\u0065":{}}}',
  'a name twice': '{"email":"a@x.example","email":"b@x.example"}',
  'a name twice, once in escapes': '{"a":1,"\\u0061":1}',
  'a name twice, further in': '{"data":[{},{"a":[{"b":1,"b":1}]}]}',
  'a byte that UTF-8 has not': Buffer.from('{"a":"\xff"}', 'latin1'),
  'an overlong form in UTF-8': Buffer.from('{"a":"\xc0\xaf"}', 'latin1'),
  'a surrogate in UTF-8': Buffer.from('{"a":"\xed\xa0\x80"}', 'latin1'),
  'half a character in UTF-8': Buffer.from('{"a":"\xe2\x82"}', 'latin1'),
  'UTF-16': Buffer.from('{"a":1}', 'utf16le'),
  'a byte order mark': '\ufeff{}',
  'a lone surrogate': '{"a":"\\ud800"}',
  'surrogates in the wrong order': '{"a":"\\udc00\\ud800"}',
  'a lone surrogate in a name': '{"\\ud800":1}',
  'U+0000': '{"a":"\\u0000"}',
  'U+0000 in a name': '{"\\u0000":1}',
  'a raw NUL': '{"a":"\0"}',
  'a raw line feed in a string': '{"a":"\n"}',
  'trailing bytes': '{} {}',
  'a trailing NUL': '{}\0',
  'a trailing comma': '{"a":1,}',
  'a comment': '{/* */}',
  'single quotes': "{'a':1}",
  'a name without quotes': '{a:1}',
  'half an object': '{"a":',
  'nothing but a space': ' ',
  NaN: '{"a":NaN}',
  'a leading zero': '{"a":01}',
  'a hexadecimal number': '{"a":0x1}',
  'arrays 8 000 deep': `${'['.repeat(8_000)}${']'.repeat(8_000)}`,
  'objects 33 deep': `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`,
}

test('every endpoint reads its body by these readers, and stores nothing of a refused one', async () => {
  const all = (body: string, headers?: Record<string, string>) =>
    Object.values(routes).map((send) => () => send(body, headers))
  await expectRefused([400, 'malformed_body'], all('{"a":1,"a":1}'))
  await expectRefused([400, 'invalid_request'], all('{"a":9007199254740993}'))
  await expectRefused([415, 'unsupported_media_type'], all('{}', { 'content-type': 'text/plain' }))
})

describe('a body that parsers could read differently is answered 400 (ASVS 1.1.1, 1.5.2, 1.5.3, RFC 7493):', () => {
  test.for(Object.entries(malformed))('%s', ([, body]) =>
    expectProblems([400, 'malformed_body'], byEachReader(body)),
  )

  test('30 000 and 250 000 levels, where bodies may be larger', async () => {
    const requests = [30_000, 250_000].flatMap((depth) => [
      () => sendEvents(`${'['.repeat(depth)}${']'.repeat(depth)}`),
      () => sendEvents(`{"type":"a","data":${'{"a":'.repeat(depth / 5)}1${'}'.repeat(depth / 5)}}`),
    ])
    await expectRefused([400, 'malformed_body'], requests)
  })

  test('JSON that is no object', async () => {
    const bodies = ['[{}]', '"text"', '1', 'true']
    // Endpoints without a body take these.
    const withBody = Object.values(routes).filter((send) => !Object.values(bodyless).includes(send))
    await expectRefused(
      [400, 'invalid_request'],
      [
        ...Object.values(routes).flatMap((send) => bodies.map((body) => () => send(body))),
        ...withBody.flatMap((send) => ['[]', 'null'].map((body) => () => send(body))),
      ],
    )
  })
})

describe('a number that a double cannot hold as written is answered 400 with its path (ASVS 1.4.2):', () => {
  test.for([
    ['9007199254740993', '2^53 + 1'],
    ['-9007199254740993', '-(2^53 + 1)'],
    ['1e400', 'too large'],
    ['1e-400', 'too small'],
    ['0.1000000000000000055511151231257827', 'too many digits'],
  ] as const)('%s, %s', async ([number]) => {
    const body = `{"a":[{"b/c":${number}}]}`
    const requests = byEachReader(body)
    await expectProblems([400, 'invalid_request'], requests)
    for (const request of requests) {
      const { errors } = (await request()).body
      expect(errors).toEqual([{ path: '/a/0/b~1c', message: expect.stringContaining('64-bit float') }])
    }
  })

  test('but in the data of an event, only one beyond the range of a double or of more than 400 characters', async () => {
    const event = (amount: string) => `{"id":"amount","type":"a","data":{"amounts":[${amount}]}}`
    for (const amount of ['1e-20000', '1e-20000', '1e400', '-1e309', `1.${'0'.repeat(399)}`]) {
      const requests = [() => sendEvents(event(amount)), () => sendEvents(`{"events":[${event(amount)}]}`)]
      await expectRefused([400, 'invalid_request'], requests)
      for (const [index, prefix] of ['', '/events/0'].entries()) {
        const { errors } = (await requests[index]?.())?.body ?? {}
        const message = expect.stringMatching(/range of a 64-bit float .* 400 characters$/)
        expect(errors).toEqual([{ path: `${prefix}/data/amounts/0`, message }])
      }
    }
    expect((await sendEvents(event('0.10000000000000001'))).body).toMatchObject({ accepted: 1 })
    expect((await sendEvents(event('0.1'))).body.code).toBe('event_id_conflict')
    expect((await sendEvents(event('0.100000000000000010'))).body).toMatchObject({ duplicates: 1 })
  })
})

describe('nothing is coerced, dropped or filled in (ASVS 2.2.1, 15.3.3, 15.3.5):', () => {
  const login = { companyId, email, password }
  const wrong = [1, 0, true, null, [], ['x'], {}, '']

  test.for(Object.keys(login))('sign-in takes %s as a string alone', async (name) => {
    const bodies: object[] = wrong.map((value) => ({ ...login, [name]: value }))
    const { [name]: _, ...without } = { ...login } as Record<string, unknown>
    const lists = { ...login, [name]: [login[name as keyof typeof login]] }
    await expectRefused(
      [400, 'invalid_request'],
      [...bodies, without, lists].map((json) => () => service.call('/auth/login', { json })),
    )
  })

  test('an unknown field is refused, and named', async () => {
    const event = { type: 'a', data: {} }
    const rows: [Send, object, string][] = [
      [sender('/auth/login'), { ...login, role: 'admin' }, '/role'],
      [sender('/auth/login'), { ...login, Email: email }, '/Email'],
      [sender('/auth/webhook-secret/regenerate', accessToken), { version: 1 }, '/version'],
      [sendEvents, { ...event, companyId }, '/companyId'],
      [sendEvents, { events: [event], type: 'a' }, '/type'],
      [sendEvents, { events: [event, { ...event, at: 1 }] }, '/events/1/at'],
      ...Object.values(bodyless).map((send): [Send, object, string] => [send, { a: 1 }, '/a']),
    ]
    for (const [send, json, path] of rows) {
      await expectRefused([400, 'invalid_request'], [() => send(JSON.stringify(json))])
      const { body } = await send(JSON.stringify(json))
      expect(body.errors).toContainEqual({ path, message: 'is not known here' })
      expect(JSON.stringify(body.errors)).not.toMatch(/anyOf|null/)
    }
  })

  test('a wrong event is told by its field, alone and in a batch', async () => {
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
    const regenerate = ['1', 1.5, -1, 2 ** 31, true, null, [1]].map((expectedVersion) => ({
      expectedVersion,
    }))
    const events = [
      { type: 1, data: {} },
      { type: ['a'], data: {} },
      { type: 'a', data: '{}' },
      { type: 'a', data: null },
      { type: 'a', data: [] },
      { type: 'a', data: {}, id: 1 },
      { type: 'a', data: {}, occurredAt: 1 },
      { events: { type: 'a', data: {} } },
      { events: [] },
    ]
    await expectRefused(
      [400, 'invalid_request'],
      [
        ...regenerate.map(
          (json) => () => service.call('/auth/webhook-secret/regenerate', { json, token: accessToken }),
        ),
        ...events.map((json) => () => sendEvents(JSON.stringify(json))),
      ],
    )
  })
})

describe('a body of a different kind is answered 415 (ASVS 4.1.1):', () => {
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
    'another JSON': { 'content-type': 'application/problem+json' },
    'no type at all': { 'content-type': 'json' },
    gzip: { ...JSON_TYPE, 'content-encoding': 'gzip' },
    'an unknown encoding': { ...JSON_TYPE, 'content-encoding': 'x' },
  }
  test.for(Object.entries(types))('%s', async ([name, headers]) => {
    const body = name === 'gzip' ? gzipSync('{}') : '{}'
    await expectProblems([415, 'unsupported_media_type'], byEachReader(body, headers))
  })

  test('but every spelling of JSON in UTF-8 is taken', async () => {
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
      expect([type, (await sender('/auth/login')(json, headers)).status]).toEqual([type, 200])
      expect([type, (await sendEvents('{"id":"a","type":"a","data":{}}', headers)).status]).toEqual([
        type,
        202,
      ])
    }
  })
})

describe('a body past the limit is answered 413 (ASVS 2.4.1, RFC 9110 section 15.5.14):', () => {
  const padded = (bytes: number) => {
    const event = { type: 'padded', data: { padding: '' } }
    event.data.padding = 'x'.repeat(bytes - JSON.stringify(event).length)
    return JSON.stringify(event)
  }

  test('16 KB, and 512 KB for events', async () => {
    const small = Object.entries(routes).filter(([path]) => path !== '/events/ingest')
    await expectRefused(
      [413, 'payload_too_large'],
      [
        ...small.map(
          ([, send]) =>
            () =>
              send(padded(16 * 1024 + 1)),
        ),
        () => sendEvents(padded(512 * 1024 + 1)),
      ],
    )
    // To the byte: what is just small enough is read.
    for (const [, send] of small) expect((await send(padded(16 * 1024))).body.code).toBe('invalid_request')
    expect((await sendEvents(padded(512 * 1024))).status).toBe(202)
  })

  test('of unknown length', async () => {
    const chunk = `4000\r\n${' '.repeat(16 * 1024)}\r\n`
    const [answer] = await exchange(
      address,
      `POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}1\r\n{`,
    )
    expect(answer?.headers['connection']).toBe('close')
    if (answer) expectProblem(answer, [413, 'payload_too_large'])
  })
})

describe('a request', () => {
  test('for a path with a broken %-escape is answered 400', async () => {
    const paths = ['/%', '/%zz', '/auth/%e2%82', '/auth/login/%c0%af', '/%ff']
    await expectRefused(
      [400, 'invalid_request'],
      paths.map((path) => () => service.call(path, { method: 'GET' })),
    )
  })

  test('with a broken %-escape in its query, or one that is no UTF-8, is answered 400 by every endpoint', async () => {
    const queries = ['%', '%z', '%zz', '%e', '%ff', '%c3', '%c3&%a9', '%c0%af', '%ed%a0%80', '%u0041']
    const requests = queries.flatMap((query) => [
      () => service.call(`/auth/members?search=${query}`, { method: 'GET', token: accessToken }),
      () => service.call(`/auth/audit?action=${query}`, { method: 'GET', token: accessToken }),
      () => service.call(`/auth/session?${query}`, { method: 'GET', token: accessToken }),
      () => service.call(`/auth/logout?scope=all&${query}`, { token: accessToken }),
      () => service.call(`/.well-known/jwks.json?${query}`, { method: 'GET' }),
      () => service.call(`/../sign-in?${query}`, { method: 'GET' }),
      () => sendEvents('{"type":"a","data":{}}', JSON_TYPE, `?${query}`),
    ])
    await expectRefused([400, 'invalid_request'], requests)
    for (const request of requests) {
      expect((await request()).body.errors).toEqual([
        { path: '/querystring', message: expect.stringMatching(/percent-escapes/) },
      ])
    }
    const { status, body } = await service.call('/auth/members?search=%c3%89%F0%9F%98%80%25&limit=5', {
      method: 'GET',
      token: accessToken,
    })
    expect([status, body.members]).toEqual([200, []])
  })

  test('for an unknown path is answered 404, whatever its body', async () => {
    const paths = [
      '',
      '/',
      '/nothing',
      '/auth',
      '/auth/login/',
      '/auth//login',
      '/AUTH/login',
      '/auth/login%2f',
    ]
    await expectRefused(
      [404, 'not_found'],
      [
        ...paths.map((path) => () => service.call(path)),
        () => service.call('/nothing', { method: 'GET' }),
        () => service.call('/nothing', { body: 'a=1', headers: { 'content-type': 'text/plain' } }),
        () => service.call('/nothing', { body: '{', headers: JSON_TYPE }),
        () => service.call('/../livez', { method: 'GET' }),
      ],
    )
  })

  test('with a method that the path does not take is answered 405 with Allow (ASVS 4.1.4, RFC 9110 section 15.5.6)', async () => {
    const rows: [path: string, allow: string][] = [
      // An invitation is deleted by its id, which is in the same place.
      ...Object.keys(routes).map((path): [string, string] => [
        path,
        path.startsWith('/auth/invitations/') ? 'DELETE, POST' : 'POST',
      ]),
      ['/auth/session', 'GET, HEAD'],
      ['/openapi.json', 'GET, HEAD'],
      ['/.well-known/jwks.json', 'GET, HEAD'],
    ]
    for (const [path, allow] of rows) {
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        if (allow.includes(method)) continue
        const answer = await service.call(path, { method, ...(method === 'PUT' && { body: 'x' }) })
        expectProblem(answer, [405, 'method_not_allowed'])
        expect([path, method, answer.headers['allow']]).toEqual([path, method, allow])
      }
    }
  })

  test('TRACE is answered 405 and nothing of it comes back (ASVS 13.4.4)', async () => {
    for (const [path, allow] of [
      ['/api/auth/login', 'POST'],
      ['/api/auth/session', 'GET, HEAD'],
      ['/api/nothing', ''],
    ]) {
      const [answer] = await exchange(
        address,
        `TRACE ${path} HTTP/1.1\r\nHost: x\r\nX-Canary: canary\r\nConnection: close\r\n\r\n`,
      )
      expect([answer?.status, answer?.headers['allow']]).toEqual([405, allow])
      expect(JSON.stringify(answer)).not.toContain('canary')
    }
  })

  test('with an unknown or repeated query parameter is answered 400 by every endpoint (ASVS 15.3.7)', async () => {
    const queries = ['?a=1', '?a', '?a=1&a=2', '?__proto__=1', '?constructor[prototype]=1', '?%zz=%zz']
    const json = { companyId, email, password }
    await expectRefused(
      [400, 'invalid_request'],
      queries.flatMap((query) => [
        () => service.call(`/auth/login${query}`, { json }),
        () => service.call(`/auth/refresh${query}`, { token: refreshToken }),
        () => service.call(`/auth/logout${query}`, { token: accessToken }),
        () => service.call(`/auth/logout?scope=all&${query.slice(1)}`, { token: accessToken }),
        () => service.call(`/auth/session${query}`, { method: 'GET', token: accessToken }),
        () => service.call(`/auth/webhook-secret/status${query}`, { token: accessToken }),
        () => service.call(`/auth/webhook-secret/regenerate${query}`, { token: accessToken }),
        () => service.call(`/.well-known/jwks.json${query}`, { method: 'GET' }),
        () => service.call(`/openapi.json${query}`, { method: 'GET' }),
        () => sendEvents('{"type":"a","data":{}}', JSON_TYPE, query),
      ]),
    )
    const scopes = ['scope=all&scope=all', 'scope=', 'scope', 'scope=ALL', 'scope[]=all', 'scope=all%00']
    await expectRefused(
      [400, 'invalid_request'],
      scopes.map((query) => () => service.call(`/auth/logout?${query}`, { token: accessToken })),
    )
  })
})
