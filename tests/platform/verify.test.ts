import { createHash } from 'node:crypto'
import { describe, expect, inject, test } from 'vitest'
import { changeSubscription, companySecurity } from '../../src/operator/companies.ts'
import { changeUserRole } from '../../src/operator/users.ts'
import { expectProblem } from '../http/problem.ts'
import { exchange } from '../http/raw.ts'
import { cutOff } from '../support/postgres.ts'
import { type Answer, openTestService } from '../support/test-service.ts'

/** Forward authentication: what a reverse proxy is told before it lets a request through. */

const OWN = 'https://auth.example'
const LISTED = 'https://dash.example'
const FOREIGN = 'https://evil.example'

const service = await openTestService({ instances: 2, env: { PUBLIC_URL: OWN, DASHBOARD_ORIGINS: LISTED } })
const admin = await service.addCompany()

type Options = NonNullable<Parameters<typeof service.ask>[1]>
/** As a proxy asks that has received a GET. */
const verify = ({ headers, ...credential }: Options, query = '') =>
  service.ask(`/verify${query}`, {
    method: 'GET',
    ...credential,
    headers: { 'x-original-method': 'GET', ...headers },
  })

/** A refusal as a proxy understands it, with the problem of the interface behind it. */
function expectRefusal(answer: Answer, expected: [401 | 403, string]) {
  expectProblem(answer, expected)
  expect(answer.headers['x-auth-error']).toBe(expected[1])
  expect(answer.headers['www-authenticate'] === undefined).toBe(expected[0] === 403)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.headers['x-auth-user']).toBeUndefined()
}

const sessionOf = async (cookie: string) =>
  await service.db
    .selectFrom('sessions')
    .selectAll()
    .where('cookie_hash', '=', createHash('sha256').update(cookie).digest())
    .executeTakeFirstOrThrow()

describe('a live session', () => {
  test.for(['GET', 'HEAD'])('is told by headers alone, for either credential: %s', async (method) => {
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
        'x-auth-permissions': 'risk:read risk:assess analytics:read',
        'cache-control': 'no-store',
      })
      expect(Object.keys(headers).filter((name) => /^ratelimit|^x-auth-error|set-cookie/.test(name))).toEqual(
        [],
      )
    }
  })

  test('has the words of its rights that a header can carry, whatever operators have stored', async () => {
    const permissions = ['risk:read', 'two words', 'rôle', 'line\nbreak', '']
    await service.db.insertInto('roles').values({ role: 'wächter', permissions }).execute()
    const member = await service.addUser(admin, 'wächter')
    const { headers } = await verify({ cookie: await service.cookieOf(member) })
    expect([headers['x-auth-role'], headers['x-auth-permissions']]).toEqual(['-', 'risk:read'])
  })

  test('sends - for no permissions, because some proxies keep what a client sends instead of nothing', async () => {
    await service.db.insertInto('roles').values({ role: 'guest', permissions: [] }).execute()
    const member = await service.addUser(admin, 'guest')
    const { headers } = await verify({ cookie: await service.cookieOf(member) })
    expect(headers['x-auth-permissions']).toBe('-')
  })

  test('may be asked for a permission, which it has or lacks at that moment (ASVS 8.3.2)', async () => {
    const member = await service.addUser(admin, 'viewer')
    const cookie = await service.cookieOf(member)
    const query = '?permission=risk:assess'
    expectRefusal(await verify({ cookie, at: 1 }, query), [403, 'permission_denied'])
    await changeUserRole(service.context, member.companyId, member, 'developer', service.clock.now())
    const answer = await verify({ cookie, at: 1 }, query)
    expect([answer.status, answer.headers['x-auth-role']]).toEqual([200, 'developer'])
    await changeUserRole(service.context, member.companyId, member, 'viewer', service.clock.now())
    expectRefusal(await verify({ cookie, at: 1 }, query), [403, 'permission_denied'])
  })

  test('may be asked for a feature, which needs a subscription in force', async () => {
    const person = await service.addCompany({ plan: 'growth' })
    const cookie = await service.cookieOf(person)
    const plan = (status: 'past_due' | 'canceled' | 'suspended', plan?: string) =>
      changeSubscription(service.context, person.companyId, { status, plan })
    expect((await verify({ cookie }, '?feature=reviews')).status).toBe(200)
    expectRefusal(await verify({ cookie }, '?feature=graph'), [403, 'feature_not_in_plan'])
    await plan('past_due', 'enterprise')
    expect((await verify({ cookie }, '?feature=graph')).status).toBe(200)
    for (const status of ['canceled', 'suspended'] as const) {
      await plan(status)
      expectRefusal(await verify({ cookie }, '?feature=graph'), [403, 'subscription_inactive'])
      // Whoever is to pay must get to the page for it.
      expect((await verify({ cookie }, '?permission=billing:manage')).status).toBe(200)
    }
  })

  test('that the policy on second factors holds is refused (ASVS 6.3.3)', async () => {
    const person = await service.addCompany()
    const cookie = await service.cookieOf(person)
    expect((await verify({ cookie })).status).toBe(200)
    await companySecurity(service.context, person.companyId, 'everyone', service.clock.now())
    expectRefusal(await verify({ cookie }), [403, 'second_factor_enrolment_required'])
  })

  test('is renewed if it is a cookie, at most once a minute (ASVS 7.3.1)', async () => {
    const cookie = await service.cookieOf(admin)
    const written = async () => (await sessionOf(cookie)).issued_at.getTime()
    const opened = await written()
    service.clock.advance(59)
    await verify({ cookie })
    expect(await written()).toBe(opened)
    service.clock.advance(1)
    await verify({ cookie, at: 1 })
    expect(await written()).toBe(service.clock.now())
  })

  test('is not counted by the limits of clients: the proxy is one, and its clients are many', async () => {
    const limited = await openTestService({
      env: { RATE_LIMIT_SCALE: '1', LIMIT_SESSION: '3/60', LIMIT_REFUSALS: '3/60', LIMIT_ANONYMOUS: '3/60' },
    })
    const { accessToken: token } = await limited.loginAs(await limited.addCompany())
    for (let n = 0; n < 10; n += 1) {
      expect((await limited.ask('/verify', { method: 'GET', token })).status).toBe(200)
      expect((await limited.ask('/verify', { method: 'GET' })).status).toBe(401)
      expect((await limited.ask('/nothing', { method: 'GET' })).status).toBe(404)
    }
    expect((await limited.getSession({ token })).status).toBe(200)
  })
})

