import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { changeSubscription, companySecurity } from '../../src/operator/companies.ts'
import { changeUserRole } from '../../src/operator/users.ts'
import { expectProblem } from '../support/problem.ts'
import { exchange } from '../support/raw.ts'
import { type Answer, openTestService } from '../support/test-service.ts'

/** Forward authentication: a reverse proxy's check before it forwards a request. */

const OWN = 'https://auth.example'
const LISTED = 'https://dash.example'
const FOREIGN = 'https://evil.example'

const service = await openTestService({ instances: 2, env: { PUBLIC_URL: OWN, DASHBOARD_ORIGINS: LISTED } })
const admin = await service.addCompany()

type Options = NonNullable<Parameters<typeof service.ask>[1]>
/** As a proxy requests it for a GET. */
const verify = ({ headers, ...credential }: Options, query = '') =>
  service.ask(`/verify${query}`, {
    method: 'GET',
    ...credential,
    headers: { 'x-original-method': 'GET', ...headers },
  })

/** A refusal for proxies, with the problem of the API in its body. */
function expectRefusal(answer: Answer, expected: [401 | 403, string]) {
  expectProblem(answer, expected)
  expect(answer.headers['x-auth-error']).toBe(expected[1])
  expect(answer.headers['www-authenticate'] === undefined).toBe(expected[0] === 403)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.headers['x-auth-user']).toBeUndefined()
}

async function sessionOf(cookie: string) {
  const hash = createHash('sha256').update(cookie).digest()
  const sessions = service.db.selectFrom('sessions').selectAll().where('cookie_hash', '=', hash)
  return await sessions.executeTakeFirstOrThrow()
}

const exchangeWith = (line: string, headers: string[]) =>
  exchange(service.platformAddresses[0] ?? '', `${[line, ...headers].join('\r\n')}\r\n\r\n`)

test.for(['GET', 'HEAD'])(
  "a proxy gets an active session's user in headers only, by %s (ASVS 8.3.3)",
  async (method) => {
    const member = await service.addUser(admin, 'developer')
    const { accessToken, session } = await service.loginAs(member)
    const cookie = await service.cookieOf(member)
    const { session_id } = await sessionOf(cookie)
    for (const [credential, id] of [
      [{ token: accessToken }, session.id],
      [{ cookie }, session_id],
    ] as const) {
      const { status, headers, body } = await verify({ ...credential, method })
      expect([status, body]).toEqual([200, ''])
      expect(headers).toMatchObject({
        'x-auth-company': admin.companyId,
        'x-auth-user': member.userId,
        'x-auth-session': id,
        'x-auth-role': 'developer',
        'x-auth-permissions': 'risk:read risk:assess analytics:read events:inspect',
        'cache-control': 'no-store',
      })
      const unwanted = Object.keys(headers).filter((name) => /^ratelimit|^x-auth-error|set-cookie/.test(name))
      expect(unwanted).toEqual([])
    }
  },
)

// Without a value, some proxies would keep the client's header.
test.for<[role: string, permissions: string[], headers: string[]]>([
  ['wächter', ['risk:read', 'two words', 'rôle', 'line\nbreak', ''], ['-', 'risk:read']],
  ['guest', [], ['guest', '-']],
])('the role %s is sent as ASCII words, or as -', async ([role, permissions, expected]) => {
  await service.db.insertInto('roles').values({ role, permissions }).execute()
  const member = await service.addUser(admin, 'viewer')
  const cookie = await service.cookieOf(member)
  await changeUserRole(service.context, member.companyId, member, role)
  const { headers } = await verify({ cookie })
  expect([headers['x-auth-role'], headers['x-auth-permissions']]).toEqual(expected)
})

test('a required permission is checked against the current role (ASVS 8.3.2, 10.3.2)', async () => {
  const member = await service.addUser(admin, 'viewer')
  const cookie = await service.cookieOf(member)
  const query = '?permission=risk:assess'
  expectRefusal(await verify({ cookie, at: 1 }, query), [403, 'permission_denied'])
  await changeUserRole(service.context, member.companyId, member, 'developer')
  const { status, headers } = await verify({ cookie, at: 1 }, query)
  expect([status, headers['x-auth-role']]).toEqual([200, 'developer'])
})

