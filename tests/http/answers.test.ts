import { sql } from 'kysely'
import { describe, expect, inject, test } from 'vitest'
import { changeSubscription } from '../../src/operator/companies.ts'
import { cutOff } from '../support/postgres.ts'
import { type Answer, openTestService } from '../support/test-service.ts'
import { exchange } from './raw.ts'

const LISTED = 'https://app.example.com'

const service = await openTestService({
  env: { DASHBOARD_ORIGINS: `${LISTED},https://admin.example.com` },
})
const [address = ''] = service.addresses
const admin = await service.addCompany()
const viewer = await service.addUser(admin)
const secret = await service.newSecret(admin)
const lapsed = await service.addCompany()
const lapsedSecret = await service.newSecret(lapsed)
await changeSubscription(service.context, lapsed.companyId, { status: 'canceled' })
const { accessToken: token } = await service.loginAs(admin)
const viewerToken = (await service.loginAs(viewer)).accessToken
const event = { type: 'a', data: {} }

/** Every status, in the ways that lead to it. */
const answers: Record<string, () => Promise<Pick<Answer, 'status' | 'headers'> | undefined>> = {
  '200 of a sign-in': () => service.login(admin),
  '200 of a read': () => service.call('/auth/session', { method: 'GET', token }),
  '200 of a HEAD': () => service.call('/auth/session', { method: 'HEAD', token }),
  '202 of events': () => service.send(admin.companyId, secret, event),
  '204 of a logout': async () => {
    const { accessToken } = await service.loginAs(admin)
    return await service.call('/auth/logout', { token: accessToken })
  },
  '204 of a preflight': () =>
    service.call('/auth/session', {
      method: 'OPTIONS',
      headers: { origin: LISTED, 'access-control-request-method': 'GET' },
    }),
  '400 of a body': () =>
    service.call('/auth/login', { body: '{', headers: { 'content-type': 'application/json' } }),
  '400 of a path': () => service.call('/%', { method: 'GET' }),
  '400 of a message': async () => (await exchange(address, 'no HTTP\r\n\r\n'))[0],
  '400 of two Hosts': async () =>
    (await exchange(address, 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'))[0],
  '401 of no credential': () => service.call('/auth/session', { method: 'GET' }),
  '401 of a password': () => service.login({ ...admin, password: 'wrong' }),
  '402 of a subscription': () => service.send(lapsed.companyId, lapsedSecret, event),
  '403 of a role': () => service.call('/auth/webhook-secret/status', { token: viewerToken }),
  '404 of a path': () => service.call('/nothing'),
  '405 of a method': () => service.call('/auth/login', { method: 'DELETE' }),
  '405 of an OPTIONS from elsewhere': () =>
    service.call('/auth/login', { method: 'OPTIONS', headers: { origin: 'https://evil.example' } }),
  '409 of a version': () =>
    service.call('/auth/webhook-secret/regenerate', { token, json: { expectedVersion: 99 } }),
  '413 of a body': () => service.call('/auth/login', { json: { email: 'x'.repeat(20_000) } }),
  '415 of a body': () =>
    service.call('/auth/login', { body: 'a=1', headers: { 'content-type': 'text/plain' } }),
  '431 of the parser': async () =>
    (await exchange(address, `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`))[0],
  '431 of too many': async () =>
    (await exchange(address, `GET / HTTP/1.1\r\nHost: a\r\n${'x:x\r\n'.repeat(200)}\r\n`))[0],
}

function expectCommonHeaders({ status, headers }: Pick<Answer, 'status' | 'headers'>): void {
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    'content-security-policy': expect.stringMatching(/default-src 'none'.*frame-ancestors 'none'/),
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

describe('every response has the security headers, an ID, and a charset (ASVS 3.2.1, 3.4.1, 3.4.3, 3.4.4, 3.4.5, 3.4.6, 3.4.8, 3.5.8, 4.1.1, 13.4.6, 14.3.2):', () => {
  test.for(Object.entries(answers))('the response %s has all headers', async ([name, ask]) => {
    const answer = await ask()
    expect(answer?.status).toBe(Number.parseInt(name, 10))
    if (answer) expectCommonHeaders(answer)
  })

  test('the key set and the OpenAPI document can be cached for 5 minutes', async () => {
    for (const path of ['/.well-known/jwks.json', '/openapi.json']) {
      for (const method of ['GET', 'HEAD']) {
        const { status, headers } = await service.call(path, { method })
        expect([status, headers['cache-control']]).toEqual([200, 'public, max-age=300'])
        expectCommonHeaders({ status, headers: { ...headers, 'cache-control': 'no-store' } })
      }
      // Their refusals cannot.
      expect((await service.call(`${path}?a`, { method: 'GET' })).headers['cache-control']).toBe('no-store')
    }
  })

  test('no two responses have the same ID', async () => {
    const ids = await Promise.all(
      Array.from({ length: 5 }, async () => (await service.call('/nothing')).headers['x-request-id']),
    )
    expect(new Set(ids).size).toBe(5)
  })

  test('the ID of a response is never the one that the client sent (ASVS 16.4.1)', async () => {
    const { headers } = await service.call('/nothing', { headers: { 'x-request-id': 'canary' } })
    expect(headers['x-request-id']).not.toBe('canary')
  })

  test('an unforeseen fault is answered 500 without details (ASVS 16.5.1)', async () => {
    const broken = await openTestService()
    await sql`alter table companies rename to firms`.execute(broken.db)
    await sql`drop view accounts`.execute(broken.db)
    const answer = await broken.login(admin)
    expect([answer.status, answer.body.code]).toEqual([500, 'internal_error'])
    expectCommonHeaders(answer)
    expect(JSON.stringify(answer.body)).not.toMatch(/accounts|relation|select|kysely|node_modules| at /i)
    await expect.poll(() => broken.logs.join('')).toMatch(/"code":"42P01"/)
  })

  test('requests are answered 503 with Retry-After while the database is away (ASVS 16.5.2)', async () => {
    const cut = await openTestService()
    const person = await cut.addCompany()
    const { accessToken, refreshToken } = await cut.loginAs(person)
    await cutOff(inject('serverUrl'), new URL(cut.url).pathname.slice(1))
    for (const answer of await Promise.all([
      cut.login(person),
      cut.refresh(refreshToken),
      cut.call('/auth/session', { method: 'GET', token: accessToken }),
      cut.send(person.companyId, secret, event),
    ])) {
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable'])
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
      expectCommonHeaders(answer)
      expect(JSON.stringify(answer.body)).not.toMatch(/connection|postgres|administrator|55000|57P01/i)
    }
  })
})

test('every limited route states its limit, and answers 429 beyond it (ASVS 2.4.1, RFC 6585 section 4)', async () => {
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
  const env = Object.fromEntries(
    Object.entries(limits).map(([name, max]) => [
      `LIMIT_${name.toUpperCase().replaceAll('-', '_')}`,
      `${max}/${WINDOW}`,
    ]),
  )
  const limited = await openTestService({ env: { ...env, RATE_LIMIT_SCALE: '1' } })
  const person = await limited.addCompany()
  const other = await limited.addCompany()
  const first = await limited.loginAs(person)
  const second = await limited.loginAs(person)
  const key = await limited.newSecret(person)
  const readSession = (accessToken: string) =>
    limited.call('/auth/session', { method: 'GET', token: accessToken })
  let { refreshToken } = second
  const rows: [name: keyof typeof limits, told: boolean, () => Promise<Answer>][] = [
    ['sign-in-failures', false, () => limited.login({ ...other, password: 'wrong' })],
    [
      'refresh',
      true,
      async () => {
        const answer = await limited.refresh(refreshToken)
        refreshToken = answer.body.refreshToken ?? refreshToken
        return answer
      },
    ],
    ['ingest', true, () => limited.send(person.companyId, key, event)],
    [
      'regenerate',
      true,
      () => limited.call('/auth/webhook-secret/regenerate', { token: second.accessToken }),
    ],
    ['session', true, () => readSession(first.accessToken)],
    ['bad-signatures', false, () => limited.send(other.companyId, key, event)],
    ['refusals', false, () => readSession('nonsense')],
    ['sign-in-attempts', true, () => limited.login(person)],
    ['anonymous', true, () => limited.call('/.well-known/jwks.json', { method: 'GET' })],
    ['anonymous', true, () => limited.call('/openapi.json', { method: 'GET' })],
    ['anonymous', false, () => limited.call('/nothing')],
    ['anonymous', false, () => limited.call('/openapi.json')],
  ]
  for (const [name, told, ask] of rows) {
    let answer = await ask()
    for (let asked = 1; answer.status !== 429 && asked <= limits[name]; asked += 1) {
      if (told) {
        expect(answer.headers['ratelimit-policy'], name).toBe(`"${name}";q=${limits[name]};w=${WINDOW}`)
        expect(answer.headers['ratelimit'], name).toMatch(new RegExp(`^"${name}";r=\\d+;t=\\d+$`))
      }
      answer = await ask()
    }
    expect([name, answer.status, answer.body.code]).toEqual([name, 429, 'rate_limited'])
    expect(answer.headers['ratelimit-policy']).toBe(`"${name}";q=${limits[name]};w=${WINDOW}`)
    const [, resetSeconds] = /^"[a-z-]+";r=0;t=(\d+)$/.exec(String(answer.headers['ratelimit'])) ?? []
    expect(answer.headers['retry-after'], name).toBe(resetSeconds)
    expect(Number(resetSeconds)).toBeGreaterThan(0)
    expect(Number(resetSeconds)).toBeLessThanOrEqual(WINDOW)
    expectCommonHeaders(answer)
  }
})
