import { sql } from 'kysely'
import { expect, inject, test } from 'vitest'
import { linesAbout } from '../support/log-lines.ts'
import { cutOff } from '../support/postgres.ts'
import { exchange } from '../support/raw.ts'
import { type Answer, openTestService, times, useSharedService } from '../support/test-service.ts'

/** Headers of every response, including CORS (ASVS 3.4.2). */

const LISTED = 'https://app.example.com'
const OTHER_LISTED = 'https://admin.example.com'
const EVIL = 'https://evil.example'

const service = await openTestService({ env: { DASHBOARD_ORIGINS: `${LISTED},${OTHER_LISTED}` } })
const [address = ''] = service.addresses
const admin = await service.addCompany()
const { accessToken: token } = await service.loginAs(admin)
const event = { type: 'a', data: {} }

type Headers = Record<string, string>
type Headed = Pick<Answer, 'status' | 'headers'>

async function sendRaw(head: string, headers: Headers): Promise<Headed> {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const [answer] = await exchange(address, `${head}${lines.join('')}\r\n`)
  if (!answer) throw new Error('there is no answer')
  return answer
}

/** Every kind of response. */
const answers: Record<string, (headers: Headers) => Promise<Headed>> = {
  '200 of a sign-in': (headers) => service.login(admin, { headers }),
  '200 of a HEAD': (headers) => service.call('/auth/session', { method: 'HEAD', token, headers }),
  '204 of a logout': async (headers) => {
    const { accessToken } = await service.loginAs(admin)
    return await service.call('/auth/logout', { token: accessToken, headers })
  },
  '400 of a body': (headers) =>
    service.call('/auth/login', { body: '{', headers: { ...headers, 'content-type': 'application/json' } }),
  '400 of a path': (headers) => service.call('/%zz', { method: 'GET', headers }),
  '400 of a long ID': (headers) =>
    service.call(`/auth/sessions/${'a'.repeat(300)}`, { method: 'DELETE', token, headers }),
  '400 of two Hosts': (headers) => sendRaw('GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n', headers),
  '401 of no credential': (headers) => service.getSession({ headers }),
  '404 of a path': (headers) => service.call('/nothing', { headers }),
  '405 of a method': (headers) => service.call('/auth/login', { method: 'DELETE', headers }),
  '413 of a body': (headers) => service.call('/auth/login', { json: { email: 'x'.repeat(20_000) }, headers }),
  '431 of long headers': (headers) =>
    service.getSession({ headers: { ...headers, 'x-long': 'x'.repeat(20_000) } }),
  '431 of many headers': (headers) =>
    sendRaw(`GET / HTTP/1.1\r\nHost: a\r\n${'x:x\r\n'.repeat(200)}`, headers),
}

function expectCommonHeaders({ status, headers }: Headed): void {
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    'content-security-policy': expect.stringMatching(
      /default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'/,
    ),
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'strict-transport-security': 'max-age=31536000; includeSubDomains',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'x-request-id': expect.stringMatching(
      /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    ),
  })
  expect(headers).not.toHaveProperty('server')
  expect(headers).not.toHaveProperty('x-powered-by')
  if (status === 204) expect(headers).not.toHaveProperty('content-type')
  else expect(headers['content-type']).toMatch(/^application\/(problem\+)?json; charset=utf-8$/)
}

const corsOf = ({ headers }: Headed) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'))

test.for(Object.entries(answers))(
  'the response %s has all headers, with CORS only for listed origins (ASVS 3.2.1, 3.4.1, 3.4.2, 3.4.3, 3.4.4, 3.4.5, 3.4.6, 3.4.8, 3.5.8, 4.1.1, 13.4.6, 14.2.2, 14.3.2)',
  async ([name, ask]) => {
    for (const headers of [{}, { origin: EVIL }, { origin: LISTED }]) {
      const answer = await ask(headers)
      expect(answer.status).toBe(Number.parseInt(name, 10))
      expectCommonHeaders(answer)
      if (!('origin' in headers) || headers.origin === EVIL) expect(corsOf(answer)).toEqual([])
      else
        expect(answer.headers).toMatchObject({
          'access-control-allow-origin': LISTED,
          'access-control-allow-credentials': 'true',
          vary: expect.stringMatching(/origin/i),
        })
    }
  },
)