test('a required feature needs an active subscription to a plan with it', async () => {
  const person = await service.addCompany({ plan: 'growth' })
  const cookie = await service.cookieOf(person)
  const ask = (query: string) => verify({ cookie }, query)
  const change = (status: 'past_due' | 'canceled' | 'suspended', plan?: string) =>
    changeSubscription(service.context, person.companyId, { status, plan })
  expect((await ask('?feature=reviews')).status).toBe(200)
  expectRefusal(await ask('?feature=graph'), [403, 'feature_not_in_plan'])
  await change('past_due', 'enterprise')
  expect((await ask('?feature=graph')).status).toBe(200)
  for (const status of ['canceled', 'suspended'] as const) {
    await change(status)
    expectRefusal(await ask('?feature=graph'), [403, 'subscription_inactive'])
    // Users must still reach the page where they can pay.
    expect((await ask('?permission=billing:manage')).status).toBe(200)
  }
})

test('a session that must enroll a second factor is refused (ASVS 6.3.3)', async () => {
  const person = await service.addCompany()
  const cookie = await service.cookieOf(person)
  expect((await verify({ cookie })).status).toBe(200)
  await companySecurity(service.context, person.companyId, { secondFactor: 'everyone' })
  expectRefusal(await verify({ cookie }), [403, 'second_factor_enrolment_required'])
})

test("client limits do not count a proxy's requests", async () => {
  const limited = await openTestService({
    env: { RATE_LIMIT_SCALE: '1', LIMIT_SESSION: '3/60', LIMIT_REFUSALS: '3/60', LIMIT_ANONYMOUS: '3/60' },
  })
  const { accessToken: token } = await limited.loginAs(await limited.addCompany())
  for (let n = 0; n < 5; n += 1) {
    expect((await limited.ask('/verify', { method: 'GET', token })).status).toBe(200)
    expect((await limited.ask('/verify', { method: 'GET' })).status).toBe(401)
    expect((await limited.ask('/nothing', { method: 'GET' })).status).toBe(404)
  }
  expect((await limited.getSession({ token })).status).toBe(200)
})

test.for<[code: string, options: Options]>([
  ['missing_credentials', {}],
  ['missing_credentials', { headers: { authorization: ['Bearer a', 'Bearer b'] } }],
  ['invalid_token', { token: 'a.b.c' }],
  ['invalid_token', { cookie: 'a', token: 'b' }],
  ['invalid_token', { headers: { cookie: '__Host-session=a; __Host-session=b' } }],
])('a refusal returns 401 with the code %s in a header', async ([code, options]) => {
  expectRefusal(await verify(options), [401, code])
})

test('the refusal of an ended session includes the reason', async () => {
  const cookie = await service.cookieOf(admin)
  await service.call('/auth/logout', { cookie, at: 1 })
  const { body, ...answer } = await verify({ cookie })
  expectRefusal({ ...answer, body: { ...body, reason: undefined } }, [401, 'session_ended'])
  expect(body.reason).toBe('logout')
})

test('an invalid query is refused with 403', async () => {
  const cookie = await service.cookieOf(admin)
  const twice = 'permission=risk:read&permission=risk:read'
  const queries = ['x=1', 'permission=', twice, 'permission=a%20b', 'permission=r%C3%B4le', 'feature=%ff']
  for (const query of [...queries, `feature=${'a'.repeat(101)}`])
    expectRefusal(await verify({ cookie }, `?${query}`), [403, 'invalid_request'])
})

