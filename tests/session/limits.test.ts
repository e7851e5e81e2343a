import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { listAudit } from '../support/audit.ts'
import { addClient, introspect } from '../support/platform.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { COOKIE_MODE, type Credential, claimsOf, must, useFactorService } from '../support/second-factors.ts'
import { countWaiting, createClock, openTestService, PASSWORD, type Person } from '../support/test-service.ts'
import { auditOfSession, ended } from './state.ts'

/** A company can shorten the sessions of its members (ASVS 7.3.1, 7.3.2). */

const service = await useFactorService()
const { call, clock } = service
const client = await addClient(service)
const INSTANCES = [0, 1]
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400]
const EXPIRED = ended('expired')

const security = '/auth/company/security'
const seconds = (time = clock.now()) => Math.floor(time / 1000)

interface Limits {
  sessionIdleSeconds?: number | null
  sessionMaxAgeSeconds?: number | null
}

/** Sets the limits in a new session. */
async function limit(admin: Person, json: Limits, at = 0) {
  const { accessToken: token } = await service.loginAs(admin, { at })
  return await must(call(security, { method: 'PATCH', token, json, at }))
}

const activity = async (credential: string, at = 0) =>
  (await introspect(service, client, credential, at)).body
const verify = (credential: Credential, at = 0) =>
  service.ask('/verify', { method: 'GET', headers: { 'x-original-method': 'GET' }, at, ...credential })

async function expectLive(credential: Credential) {
  for (const at of INSTANCES) {
    expect((await service.getSession({ ...credential, at })).status).toBe(200)
    expect((await verify(credential, at)).status).toBe(200)
    expect((await activity(credential.token ?? credential.cookie ?? '', at)).active).toBe(true)
  }
}

/** Ends in each statement that judges a session. Signing out is the last, because it would end a live one. */
async function expectExpired(credential: Credential) {
  for (const at of INSTANCES) {
    expect(await service.getSession({ ...credential, at })).toMatchObject(EXPIRED)
    expect(await verify(credential, at)).toMatchObject(EXPIRED)
    expect(await activity(credential.token ?? credential.cookie ?? '', at)).toEqual({ active: false })
  }
  for (const at of INSTANCES) expect(await call('/auth/logout', { ...credential, at })).toMatchObject(EXPIRED)
}

test('a company sets, raises, and removes its session limits, which is audited (ASVS 16.2.1)', async () => {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  await service.addTotp({ token })
  const none = { secondFactor: 'optional', sessionIdleSeconds: null, sessionMaxAgeSeconds: null }
  const read = async () => {
    const { concerned: _, ...settings } = await must(call(security, { method: 'GET', token, at: 1 }))
    return settings
  }
  expect(await read()).toEqual(none)
  const changes = [
    { sessionIdleSeconds: 900, sessionMaxAgeSeconds: 43_200 },
    { sessionIdleSeconds: 300 },
    { sessionMaxAgeSeconds: 2_592_000, secondFactor: 'admins' },
    { sessionIdleSeconds: null, secondFactor: 'optional' },
    { sessionIdleSeconds: 604_800 },
    { sessionIdleSeconds: null, sessionMaxAgeSeconds: null },
  ]
  let settings: Record<string, unknown> = none
  const expected = []
  for (const json of changes) {
    const names = Object.keys(json)
    const before = Object.fromEntries(names.map((name) => [name, settings[name]]))
    expected.push({ actor: admin.userId, outcome: 'done', details: { before, after: json } })
    settings = { ...settings, ...json }
    // Entries of the same time have no order.
    clock.advance(1)
    expect(await must(call(security, { method: 'PATCH', token, json }))).toMatchObject(settings)
    expect(await read()).toEqual(settings)
  }
  // A request that changes nothing is not a change.
  await must(call(security, { method: 'PATCH', token, json: { sessionIdleSeconds: null } }))
  expect(await listAudit(service.db, 'security_policy', admin)).toMatchObject(expected)
})

