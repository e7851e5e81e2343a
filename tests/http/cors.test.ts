import { describe, expect, test } from 'vitest'
import { type Answer, openTestService } from '../support/test-service.ts'

const LISTED = 'https://app.example.com'

const service = await openTestService({
  env: { DASHBOARD_ORIGINS: `${LISTED},https://admin.example.com` },
})
const admin = await service.addCompany()
const { accessToken: token } = await service.loginAs(admin)

describe('CORS (ASVS 3.4.2):', () => {
  const corsOf = ({ headers }: Answer) =>
    Object.keys(headers).filter((name) => name.startsWith('access-control-'))
  const requests: [string, (origin: string) => Promise<Answer>][] = [
    ['a read', (origin) => service.call('/auth/session', { method: 'GET', token, headers: { origin } })],
    ['a refusal', (origin) => service.call('/auth/session', { method: 'GET', headers: { origin } })],
    ['a sign-in', (origin) => service.login(admin, { headers: { origin } })],
    ['an unknown path', (origin) => service.call('/nothing', { headers: { origin } })],
    ['a broken escape', (origin) => service.call('/%zz', { method: 'GET', headers: { origin } })],
    [
      'an ID of 300 characters',
      (origin) =>
        service.call(`/auth/sessions/${'a'.repeat(300)}`, { method: 'DELETE', token, headers: { origin } }),
    ],
    [
      'headers of 20 KB',
      (origin) =>
        service.call('/auth/session', { method: 'GET', headers: { origin, 'x-long': 'x'.repeat(20_000) } }),
    ],
    [
      'a preflight',
      (origin) =>
        service.call('/auth/logout', {
          method: 'OPTIONS',
          headers: {
            origin,
            'access-control-request-method': 'POST',
            'access-control-request-headers': 'authorization',
          },
        }),
    ],
  ]

  test('listed origins can read every response, with credentials', async () => {
    const statuses: number[] = []
    for (const [name, ask] of requests) {
      const { status, headers } = await ask(LISTED)
      statuses.push(status)
      expect([name, headers['access-control-allow-origin']]).toEqual([name, LISTED])
      expect(headers['access-control-allow-credentials']).toBe('true')
      expect(headers['vary']).toMatch(/origin/i)
    }
    expect(statuses).toEqual([200, 401, 200, 404, 400, 400, 431, 204])
    const other = 'https://admin.example.com'
    const { headers } = await service.call('/nothing', { headers: { origin: other } })
    expect(headers['access-control-allow-origin']).toBe(other)
  })

  test.for([
    ['a guarded path', '/auth/webhook-secret/status'],
    ['an unknown path', '/nothing'],
    ['a broken escape', '/%zz'],
    ['a long ID', `/auth/sessions/${'a'.repeat(300)}`],
  ] as const)('a preflight for %s allows the headers that it names', async ([, path]) => {
    // Tracing libraries of pages add the last three.
    const names = 'authorization,content-type,x-session-id,traceparent,baggage,sentry-trace'
    const { status, headers } = await service.call(path, {
      method: 'OPTIONS',
      headers: {
        origin: LISTED,
        'access-control-request-method': 'POST',
        'access-control-request-headers': names,
      },
    })
    expect(status).toBe(204)
    expect(headers['access-control-allow-methods']).toBe('GET, POST, PATCH, DELETE')
    expect(headers['access-control-allow-headers']).toBe(names)
  })

  test('no response has a CORS header for an origin that is not listed', async () => {
    for (const [name, ask] of requests)
      expect([name, corsOf(await ask('https://evil.example'))]).toEqual([name, []])
  })

  test.for([
    'null',
    '*',
    'http://app.example.com',
    'https://app.example.com:8443',
    'https://app.example.com.evil.example',
    'https://x.app.example.com',
    'https://APP.example.com',
    `${LISTED}/`,
    `${LISTED}, https://evil.example`,
    '',
  ])('the origin "%s" is not a listed one', async (origin) => {
    expect(corsOf(await service.call('/nothing', { headers: { origin } }))).toEqual([])
  })

  test('no response has a CORS header without a listed or a sent origin', async () => {
    const closed = await openTestService()
    for (const method of ['GET', 'OPTIONS']) {
      const headers = { origin: LISTED, 'access-control-request-method': 'GET' }
      expect(corsOf(await closed.call('/auth/session', { method, headers }))).toEqual([])
    }
    expect(corsOf(await service.login(admin))).toEqual([])
  })
})