test('a response to bytes that are not HTTP has all headers', async () => {
  const answer = await sendRaw('no HTTP\r\n', {})
  expect(answer.status).toBe(400)
  expectCommonHeaders(answer)
})

test.for([
  ['a guarded path', '/auth/webhook-secret/status', 405],
  ['an unknown path', '/nothing', 404],
  ['a broken escape', '/%zz', 400],
  ['a long ID', `/auth/sessions/${'a'.repeat(300)}`, 405],
] as const)('a preflight for %s allows listed origins the requested headers', async ([, path, status]) => {
  // Tracing libraries of web pages add the last three.
  const names = 'authorization,content-type,x-session-id,traceparent,baggage,sentry-trace'
  const asked = { 'access-control-request-method': 'POST', 'access-control-request-headers': names }
  const preflight = (origin: string) =>
    service.call(path, { method: 'OPTIONS', headers: { origin, ...asked } })
  const answer = await preflight(LISTED)
  expect(answer.status).toBe(204)
  expectCommonHeaders(answer)
  expect(answer.headers).toMatchObject({
    'access-control-allow-origin': LISTED,
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE',
    'access-control-allow-headers': names,
  })
  const refusal = await preflight(EVIL)
  expect([refusal.status, corsOf(refusal)]).toEqual([status, []])
  expectCommonHeaders(refusal)
})

test('the key set and OpenAPI document can be cached for 5 minutes', async () => {
  for (const path of ['/.well-known/jwks.json', '/openapi.json']) {
    for (const method of ['GET', 'HEAD']) {
      const { status, headers } = await service.call(path, { method })
      expect([status, headers['cache-control']]).toEqual([200, 'public, max-age=300'])
      expectCommonHeaders({ status, headers: { ...headers, 'cache-control': 'no-store' } })
    }
    // Refusals cannot be cached.
    expect((await service.call(`${path}?a`, { method: 'GET' })).headers['cache-control']).toBe('no-store')
  }
})

test('each response has a new ID, never one that the client sent (ASVS 16.4.1)', async () => {
  const sent = { headers: { 'x-request-id': 'canary' } }
  const received = await Promise.all(times(5, () => service.call('/nothing', sent)))
  const ids = new Set(received.map(({ headers }) => headers['x-request-id']))
  expect(ids.size).toBe(5)
  expect(ids).not.toContain('canary')
})

test('an unexpected fault has details only in the log, without values (ASVS 13.4.2, 16.2.5, 16.3.4, 16.5.1, 16.5.4)', async () => {
  const broken = await openTestService()
  const person = await broken.addCompany()
  const key = await broken.newSecret(person)
  await sql`alter table events add constraint no_canary check (data::text not like '%c4n4ry%')`.execute(
    broken.db,
  )
  const answer = await broken.send(person.companyId, key, { type: 'a', data: { a: 'c4n4ry' } })
  expect([answer.status, answer.body.code]).toEqual([500, 'internal_error'])
  expectCommonHeaders(answer)
  expect(JSON.stringify(answer.body)).not.toMatch(
    /canary|c4n4ry|23514|relation|insert|kysely|node_modules| at /i,
  )
  const stack = expect.stringMatching(/^ +at /)
  const err = { code: '23514', constraint: 'no_canary', message: '', stack }
  expect(await linesAbout(broken, answer, 2)).toMatchObject([
    { level: 50, msg: 'internal_error', err },
    { level: 30, status: 500, code: 'internal_error' },
  ])
  expect(broken.logs.join('')).not.toContain('c4n4ry')
})