describe('a refusal is 401 or 403 alone, with its code in a header:', () => {
  test.for([
    ['no credential', {}, 'missing_credentials'],
    ['a broken token', { token: 'a.b.c' }, 'invalid_token'],
    ['an unknown cookie', { cookie: 'A'.repeat(43) }, 'invalid_token'],
    ['two cookies', { headers: { cookie: '__Host-session=a; __Host-session=b' } }, 'invalid_token'],
    ['a broken token beside a cookie', { cookie: 'a', token: 'b' }, 'invalid_token'],
    ['two tokens', { headers: { authorization: ['Bearer a', 'Bearer b'] } }, 'missing_credentials'],
  ] as const)('401 for %s', async ([, options, code]) => {
    const { headers, ...credential } = { headers: {}, ...options } as Options
    expectRefusal(await verify({ ...credential, headers: { ...headers } }), [401, code])
  })

  test('401 for a session that has ended, with the reason', async () => {
    const cookie = await service.cookieOf(admin)
    await service.call('/auth/logout', { cookie, at: 1 })
    const answer = await verify({ cookie })
    expectProblem({ ...answer, body: { ...answer.body, reason: undefined } }, [401, 'session_ended'])
    expect([answer.headers['x-auth-error'], answer.body.reason]).toEqual(['session_ended', 'logout'])
  })

  test.for([
    '?x=1',
    '?permission=',
    '?permission=risk:read&permission=risk:read',
    '?permission=a%20b',
    '?permission=r%C3%B4le',
    '?permission=%zz',
    '?feature=%ff',
    '?feature=',
    `?feature=${'a'.repeat(101)}`,
    '?__proto__=1',
  ])('403 for a query that is wrong: %s', async (query) => {
    expectRefusal(await verify({ cookie: await service.cookieOf(admin) }, query), [403, 'invalid_request'])
  })

  test('but 503 stays 503, and the code is in the header too', async () => {
    const away = await openTestService()
    const { accessToken: token } = await away.loginAs(await away.addCompany())
    await cutOff(inject('serverUrl'), new URL(away.url).pathname.slice(1))
    const answer = await away.ask('/verify', { method: 'GET', token })
    expectProblem(answer, [503, 'unavailable'])
    expect(answer.headers).toMatchObject({ 'x-auth-error': 'unavailable', 'retry-after': '1' })
  })

  test('405 for another method, 404 for another path', async () => {
    const { accessToken: token } = await service.loginAs(admin)
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']) {
      const answer = await service.ask('/verify', { method, token })
      expectProblem(answer, [405, 'method_not_allowed'])
      expect(answer.headers['allow']).toBe('GET, HEAD')
    }
    expectProblem(await service.ask('/verify/', { method: 'GET', token }), [404, 'not_found'])
  })
})

