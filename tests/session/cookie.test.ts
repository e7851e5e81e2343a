import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { expectProblem } from '../support/problem.ts'
import { COOKIE_MODE, cookieFrom } from '../support/second-factors.ts'
import { openTestService, times } from '../support/test-service.ts'
import { auditOfSession, ended } from './state.ts'

const OWN = 'https://auth.example'
const LISTED = 'https://dash.example'
const FOREIGN = 'https://evil.example'
const HOUR = 3600

const service = await openTestService({ instances: 2, env: { PUBLIC_URL: OWN, DASHBOARD_ORIGINS: LISTED } })
const admin = await service.addCompany()

const sessionOf = async (cookie: string) =>
  await service.db
    .selectFrom('sessions')
    .selectAll()
    .where('cookie_hash', '=', createHash('sha256').update(cookie).digest())
    .executeTakeFirstOrThrow()

/** Sends a Cookie header unchanged. Several values are sent as several headers. */
const getWith = (cookie: string | string[]) => service.getSession({ headers: { cookie } })

test('the session cookie is opaque and strict, and comes without tokens (ASVS 3.3.1, 3.3.2, 3.3.3, 3.3.4, 3.3.5)', async () => {
  const { status, headers, body } = await service.login(admin, { headers: COOKIE_MODE })
  expect(status).toBe(200)
  const [pair, ...attributes] = String(headers['set-cookie']?.[0]).split('; ')
  expect(pair).toMatch(/^__Host-session=[A-Za-z0-9_-]{43}$/)
  expect(attributes.sort()).toEqual(['HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure'])
  for (const token of ['accessToken', 'refreshToken']) expect(body).not.toHaveProperty(token)
  const [createdAt, expiresAt] = [0, 12 * HOUR].map((seconds) =>
    new Date(service.clock.now() + seconds * 1000).toISOString(),
  )
  expect(body.session).toEqual({ id: expect.any(String), createdAt, expiresAt })
  const { session: _session, ...account } = body
  expect((await service.getSession({ cookie: cookieFrom({ headers }) })).body).toMatchObject(account)
})

test('the session cookie is found among others, and similar names are ignored (ASVS 3.3.3)', async () => {
  const cookie = `__Host-session=${await service.cookieOf(admin)}`
  const planted = await service.cookieOf(await service.addUser(admin))
  const names = ['__HOST-SESSION', '__Host-session2', '__Secure-session', '__Host%2Dsession']
  for (const name of [...names, '\u00a0__Host-session', '"__Host-session"']) {
    const similar = `${name}=${planted}`
    expect((await getWith(similar)).body.code).toBe('missing_credentials')
    for (const header of [`${similar}; ${cookie}`, `${cookie}; ${similar}`, [similar, cookie]])
      expect([name, (await getWith(header)).body.user?.id]).toEqual([name, admin.userId])
  }
})

const session = '__Host-session='
test.for<[what: string, cookie: (good: string) => string | string[]]>([
  ['unknown', () => session + 'A'.repeat(43)],
  ['empty', () => session],
  ['too short', (good) => session + good.slice(1)],
  ['of a different alphabet', () => session + '+'.repeat(43)],
  ['of a few kilobytes', () => session + 'A'.repeat(4000)],
  ['in quotes', (good) => `${session}"${good}"`],
  ['percent-encoded', (good) => `${session}%${good.charCodeAt(0).toString(16)}${good.slice(1)}`],
  ['padded', (good) => `${session}${good}=`],
  ['followed by a word', (good) => `${session}${good} x`],
  // An attacker planted one of the two.
  ['there twice', (good) => `${session}${good}; a=1; ${session}${good}`],
  ['next to an empty one', (good) => `${session}${good};${session}`],
  ['next to a different one', (good) => [session + good, session + 'A'.repeat(43)]],
])('a session cookie that is %s is refused (ASVS 3.3.3)', async ([, cookieOf]) => {
  expectProblem(await getWith(cookieOf(await service.cookieOf(admin))), [401, 'invalid_token'])
})

test('an Authorization header overrides the session cookie (ASVS 15.3.7)', async () => {
  const live = `__Host-session=${await service.cookieOf(await service.addUser(admin))}`
  const { accessToken } = await service.loginAs(admin)
  for (const cookie of [live, '__Host-session=dead', '__Host-session=a; __Host-session=b']) {
    for (const [authorization, expected] of [
      [`Bearer ${accessToken}`, undefined],
      ['Bearer x', 'invalid_token'],
      ['Basic eDp5', 'missing_credentials'],
      ['', 'missing_credentials'],
    ] as const) {
      const { status, headers, body } = await service.getSession({ headers: { cookie, authorization } })
      expect([status, body.code]).toEqual([expected ? 401 : 200, expected])
      expect(body.user?.id).toBe(expected ? undefined : admin.userId)
      expect(headers['set-cookie']).toBeUndefined()
    }
  }
})