test('requests return 503 with Retry-After while the database is away (ASVS 16.5.2)', async () => {
  const cut = await openTestService()
  const person = await cut.addCompany()
  const secret = await cut.newSecret(person)
  const { accessToken, refreshToken } = await cut.loginAs(person)
  await cutOff(inject('serverUrl'), new URL(cut.url).pathname.slice(1))
  for (const answer of await Promise.all([
    cut.login(person),
    cut.refresh(refreshToken),
    cut.getSession({ token: accessToken }),
    cut.send(person.companyId, secret, event),
  ])) {
    expect([answer.status, answer.body.code]).toEqual([503, 'unavailable'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
    expectCommonHeaders(answer)
    expect(JSON.stringify(answer.body)).not.toMatch(/connection|postgres|administrator|55000|57P01/i)
  }
})

test('an origin must match a listed one exactly (ASVS 3.4.2)', async () => {
  const ask = (origin: string) => service.call('/nothing', { headers: { origin } })
  const others =
    'null * http://app.example.com https://app.example.com:8443 https://app.example.com.evil.example ' +
    'https://x.app.example.com https://APP.example.com https://app.example.com/'
  for (const origin of [...others.split(' '), `${LISTED}, ${EVIL}`, ''])
    expect([origin, corsOf(await ask(origin))]).toEqual([origin, []])
  expect((await ask(OTHER_LISTED)).headers['access-control-allow-origin']).toBe(OTHER_LISTED)
})

test('no origin is listed without DASHBOARD_ORIGINS (ASVS 3.4.2)', async () => {
  const { service: closed } = await useSharedService()
  const headers = { origin: LISTED, 'access-control-request-method': 'GET' }
  for (const method of ['GET', 'OPTIONS'])
    expect(corsOf(await closed.call('/auth/session', { method, headers }))).toEqual([])
})

test('every limited route states its limit, and returns 429 beyond it (ASVS 2.3.2, 2.4.1, RFC 6585 section 4)', async () => {
  const WINDOW = 3600
  const limits = {
    'sign-in-failures': 2,
    refresh: 3,
    regenerate: 2,
    session: 4,
    ingest: 3,
    'bad-signatures': 2,
    refusals: 3,
    'sign-in-attempts': 12,
    anonymous: 40,
  }
  const variables = Object.entries(limits).map(([name, max]) => [
    `LIMIT_${name.toUpperCase().replaceAll('-', '_')}`,
    `${max}/${WINDOW}`,
  ])
  const limited = await openTestService({ env: { ...Object.fromEntries(variables), RATE_LIMIT_SCALE: '1' } })
  const person = await limited.addCompany()
  const other = await limited.addCompany()
  const first = await limited.loginAs(person)
  const second = await limited.loginAs(person)
  const key = await limited.newSecret(person)
  const read = (path: string) => limited.call(path, { method: 'GET' })
  let { refreshToken } = second
  async function refresh(): Promise<Answer> {
    const answer = await limited.refresh(refreshToken)
    refreshToken = answer.body.refreshToken ?? refreshToken
    return answer
  }
  const regenerate = () => limited.call('/auth/webhook-secret/regenerate', { token: second.accessToken })
  const rows: [name: keyof typeof limits, told: boolean, () => Promise<Answer>][] = [
    ['sign-in-failures', false, () => limited.login({ ...other, password: 'wrong' })],
    ['refresh', true, refresh],
    ['ingest', true, () => limited.send(person.companyId, key, event)],
    ['regenerate', true, regenerate],
    ['session', true, () => limited.getSession({ token: first.accessToken })],
    ['bad-signatures', false, () => limited.send(other.companyId, key, event)],
    ['refusals', false, () => limited.getSession({ token: 'nonsense' })],
    ['sign-in-attempts', true, () => limited.login(person)],
    ['anonymous', true, () => read('/.well-known/jwks.json')],
    ['anonymous', true, () => read('/openapi.json')],
    ['anonymous', false, () => limited.call('/nothing')],
    ['anonymous', false, () => limited.call('/openapi.json')],
  ]
  for (const [name, told, ask] of rows) {
    const policy = `"${name}";q=${limits[name]};w=${WINDOW}`
    let answer = await ask()
    for (let asked = 1; answer.status !== 429 && asked <= limits[name]; asked += 1) {
      if (told) {
        expect(answer.headers['ratelimit-policy'], name).toBe(policy)
        expect(answer.headers['ratelimit'], name).toMatch(new RegExp(`^"${name}";r=\\d+;t=\\d+$`))
      }
      answer = await ask()
    }
    expect([name, answer.status, answer.body.code]).toEqual([name, 429, 'rate_limited'])
    expect(answer.headers['ratelimit-policy']).toBe(policy)
    const [, resetSeconds] = /^"[a-z-]+";r=0;t=(\d+)$/.exec(String(answer.headers['ratelimit'])) ?? []
    expect(answer.headers['retry-after'], name).toBe(resetSeconds)
    expect(Number(resetSeconds)).toBeGreaterThan(0)
    expect(Number(resetSeconds)).toBeLessThanOrEqual(WINDOW)
    expectCommonHeaders(answer)
  }
})