describe('a cookie that another site made a browser send (ASVS 3.5.1, 3.5.3)', () => {
  const METHODS: [name: string, headers: Record<string, string | string[]>, isSafe: boolean][] = [
    ['GET', { 'x-original-method': 'GET' }, true],
    ['HEAD', { 'x-forwarded-method': 'HEAD' }, true],
    ['GET by both headers', { 'x-original-method': 'GET', 'x-forwarded-method': 'GET' }, true],
    ['POST', { 'x-original-method': 'POST' }, false],
    ['DELETE', { 'x-forwarded-method': 'DELETE' }, false],
    ['OPTIONS', { 'x-original-method': 'OPTIONS' }, false],
    ['a method that nobody knows', { 'x-original-method': 'GETS' }, false],
    ['get in lower case', { 'x-original-method': 'get' }, false],
    ['an empty one', { 'x-original-method': '' }, false],
    ['none', {}, false],
    ['two that differ', { 'x-original-method': 'GET', 'x-forwarded-method': 'POST' }, false],
    ['two that are both safe', { 'x-original-method': 'GET', 'x-forwarded-method': 'HEAD' }, false],
    ['the same twice', { 'x-original-method': ['GET', 'GET'] }, false],
    ['a list', { 'x-forwarded-method': 'GET, GET' }, false],
  ]
  const PAGES: [headers: Record<string, string>, isOurs: boolean][] = [
    [{}, false],
    [{ 'sec-fetch-site': 'same-origin' }, true],
    [{ 'sec-fetch-site': 'same-origin', origin: OWN }, true],
    [{ 'sec-fetch-site': 'same-site' }, false],
    [{ 'sec-fetch-site': 'cross-site', origin: FOREIGN }, false],
    [{ 'sec-fetch-site': 'none' }, false],
    [{ 'sec-fetch-site': 'same-site', origin: LISTED }, true],
    [{ origin: OWN }, true],
    [{ origin: LISTED }, true],
    [{ origin: FOREIGN }, false],
    [{ origin: 'null' }, false],
  ]

  test.for(METHODS)('is judged by the method that the proxy names: %s', async ([, method, isSafe]) => {
    const cookie = await service.cookieOf(admin)
    const { accessToken: token } = await service.loginAs(admin)
    for (const [page, isOurs] of PAGES) {
      const headers = { ...method, ...page }
      const answer = await service.ask('/verify', { method: 'GET', cookie, headers })
      expect([page, answer.status]).toEqual([page, isSafe || isOurs ? 200 : 403])
      if (answer.status === 403) expectRefusal(answer, [403, 'cross_site_request'])
      // No other site can make a browser send a token.
      const bearer = await service.ask('/verify', { method: 'GET', token, headers })
      expect([page, bearer.status]).toEqual([page, 200])
    }
  })

  test.for([
    'Upgrade: websocket',
    'Upgrade: h2c',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-Fetch-Mode: websocket',
  ])(
    'cannot open a WebSocket, whose GET changes nothing and carries every change after it: %s',
    async (header) => {
      const cookie = await service.cookieOf(admin)
      const handshake = async (page: string[]) => {
        const lines = [
          'GET /verify HTTP/1.1',
          'Host: gatehouse',
          // Twice: as what the proxy passes on, and as it comes from a proxy that upgrades its own connection.
          header.startsWith('Upgrade') ? 'Connection: Upgrade, close' : 'Connection: close',
          `Cookie: __Host-session=${cookie}`,
          'X-Original-Method: GET',
          header,
          ...page,
        ]
        const [answer] = await exchange(service.platformAddresses[0] ?? '', `${lines.join('\r\n')}\r\n\r\n`)
        return [answer?.status, answer?.headers['x-auth-error']]
      }
      for (const page of [[], [`Origin: ${FOREIGN}`, 'Sec-Fetch-Site: same-site'], [`Origin: ${FOREIGN}`]])
        expect(await handshake(page)).toEqual([403, 'cross_site_request'])
      for (const page of [[`Origin: ${LISTED}`, 'Sec-Fetch-Site: same-site'], [`Origin: ${OWN}`]])
        expect(await handshake(page)).toEqual([200, undefined])
    },
  )

  test('tells nothing of its session, and does not renew it', async () => {
    const cookie = await service.cookieOf(admin)
    service.clock.advance(120)
    const before = await sessionOf(cookie)
    for (const value of [cookie, 'A'.repeat(43)]) {
      const answer = await service.ask('/verify', { method: 'GET', cookie: value })
      expectRefusal(answer, [403, 'cross_site_request'])
    }
    expect(await sessionOf(cookie)).toEqual(before)
  })
})

test('a proxy may pass on more and longer headers than clients may send', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const { status } = await verify({ token, headers: { cookie: `a=${'x'.repeat(40_000)}` } })
  expect(status).toBe(200)
})

test.each([['Content-Length: 4'], ['Content-Length: 100000'], ['Transfer-Encoding: chunked']])(
  'a body that a proxy announces with %s is not waited for',
  async (announcement) => {
    const { accessToken } = await service.loginAs(admin)
    for (const [method, token, expected] of [
      ['GET', accessToken, 200],
      ['HEAD', accessToken, 200],
      ['GET', 'x', 401],
    ] as const) {
      const lines = [`${method} /verify HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`, announcement]
      const answers = await exchange(service.platformAddresses[0] ?? '', `${lines.join('\r\n')}\r\n\r\n`)
      // What comes next on the connection could be the body.
      expect(answers.map(({ status, headers }) => [status, headers['connection']])).toEqual([
        [expected, 'close'],
      ])
    }
  },
)

test('a connection of a proxy that announces no body stays open', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const { headers } = await verify({ token, headers: { 'content-length': '0' } })
  expect(headers['connection']).toBe('keep-alive')
})