test.for<[path: string, json: object]>([
  ['/sessionIdleSeconds', { sessionIdleSeconds: 299 }],
  ['/sessionIdleSeconds', { sessionIdleSeconds: 604_801 }],
  ['/sessionIdleSeconds', { sessionIdleSeconds: 900.5 }],
  ['/sessionIdleSeconds', { sessionIdleSeconds: '900' }],
  ['/sessionIdleSeconds', { sessionIdleSeconds: 7201 }],
  ['/sessionMaxAgeSeconds', { sessionMaxAgeSeconds: 899 }],
  ['/sessionMaxAgeSeconds', { sessionMaxAgeSeconds: 2_592_001 }],
  ['/sessionMaxAgeSeconds', { sessionMaxAgeSeconds: 3599 }],
  ['/sessionMaxAgeSeconds', { sessionIdleSeconds: 1800, sessionMaxAgeSeconds: 1799 }],
  ['/sessionMaxAgeSeconds', { sessionIdleSeconds: 300, sessionMaxAgeSeconds: false }],
  ['/sessionMaxAgeSecond', { sessionIdleSeconds: 300, sessionMaxAgeSecond: 900 }],
  ['', {}],
])('a change with a wrong value at %j changes nothing: %j', async ([path, json]) => {
  const admin = await service.addCompany()
  const before = await limit(admin, { sessionIdleSeconds: 3600, sessionMaxAgeSeconds: 7200 })
  const { accessToken: token } = await service.loginAs(admin)
  const settings = Object.keys(json).length > 0 ? { ...json, secondFactor: 'everyone' } : json
  const answer = await call(security, { method: 'PATCH', token, json: settings })
  expectField(answer, path)
  expect(await must(call(security, { method: 'GET', token }))).toEqual(before)
})

test('the maximum age is never lower than the idle limit, even by concurrent changes', async () => {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const bodies = [{ sessionIdleSeconds: 3600 }, { sessionMaxAgeSeconds: 900 }]
  const answers = await Promise.all(
    bodies.map((json, at) => call(security, { method: 'PATCH', token, json, at })),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400])
  const [refused] = answers.filter(({ status }) => status === 400)
  expect(refused?.body.errors[0].message).toMatch(
    /^must be at (most the maximum age of 900|least the idle limit of 3600) seconds$/,
  )
})

test('both a lower and a higher limit require recent authentication (ASVS 7.5.1)', async () => {
  const admin = await service.addCompany()
  await limit(admin, { sessionIdleSeconds: HOUR })
  const { refreshToken } = await service.loginAs(admin)
  clock.advance(15 * MINUTE + 1)
  const { accessToken: token } = await must(service.refresh(refreshToken))
  for (const sessionIdleSeconds of [300, null]) {
    const answer = await call(security, { method: 'PATCH', token, json: { sessionIdleSeconds } })
    expectProblem(answer, [403, 'reauthentication_required'])
  }
  const { accessToken: renewed } = await must(
    call('/auth/reauthenticate', { token, json: { password: PASSWORD } }),
  )
  await must(call(security, { method: 'PATCH', token: renewed, json: { sessionIdleSeconds: 300 } }))
})

test('all responses report the end by the shorter limit', async () => {
  const admin = await service.addCompany()
  const person = await service.addUser(admin)
  await limit(admin, { sessionIdleSeconds: 10 * MINUTE, sessionMaxAgeSeconds: 25 * MINUTE })
  const start = seconds()
  const cookie = await service.cookieOf(person)
  let pair = await service.loginAs(person)
  for (const [age, left] of [
    [0, 600],
    [8 * MINUTE, 600],
    [16 * MINUTE, 540],
  ] as const) {
    clock.advance(start + age - seconds())
    if (age > 0) pair = await must(service.refresh(pair.refreshToken, { at: 1 }))
    const end = start + age + left
    expect([pair.expiresIn, pair.refreshExpiresIn]).toEqual([left, left])
    expect(seconds(Date.parse(pair.session.expiresAt))).toBe(end)
    expect(claimsOf(pair.accessToken)['exp']).toBe(end)
    for (const at of INSTANCES) {
      for (const credential of [{ token: pair.accessToken as string }, { cookie }]) {
        const { body } = await service.getSession({ ...credential, at })
        expect(seconds(Date.parse(body.session.expiresAt))).toBe(end)
        expect((await activity(credential.token ?? credential.cookie ?? '', at)).exp).toBe(end)
      }
    }
  }
  const { accessToken: token } = pair
  const again = await must(call('/auth/reauthenticate', { token, json: { password: PASSWORD } }))
  expect([again.expiresIn, again.refreshExpiresIn]).toEqual([540, 540])
  clock.advance(540)
  expect(await service.refresh(again.refreshToken)).toMatchObject(EXPIRED)
  await expectExpired({ cookie })
  const { body } = await service.login(person, { headers: COOKIE_MODE })
  expect(seconds(Date.parse(body.session.expiresAt))).toBe(seconds() + 600)
})

test('a session that is used stays live until its maximum age', async () => {
  const admin = await service.addCompany()
  await limit(admin, { sessionIdleSeconds: 300, sessionMaxAgeSeconds: 900 })
  const cookie = await service.cookieOf(admin)
  let { refreshToken, accessToken: token } = await service.loginAs(admin)
  for (const _ of [1, 2, 3]) {
    clock.advance(299)
    for (const at of INSTANCES) expect((await service.getSession({ cookie, at })).status).toBe(200)
    expect((await service.getSession({ token })).status).toBe(200)
    ;({ refreshToken, accessToken: token } = await must(service.refresh(refreshToken)))
  }
  clock.advance(3)
  await expectExpired({ cookie })
  expect(await service.refresh(refreshToken)).toMatchObject(EXPIRED)
  // The access token ended with the session.
  expectProblem(await service.getSession({ token }), [401, 'token_expired'])
})