test('the cookie expires only by a 401 that it caused', async () => {
  const dead = await service.cookieOf(admin)
  await service.call('/auth/logout', { cookie: dead })
  const live = await service.cookieOf(admin)
  for (const values of [[dead], ['A'.repeat(43)], [live, live]]) {
    const { status, headers } = await getWith(values.map((value) => session + value).join('; '))
    expect(status).toBe(401)
    expect(headers['set-cookie']).toMatch(/^__Host-session=; Max-Age=0; Path=\/; .*Secure/)
  }
  for (const answer of [
    await getWith('session=x'),
    await service.call('/auth/logout', { cookie: dead, headers: { origin: FOREIGN } }),
    await service.call('/auth/logout', { cookie: live, headers: { 'x-session-id': 'x' } }),
  ])
    expect(answer.headers['set-cookie']).toBeUndefined()
  expect((await service.getSession({ cookie: live })).status).toBe(200)
})

test('cookies are not tokens, and tokens are not cookies (ASVS 9.2.2)', async () => {
  const cookie = await service.cookieOf(admin)
  const { accessToken, refreshToken } = await service.loginAs(admin)
  for (const credential of [{ token: cookie }, { cookie: accessToken }, { cookie: refreshToken }])
    expectProblem(await service.getSession(credential), [401, 'invalid_token'])
  expectProblem(await service.refresh(cookie), [401, 'invalid_token'])
  expect((await service.call('/auth/refresh', { cookie })).body.code).toBe('missing_credentials')
  expect((await service.getSession({ cookie })).status).toBe(200)
})

test.for(['Cookie', ''])('sign-in refuses the session mode %j and sets no cookie', async (mode) => {
  const { status, headers } = await service.login(admin, { headers: { 'x-session-mode': mode } })
  expect([status, headers['set-cookie']]).toEqual([400, undefined])
})

const expiresAt = async (cookie: string, at = 0) => {
  const { status, body } = await service.getSession({ cookie, at })
  expect(status).toBe(200)
  return Date.parse(body.session.expiresAt)
}

test('a cookie session ends after 12 unused hours or seven days (ASVS 7.3.1, 7.3.2)', async () => {
  const unused = await service.cookieOf(admin)
  service.clock.advance(12 * HOUR)
  expect(await service.getSession({ cookie: unused })).toMatchObject(ended('expired'))

  const cookie = await service.cookieOf(admin)
  const end = service.clock.now() + 7 * 24 * HOUR * 1000
  for (let use = 0; use < 14; use += 1) {
    service.clock.advance(12 * HOUR - 1)
    expect(await expiresAt(cookie, use % 2)).toBe(Math.min(end, service.clock.now() + 12 * HOUR * 1000))
  }
  service.clock.advance(14)
  for (const at of [0, 1]) expect(await service.getSession({ cookie, at })).toMatchObject(ended('expired'))
})

test('a refused request does not renew the cookie session', async () => {
  const cookie = await service.cookieOf(admin)
  service.clock.advance(12 * HOUR - 60)
  const before = await sessionOf(cookie)
  await service.getSession({ cookie, headers: { authorization: 'Bearer x' } })
  await service.call('/auth/webhook-secret/status', { cookie, headers: { origin: FOREIGN } })
  await getWith(`__Host-session=${cookie}; __Host-session=${cookie}`)
  expect(await sessionOf(cookie)).toEqual(before)
})

test('concurrent requests renew a cookie session once a minute', async () => {
  const cookie = await service.cookieOf(admin)
  const written = async () => (await sessionOf(cookie)).issued_at.getTime()
  const opened = await written()
  for (const seconds of [0, 30, 29]) {
    service.clock.advance(seconds)
    await service.getSession({ cookie, at: 1 })
    expect(await written()).toBe(opened)
  }
  service.clock.advance(1)
  await sql`create table renewals as select session_id from sessions where false`.execute(service.db)
  await sql`create function note_renewal() returns trigger language plpgsql as
      $$ begin insert into renewals values (new.session_id); return null; end $$`.execute(service.db)
  await sql`create trigger renewed after update on sessions
      for each row execute function note_renewal()`.execute(service.db)
  const answers = await Promise.all(times(20, (i) => service.getSession({ cookie, at: i % 2 })))
  expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
  expect(await written()).toBe(service.clock.now())
  expect((await sql`select from renewals`.execute(service.db)).rows.length).toBe(1)
  service.clock.advance(59)
  await service.getSession({ cookie })
  expect(await written()).toBe(service.clock.now() - 59_000)
})