describe('a cookie in requests from a different site (ASVS 3.5.1, 3.5.3)', () => {
  const FOREIGN_PAGE = { 'sec-fetch-site': 'cross-site', origin: FOREIGN }
  const OUR_PAGES = [{ origin: OWN }, { origin: LISTED, 'sec-fetch-site': 'same-site' }]

  test.for<[name: string, headers: Record<string, string | string[]>, isSafe: boolean]>([
    ['GET', { 'x-original-method': 'GET' }, true],
    ['HEAD', { 'x-forwarded-method': 'HEAD' }, true],
    ['GET by both headers', { 'x-original-method': 'GET', 'x-forwarded-method': 'GET' }, true],
    ['OPTIONS', { 'x-original-method': 'OPTIONS' }, false],
    ['DELETE', { 'x-forwarded-method': 'DELETE' }, false],
    ['get in lower case', { 'x-original-method': 'get' }, false],
    ['no method', {}, false],
    ['two methods', { 'x-original-method': 'GET', 'x-forwarded-method': 'POST' }, false],
    ['two safe methods', { 'x-original-method': 'GET', 'x-forwarded-method': 'HEAD' }, false],
    ['one method twice', { 'x-original-method': ['GET', 'GET'] }, false],
    ['a list', { 'x-forwarded-method': 'GET, GET' }, false],
  ])('a proxy that names %s lets different sites pass only if safe', async ([, method, isSafe]) => {
    const cookie = await service.cookieOf(admin)
    const { accessToken: token } = await service.loginAs(admin)
    const ask = (credential: Options, page: object) =>
      service.ask('/verify', { method: 'GET', ...credential, headers: { ...method, ...page } })
    for (const page of [{}, FOREIGN_PAGE]) {
      const answer = await ask({ cookie }, page)
      if (isSafe) expect(answer.status).toBe(200)
      else expectRefusal(answer, [403, 'cross_site_request'])
    }
    for (const page of OUR_PAGES) expect((await ask({ cookie }, page)).status).toBe(200)
    // A different site cannot make a browser send a token.
    expect((await ask({ token }, FOREIGN_PAGE)).status).toBe(200)
  })

  const UPGRADES = [
    'Upgrade: h2c',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-Fetch-Mode: websocket',
  ]
  test.for(UPGRADES)('a different site cannot open a WebSocket: %s (RFC 6455, 10.2)', async (header) => {
    const cookie = `Cookie: __Host-session=${await service.cookieOf(admin)}`
    // With an Upgrade header, the proxy upgrades its own connection too.
    const connection = `Connection: ${header.startsWith('Upgrade') ? 'Upgrade, ' : ''}close`
    const handshake = async (...page: string[]) => {
      const lines = ['Host: x', connection, cookie, 'X-Original-Method: GET', header, ...page]
      const [answer] = await exchangeWith('GET /verify HTTP/1.1', lines)
      return [answer?.status, answer?.headers['x-auth-error']]
    }
    expect(await handshake()).toEqual([403, 'cross_site_request'])
    expect(await handshake(`Origin: ${FOREIGN}`)).toEqual([403, 'cross_site_request'])
    expect(await handshake(`Origin: ${LISTED}`, 'Sec-Fetch-Site: same-site')).toEqual([200, undefined])
  })

  test('a refused page neither learns about the cookie nor renews it (ASVS 7.3.1)', async () => {
    const cookie = await service.cookieOf(admin)
    service.clock.advance(120)
    const before = await sessionOf(cookie)
    for (const value of [cookie, 'A'.repeat(43)]) {
      const answer = await service.ask('/verify', { method: 'GET', cookie: value })
      expectRefusal(answer, [403, 'cross_site_request'])
    }
    expect(await sessionOf(cookie)).toEqual(before)
    await verify({ cookie })
    expect((await sessionOf(cookie)).issued_at.getTime()).toBe(service.clock.now())
  })
})

test('a proxy may forward longer headers than clients may send', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  expect((await verify({ token, headers: { cookie: `a=${'x'.repeat(40_000)}` } })).status).toBe(200)
})

test.for(['Content-Length: 4', 'Transfer-Encoding: chunked'])(
  'a body that a proxy announces with %s is not awaited',
  async (announcement) => {
    const { accessToken: token } = await service.loginAs(admin)
    for (const [method, bearer, status] of [
      ['GET', token, 200],
      ['HEAD', token, 200],
      ['GET', 'x', 401],
    ] as const) {
      const lines = ['Host: x', `Authorization: Bearer ${bearer}`, announcement]
      const answers = await exchangeWith(`${method} /verify HTTP/1.1`, lines)
      // The next bytes on the connection could be the body.
      expect(answers).toMatchObject([{ status, headers: { connection: 'close' } }])
    }
    const { headers } = await verify({ token, headers: { 'content-length': '0' } })
    expect(headers['connection']).toBe('keep-alive')
  },
)