test('concurrent uses of a cookie report the same end', async () => {
  const admin = await service.addCompany()
  await limit(admin, { sessionIdleSeconds: HOUR })
  const cookie = await service.cookieOf(admin)
  const { body } = await service.getSession({ cookie })
  clock.advance(59 * MINUTE)
  const { using } = await service.db.transaction().execute(async (tx) => {
    await sql`select from sessions where session_id = ${body.session.id} for update`.execute(tx)
    const using = INSTANCES.map((at) => service.getSession({ cookie, at }))
    await expect.poll(() => countWaiting(service.db), { timeout: 50_000 }).toBe(2)
    return { using }
  })
  const ends = (await Promise.all(using)).map((answer) => seconds(Date.parse(answer.body.session.expiresAt)))
  expect(ends).toEqual([seconds() + HOUR, seconds() + HOUR])
})

test('a lower limit ends existing sessions on the next request, and a higher one extends them', async () => {
  const admin = await service.addCompany()
  const person = await service.addUser(admin)
  const cookie = await service.cookieOf(person)
  const { refreshToken } = await service.loginAs(person)
  const { accessToken: token, session } = await service.loginAs(person)
  clock.advance(10 * MINUTE)
  await expectLive({ token })
  expect((await activity(token)).exp).toBe(claimsOf(token)['exp'])
  await limit(admin, { sessionIdleSeconds: 11 * MINUTE }, 1)
  await expectLive({ token })
  expect((await activity(token)).exp).toBe(seconds() + MINUTE)
  await limit(admin, { sessionIdleSeconds: 10 * MINUTE }, 1)
  const { accessToken: current } = await service.loginAs(person)
  await expectExpired({ token })
  await expectExpired({ cookie })
  for (const at of INSTANCES) expect(await service.refresh(refreshToken, { at })).toMatchObject(EXPIRED)
  const listed = await must(call('/auth/sessions', { method: 'GET', token: current }))
  expect(listed.sessions).toHaveLength(1)
  expect(await auditOfSession(service, session.id)).toEqual([])

  const { refreshToken: short } = await service.loginAs(person)
  const shortCookie = await service.cookieOf(person)
  await limit(admin, { sessionIdleSeconds: HOUR })
  clock.advance(59 * MINUTE)
  await expectLive({ cookie: shortCookie })
  expect((await must(service.refresh(short, { at: 1 }))).refreshExpiresIn).toBe(HOUR)
})

test('a limit above the default is the default, for tokens and cookies separately', async () => {
  const admin = await service.addCompany()
  await limit(admin, { sessionIdleSeconds: 7 * DAY, sessionMaxAgeSeconds: 30 * DAY })
  const { body } = await service.login(admin, { headers: COOKIE_MODE })
  expect(seconds(Date.parse(body.session.expiresAt))).toBe(seconds() + 12 * HOUR)
  const { expiresIn, refreshExpiresIn } = await service.loginAs(admin)
  expect([expiresIn, refreshExpiresIn]).toEqual([900, 7 * DAY])
  await limit(admin, { sessionIdleSeconds: DAY })
  expect((await service.loginAs(admin)).refreshExpiresIn).toBe(DAY)
  const cookie = await service.cookieOf(admin)
  clock.advance(12 * HOUR)
  await expectExpired({ cookie })
})

test('session limits apply neither to service accounts nor to other companies', async () => {
  const admin = await service.addCompany()
  const { accessToken } = await service.loginAs(admin)
  const server = await service.addServiceAccount(admin, accessToken)
  const stranger = await service.addCompany()
  await limit(admin, { sessionIdleSeconds: 300, sessionMaxAgeSeconds: 900 })
  for (const person of [server, stranger]) {
    const pair = await service.loginAs(person)
    expect([pair.expiresIn, pair.refreshExpiresIn]).toEqual([900, 7 * DAY])
    clock.advance(899)
    await expectLive({ token: pair.accessToken })
    clock.advance(DAY)
    expect((await must(service.refresh(pair.refreshToken))).refreshExpiresIn).toBe(7 * DAY)
  }
})