const headersOf = ({ site, origin }: { site?: string | undefined; origin?: string | undefined }) => ({
  ...(site !== undefined && { 'sec-fetch-site': site }),
  ...(origin !== undefined && { origin }),
})

test('a cookie authorizes requests only from our pages (ASVS 3.5.1, 3.5.3)', async () => {
  const cookie = await service.cookieOf(admin)
  const sites = [undefined, 'same-origin', 'same-site', 'cross-site', 'none', 'same-origin, cross-site']
  const origins = [undefined, OWN, LISTED, FOREIGN, 'null', `${OWN}:8443`, 'http://auth.example']
  for (const site of sites) {
    for (const origin of origins) {
      const withoutSite = origin === undefined || origin === OWN
      const isOurs = origin === LISTED || (site === undefined ? withoutSite : site === 'same-origin')
      const headers = headersOf({ site, origin })
      const { status, body } = await service.call('/auth/webhook-secret/status', { cookie, headers })
      const expected = isOurs ? [200, undefined] : [403, 'cross_site_request']
      expect([site, origin, status, body.code]).toEqual([site, origin, ...expected])
    }
  }
})

const foreign = headersOf({ site: 'cross-site', origin: FOREIGN })

test('a different site can use tokens, but neither get nor probe cookies', async () => {
  const cookie = await service.cookieOf(admin)
  expect((await service.getSession({ cookie, headers: foreign })).status).toBe(200)
  const { status, headers, body } = await service.login(admin, { headers: foreign })
  expect([status, headers['set-cookie']]).toEqual([200, undefined])
  const act = { token: body.accessToken, headers: foreign }
  expect((await service.call('/auth/webhook-secret/status', act)).status).toBe(200)
  const refused = await service.login(admin, { headers: { ...foreign, ...COOKIE_MODE } })
  expectProblem(refused, [403, 'cross_site_request'])
  expect(refused.headers['set-cookie']).toBeUndefined()
  const listed = headersOf({ site: 'cross-site', origin: LISTED })
  expect((await service.login(admin, { headers: { ...listed, ...COOKIE_MODE } })).status).toBe(200)
  // An ended cookie looks like one that never existed.
  await service.call('/auth/logout', { cookie })
  const siteOnly = headersOf({ site: 'cross-site' })
  for (const dead of [cookie, 'A'.repeat(43)]) {
    const answer = await service.call('/auth/logout', { cookie: dead, headers: siteOnly })
    expectProblem(answer, [403, 'cross_site_request'])
  }
})

const signInWith = (cookie: string, person = admin) =>
  service.login(person, { headers: { ...COOKIE_MODE, cookie } })

test('sign-in always issues a new cookie, and ends the replaced session (ASVS 7.2.4)', async () => {
  const [former, other] = [await service.cookieOf(admin), await service.cookieOf(admin)]
  const { session_id: formerId } = await sessionOf(former)
  const planted = await service.cookieOf(await service.addUser(admin))
  for (const value of [former, planted, 'B'.repeat(43)]) {
    const cookie = cookieFrom(await signInWith(`__Host-session=${value}`))
    expect(cookie).not.toBe(value)
    for (const live of [other, cookie])
      expect((await service.getSession({ cookie: live })).body.user.id).toBe(admin.userId)
    expect((await service.getSession({ cookie: value })).status).toBe(401)
  }
  for (const at of [1, 0])
    expect(await service.getSession({ cookie: former, at })).toMatchObject(ended('logout'))
  const entry = { action: 'logout', outcome: 'done', actor: admin.userId }
  expect(await auditOfSession(service, formerId)).toMatchObject([entry])
})

test('a failed sign-in or one by token keeps the cookie session', async () => {
  const former = await service.cookieOf(admin)
  const cookie = `__Host-session=${former}`
  expect((await signInWith(cookie, { ...admin, password: 'not the password' })).status).toBe(401)
  expect((await service.login(admin, { headers: { cookie } })).status).toBe(200)
  expect((await service.getSession({ cookie: former })).status).toBe(200)
})