test('an expired session makes no room: the next sign-in supersedes a live one only', async () => {
  const small = await openTestService({ env: { MAX_SESSIONS_PER_MEMBER: '2' } })
  const admin = await small.addCompany()
  const { accessToken: token, session } = await small.loginAs(admin)
  const json = { sessionIdleSeconds: 300 }
  await must(small.call(security, { method: 'PATCH', token, json }))
  small.clock.advance(301)
  const cookies = [await small.cookieOf(admin), await small.cookieOf(admin)]
  for (const cookie of cookies) expect((await small.getSession({ cookie })).status).toBe(200)
  const audited = await auditOfSession(small, session.id)
  expect(audited.map(({ action }) => action)).toEqual(['security_policy'])
})

test('a limit that is raised before a request finds the session expired keeps it', async () => {
  const admin = await service.addCompany()
  const person = await service.addUser(admin)
  const { refreshToken, accessToken: token } = await service.loginAs(person)
  const cookie = await service.cookieOf(person)
  clock.advance(10 * MINUTE)
  await limit(admin, { sessionIdleSeconds: 300 })
  await pruneAcrossCompanies(service.context, clock.now())
  await limit(admin, { sessionIdleSeconds: null }, 1)
  await expectLive({ token })
  await expectLive({ cookie })
  expect((await must(service.refresh(refreshToken))).refreshExpiresIn).toBe(7 * DAY)
})

test.for<[what: string, limits: Limits, isLive: boolean]>([
  ['an idle limit, it counts as a use', { sessionIdleSeconds: 300 }, true],
  ['a maximum age, the next request ends the session', { sessionMaxAgeSeconds: 900 }, false],
])('if a refresh is under way when a company lowers %s', async ([, limits, isLive]) => {
  const admin = await service.addCompany()
  const { refreshToken, session } = await service.loginAs(await service.addUser(admin))
  clock.advance(20 * MINUTE)
  const { refreshing } = await service.db.transaction().execute(async (tx) => {
    await sql`select from sessions where session_id = ${session.id} for update`.execute(tx)
    const refreshing = service.refresh(refreshToken)
    await expect.poll(() => countWaiting(service.db), { timeout: 50_000 }).toBe(1)
    await limit(admin, limits, 1)
    return { refreshing }
  })
  const { accessToken: token, refreshToken: next } = await must(refreshing)
  if (isLive) {
    await expectLive({ token })
    expect((await activity(token)).exp).toBe(seconds() + 300)
    clock.advance(300)
    expect(await service.getSession({ token })).toMatchObject(EXPIRED)
  } else await expectExpired({ token })
  for (const at of INSTANCES) expect(await service.refresh(next, { at })).toMatchObject(EXPIRED)
})

test('a retry of a refresh gets the same token after a change of the limits', async () => {
  const admin = await service.addCompany()
  await limit(admin, { sessionIdleSeconds: HOUR })
  const { refreshToken } = await service.loginAs(admin)
  const first = await must(service.refresh(refreshToken, { key: 'k' }))
  await limit(admin, { sessionIdleSeconds: 300 }, 1)
  const second = await must(service.refresh(refreshToken, { key: 'k', at: 1 }))
  expect(second.refreshToken).toBe(first.refreshToken)
  expect([first.refreshExpiresIn, second.refreshExpiresIn]).toEqual([HOUR, 300])
})

test('each instance judges the limits by its own clock', async () => {
  const clocks = [-60, 60].map((seconds) => {
    const clock = createClock()
    clock.advance(seconds)
    return clock
  })
  const apart = await openTestService({ instances: 2, clocks })
  const advance = (seconds: number) => {
    for (const clock of clocks) clock.advance(seconds)
  }
  const admin = await apart.addCompany()
  const [LATE, EARLY] = [0, 1]
  const { accessToken: token } = await apart.loginAs(admin, { at: LATE })
  const json = { sessionIdleSeconds: 600, sessionMaxAgeSeconds: 900 }
  await must(apart.call(security, { method: 'PATCH', token, json, at: LATE }))
  const cookie = await apart.cookieOf(admin, { at: LATE })
  advance(479)
  // Used at the early one, so it ends 600 seconds later by that clock.
  for (const at of [LATE, EARLY]) expect((await apart.getSession({ cookie, at })).status).toBe(200)
  expect((await apart.getSession({ token, at: EARLY })).status).toBe(200)
  advance(1)
  expect(await apart.getSession({ token, at: EARLY })).toMatchObject(EXPIRED)
  expect((await apart.getSession({ token, at: LATE })).status).toBe(200)
  // Age counts from the sign-in, by the clock of the instance where it was.
  advance(299)
  expect((await apart.getSession({ cookie, at: EARLY })).status).toBe(200)
  advance(1)
  expect(await apart.getSession({ cookie, at: EARLY })).toMatchObject(EXPIRED)
  expect((await apart.getSession({ cookie, at: LATE })).status).toBe(200)
  advance(120)
  expect(await apart.getSession({ cookie, at: LATE })).toMatchObject(EXPIRED)
})
