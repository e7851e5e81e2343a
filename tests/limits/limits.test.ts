import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { SilentDatabaseError } from '../../src/database/faults.ts'
import { createLimitedHasher } from '../../src/limits/hashing.ts'
import {
  type Answer,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  type TestService,
  times,
} from '../support/test-service.ts'

/** The documented limits, each at its default unless reaching it would take too long. */

const TRUSTED = { TRUST_PROXY: '127.0.0.1/32' }
let hosts = 0
/** An address that no other test uses. */
const newAddress = () => {
  hosts += 1
  return `198.51.${Math.floor(hosts / 250)}.${(hosts % 250) + 1}`
}
const from = (address: string) => ({ 'x-forwarded-for': address })

function expectLimited(answer: Answer, name: string, max: number, windowSeconds: number) {
  expect(answer).toMatchObject({ status: 429, body: { code: 'rate_limited', category: 'rate-limit' } })
  const { headers, body } = answer
  const retryAfter = Number(headers['retry-after'])
  expect(retryAfter).toBeGreaterThanOrEqual(1)
  expect(retryAfter).toBeLessThanOrEqual(windowSeconds)
  expect(headers['ratelimit-policy']).toBe(`"${name}";q=${max};w=${windowSeconds}`)
  expect(headers['ratelimit']).toBe(`"${name}";r=0;t=${retryAfter}`)
  expect(body.detail).toContain(`${retryAfter} s`)
}

const remaining = ({ headers }: Answer) => Number(/;r=(\d+);/.exec(String(headers['ratelimit']))?.[1])

const countStatuses = (answers: Answer[]) =>
  Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, all]) => [status, all.length]),
  )

describe('failed sign-ins of one account from one address: 10 in 15 minutes (ASVS 6.3.1)', async () => {
  const hasher = await createCountingHasher()
  const service = await openTestService({
    instances: 2,
    hasher,
    env: { ...TRUSTED, RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '100000/60' },
  })
  const admin = await service.addCompany()
  const guess = (person: Omit<Person, 'userId'>, address: string, at = 0) =>
    service.login({ ...person, password: 'not the password' }, { at, headers: from(address) })

  test.each(['an account', 'no account'])(
    'at %s are counted before hashing: of a hundred at once ten are hashed, on two instances',
    async (what) => {
      const person =
        what === 'an account' ? await service.addUser(admin) : { ...admin, email: 'no@body.example' }
      const address = newAddress()
      hasher.verified = 0
      const answers = await Promise.all(times(100, (i) => guess(person, address, i % 2)))
      expect(countStatuses(answers)).toEqual({ 401: 10, 429: 90 })
      expect(hasher.verified).toBe(10)
      for (const answer of answers.filter(({ status }) => status === 429)) {
        expectLimited(answer, 'sign-in-failures', 10, 900)
      }
      const { rows } = await sql<{ count: number }>`
        select count from refused_sign_ins where network = ${address}`.execute(service.db)
      expect(rows).toEqual([{ count: 10 }])
    },
  )

  test('keep out the right password too, until the window has passed, and only there', async () => {
    const person = await service.addUser(admin)
    const [address, elsewhere] = [newAddress(), newAddress()]
    const answers = []
    for (let i = 0; i < 10; i += 1) answers.push(await guess(person, address, i % 2))
    expect(answers.map(remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    const headers = from(address)
    expectLimited(await service.login(person, { headers }), 'sign-in-failures', 10, 900)
    expect((await service.login(person, { headers: from(elsewhere) })).status).toBe(200)
    expect((await service.login(await service.addUser(admin), { headers })).status).toBe(200)
    service.clock.advance(899)
    expectLimited(await service.login(person, { headers, at: 1 }), 'sign-in-failures', 10, 900)
    service.clock.advance(1)
    expect((await service.login(person, { headers, at: 1 })).status).toBe(200)
  })

  test('are one count however company and address are spelt', async () => {
    const person = await service.addUser(admin)
    const address = newAddress()
    const spellings = [
      person,
      { ...person, companyId: person.companyId.toUpperCase() },
      { ...person, email: person.email.toUpperCase() },
    ]
    const answers = await Promise.all(times(30, (i) => guess(spellings[i % 3] ?? person, address, i % 2)))
    expect(countStatuses(answers)).toEqual({ 401: 10, 429: 20 })
  })

  test('are not what right ones are: a success gives its count back', async () => {
    const person = await service.addUser(admin)
    const address = newAddress()
    const headers = from(address)
    for (let i = 0; i < 9; i += 1) expect((await guess(person, address)).status).toBe(401)
    for (let i = 0; i < 12; i += 1)
      expect((await service.login(person, { headers, at: i % 2 })).status).toBe(200)
    expect((await guess(person, address)).status).toBe(401)
    expectLimited(await guess(person, address), 'sign-in-failures', 10, 900)
  })

  test('are not what the unverified are: the right password gives its count back', async () => {
    const person = await service.addUser(admin)
    await service.db
      .updateTable('users')
      .set({ email_verified_at: null })
      .where('user_id', '=', person.userId)
      .execute()
    const answers = []
    for (let i = 0; i < 12; i += 1) answers.push(await service.login(person, { headers: from(newAddress()) }))
    const headers = from(newAddress())
    for (let i = 0; i < 12; i += 1) answers.push(await service.login(person, { headers }))
    expect(countStatuses(answers)).toEqual({ 403: 24 })
  })
})

describe('sign-in attempts from one address: 30 a minute', async () => {
  const service = await openTestService({ instances: 2, env: { ...TRUSTED, RATE_LIMIT_SCALE: '1' } })
  const admin = await service.addCompany()
  /** One password tried on many accounts. */
  const spray = (count: number, address: (index: number) => string) =>
    Promise.all(
      times(count, (i) =>
        service.login(
          { ...admin, email: `user${i}-${address(i).replace(/\W/g, '')}@spray.example` },
          { at: i % 2, headers: from(address(i)) },
        ),
      ),
    )

  test('hold for all accounts together, on all instances, until the minute has passed (ASVS 6.3.1)', async () => {
    const address = newAddress()
    const answers = await spray(40, () => address)
    expect(countStatuses(answers)).toEqual({ 401: 30, 429: 10 })
    for (const limited of answers.filter(({ status }) => status === 429)) {
      expectLimited(limited, 'sign-in-attempts', 30, 60)
    }
    const headers = from(address)
    expect((await service.login(admin, { headers })).status).toBe(429)
    expect((await service.login(admin, { headers: from(newAddress()) })).status).toBe(200)
    service.clock.advance(60)
    const answer = await service.login(admin, { headers })
    expect([answer.status, remaining(answer)]).toEqual([200, 29])
  })

  test('count successes as well', async () => {
    const headers = from(newAddress())
    for (let left = 29; left >= 0; left -= 1) {
      const answer = await service.login(admin, { headers, at: left % 2 })
      expect([answer.status, remaining(answer)]).toEqual([200, left])
      expect(answer.headers['ratelimit-policy']).toBe('"sign-in-attempts";q=30;w=60')
    }
    expectLimited(await service.login(admin, { headers }), 'sign-in-attempts', 30, 60)
  })

  test('from an IPv6 network are one count a /64 (ASVS 6.3.1)', async () => {
    const answers = await spray(40, (i) => `2001:db8:1:2:${i}::${i + 1}`)
    expect(countStatuses(answers)).toEqual({ 401: 30, 429: 10 })
    const neighbour = await service.login(admin, { headers: from('2001:db8:1:3::1') })
    expect(neighbour.status).toBe(200)
  })

  test('from one IPv4 address are one count however it is written', async () => {
    const spellings = [
      '198.51.100.77',
      '::ffff:198.51.100.77',
      '::ffff:c633:644d',
      '0:0:0:0:0:FFFF:198.51.100.77',
    ]
    const answers = await spray(40, (i) => spellings[i % 4] ?? '')
    expect(countStatuses(answers)).toEqual({ 401: 30, 429: 10 })
  })

  test('behind a trusted proxy are counted by the address that the proxy saw, not by one the client made up (ASVS 4.1.3)', async () => {
    const address = newAddress()
    const answers = await spray(40, (i) => `192.0.2.${i}, ${address}`)
    expect(countStatuses(answers)).toEqual({ 401: 30, 429: 10 })
    const { rows } = await sql<{ count: number }>`
      select count from refused_sign_ins where network = ${address}`.execute(service.db)
    expect(rows).toEqual([{ count: 30 }])
  })
})

describe('without a trusted proxy', async () => {
  const service = await openTestService({ env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '3/60' } })
  const admin = await service.addCompany()

  test('X-Forwarded-For and its like are ignored (ASVS 4.1.3)', async () => {
    const names = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-client-ip', 'true-client-ip']
    const answers = []
    for (const [i, name] of names.entries()) {
      const address = `203.0.113.${i}`
      const value = name === 'forwarded' ? `for=${address}` : address
      answers.push(await service.login(admin, { headers: { [name]: value } }))
    }
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429])
    const { rows } = await sql`select distinct ip_address from sessions`.execute(service.db)
    expect(rows).toEqual([{ ip_address: '127.0.0.1' }])
  })
})

describe('refreshes of one session: 30 a minute', async () => {
  const service = await openTestService({ instances: 2, env: { ...TRUSTED, RATE_LIMIT_SCALE: '1' } })
  const admin = await service.addCompany()

  test('then none is spent until the minute has passed, on any instance', async () => {
    const { refreshToken, session } = await service.loginAs(admin)
    const other = await service.loginAs(admin)
    let token = refreshToken
    for (let left = 29; left >= 0; left -= 1) {
      const answer = await service.refresh(token, { at: left % 2 })
      expect([answer.status, remaining(answer)]).toEqual([200, left])
      expect(answer.headers['ratelimit-policy']).toBe('"refresh";q=30;w=60')
      token = answer.body.refreshToken
    }
    const rowOf = () =>
      service.db
        .selectFrom('sessions')
        .selectAll()
        .where('session_id', '=', session.id)
        .executeTakeFirstOrThrow()
    const before = await rowOf()
    for (const at of [0, 1]) expectLimited(await service.refresh(token, { at }), 'refresh', 30, 60)
    expect(await rowOf()).toEqual(before)
    expect((await service.refresh(other.refreshToken)).status).toBe(200)
    // The window is told by the database's clock, which no test may move; so the window moves.
    await sql`update sessions set window_started_at = window_started_at - interval '60 s'
      where session_id = ${session.id}`.execute(service.db)
    const answer = await service.refresh(token, { at: 1 })
    expect([answer.status, remaining(answer)]).toEqual([200, 29])
  })

  test('repeats of a spent token included, those for the same successor', async () => {
    const { refreshToken } = await service.loginAs(admin)
    for (let left = 29; left >= 0; left -= 1) {
      const answer = await service.refresh(refreshToken, { at: left % 2, key: 'same' })
      expect([answer.status, remaining(answer)]).toEqual([200, left])
    }
    for (const at of [0, 1])
      expectLimited(await service.refresh(refreshToken, { at, key: 'same' }), 'refresh', 30, 60)
  })

  test('and those of a race, which are audited no more often', async () => {
    const { refreshToken, session } = await service.loginAs(admin)
    const { body: next } = await service.refresh(refreshToken)
    // Ahead of the clock of the database, so that the race lasts.
    await sql`update sessions set rotated_at = rotated_at + interval '1 hour'
      where session_id = ${session.id}`.execute(service.db)
    for (let sent = 1; sent < 30; sent += 1)
      expect((await service.refresh(refreshToken)).body.code).toBe('refresh_token_reused')
    for (const token of [refreshToken, next.refreshToken])
      expectLimited(await service.refresh(token), 'refresh', 30, 60)
    const { count } = await service.db
      .selectFrom('audit_events')
      .select(({ fn }) => fn.countAll<string>().as('count'))
      .where('session_id', '=', session.id)
      .where('action', '=', 'refresh')
      .executeTakeFirstOrThrow()
    expect(count).toBe('29')
  })
})

describe('regenerations of a company: 5 an hour', async () => {
  const service = await openTestService({ instances: 2, env: { ...TRUSTED, RATE_LIMIT_SCALE: '1' } })
  const admin = await service.addCompany()

  test('hold for all its admins, on all instances, until the hour has passed', async () => {
    const tokens = [
      await service.loginAs(admin),
      await service.loginAs(await service.addUser(admin, 'admin')),
    ]
    const viewer = await service.loginAs(await service.addUser(admin, 'viewer'))
    const regenerate = (i: number) =>
      service.call('/auth/webhook-secret/regenerate', { at: i % 2, token: tokens[i % 2]?.accessToken })
    for (let i = 0; i < 8; i += 1) {
      const refused = await service.call('/auth/webhook-secret/regenerate', { token: viewer.accessToken })
      expect(refused.status).toBe(403)
    }
    const answers = await Promise.all(times(12, regenerate))
    expect(countStatuses(answers)).toEqual({ 200: 5, 429: 7 })
    const good = answers.filter(({ status }) => status === 200)
    expect(good.map(({ body }) => body.version).sort()).toEqual([1, 2, 3, 4, 5])
    expect(good.map(remaining).sort()).toEqual([0, 1, 2, 3, 4])
    for (const limited of answers.filter(({ status }) => status === 429)) {
      expectLimited(limited, 'regenerate', 5, 3600)
    }
    const current = good.find(({ body }) => body.version === 5)?.body.secret
    const sent = await service.send(admin.companyId, current, { type: 'payment.created', data: {} })
    expect(sent.status).toBe(202)
    const neighbour = await service.addCompany()
    expect(await service.newSecret(neighbour)).toMatch(/^whsec_/)

    service.clock.advance(3600)
    const { accessToken } = await service.loginAs(admin)
    const again = await service.call('/auth/webhook-secret/regenerate', { token: accessToken, at: 1 })
    expect([again.status, again.body.version]).toEqual([200, 6])
  })
})

describe('what each instance counts by itself', async () => {
  const service = await openTestService({ instances: 2, env: { ...TRUSTED, RATE_LIMIT_SCALE: '1' } })
  const admin = await service.addCompany()
  const { accessToken } = await service.loginAs(admin)
  const secret = await service.newSecret(admin)
  const payload = { type: 'payment.created', data: {} }

  test('60 bad signatures a minute from an address, for a company that never signed there', async () => {
    const headers = from(newAddress())
    const forge = (address: Record<string, string> = headers, at = 0) =>
      service.send(admin.companyId, `whsec_${Buffer.alloc(32).toString('base64')}`, payload, {
        headers: address,
        at,
      })
    const answers = await Promise.all(times(70, () => forge()))
    expect(countStatuses(answers)).toEqual({ 401: 60, 429: 10 })
    expectLimited(await forge(), 'bad-signatures', 60, 60)
    expect((await service.send(admin.companyId, secret, payload, { headers })).status).toBe(429)
    expect((await forge(from(newAddress()))).status).toBe(401)
    expect((await forge(headers, 1)).status).toBe(401)
  })

  test('120 requests a minute refused for their credential; a good one still passes (ASVS 6.3.1)', async () => {
    const address = newAddress()
    const headers = from(address)
    const kinds: (() => Promise<Answer>)[] = [
      () => service.getSession({ headers }),
      () => service.getSession({ headers, token: 'x.y.z' }),
      () => service.getSession({ headers, cookie: 'A'.repeat(43) }),
      () => service.refresh('x.y.z', { headers }),
      () => service.call('/auth/logout', { headers }),
      () => service.call('/auth/webhook-secret/status', { headers, token: 'x' }),
    ]
    const answers = await Promise.all(
      times(20, () => kinds)
        .flat()
        .map((refused) => refused()),
    )
    expect(countStatuses(answers)).toEqual({ 401: 120 })
    for (const refused of kinds) expectLimited(await refused(), 'refusals', 120, 60)
    expect((await service.getSession({ headers, token: accessToken })).status).toBe(200)
    expect((await service.getSession({ headers: from(newAddress()) })).status).toBe(401)
  })

  test('600 other requests a minute without a credential', async () => {
    const headers = from(newAddress())
    const kinds: (() => Promise<Answer>)[] = [
      () => service.call('/.well-known/jwks.json', { method: 'GET', headers }),
      () => service.call('/nothing/here', { method: 'GET', headers }),
      () => service.call('/auth/login', { method: 'GET', headers }),
      () => service.call('/auth/login', { headers, json: { email: 'x' } }),
    ]
    const answers = await Promise.all(
      times(150, () => kinds)
        .flat()
        .map((ask) => ask()),
    )
    expect(countStatuses(answers)).toEqual({ 200: 150, 404: 150, 405: 150, 400: 150 })
    expect(Math.min(...answers.map(remaining))).toBe(0)
    for (const ask of kinds) expectLimited(await ask(), 'anonymous', 600, 60)
    expect((await service.getSession({ headers, token: accessToken })).status).toBe(200)
  })

  test('6 000 authenticated requests a minute of a session, by default', async () => {
    const { headers } = await service.getSession({ token: accessToken })
    expect(headers['ratelimit-policy']).toBe('"session";q=6000;w=60')
  })

  test('1 000 signed requests a second of a company, by default', async () => {
    const { headers } = await service.send(admin.companyId, secret, payload)
    expect(headers['ratelimit-policy']).toBe('"ingest";q=1000;w=1')
  })
})

describe('with small limits', async () => {
  const service = await openTestService({
    env: { RATE_LIMIT_SCALE: '1', LIMIT_SESSION: '5/60', LIMIT_INGEST: '3/60', LIMIT_ANONYMOUS: '20/2' },
  })
  const admin = await service.addCompany()

  test('a session has its own count, by token and by cookie', async () => {
    const { accessToken } = await service.loginAs(admin)
    for (const credential of [{ token: accessToken }, { cookie: await service.cookieOf(admin) }]) {
      for (let left = 4; left >= 0; left -= 1) {
        const answer = await service.getSession(credential)
        expect([answer.status, remaining(answer)]).toEqual([200, left])
      }
      expectLimited(await service.getSession(credential), 'session', 5, 60)
    }
    const another = await service.loginAs(admin)
    expect((await service.getSession({ token: another.accessToken })).status).toBe(200)
  })

  test('a company has its own count, of requests whose signature holds', async () => {
    const companies = await Promise.all(
      times(2, async () => {
        const owner = await service.addCompany()
        return { ...owner, secret: await service.newSecret(owner) }
      }),
    )
    const payload = { type: 'payment.created', data: {} }
    for (const { companyId, secret } of companies) {
      for (let i = 0; i < 4; i += 1) {
        const forged = `whsec_${Buffer.alloc(32, i).toString('base64')}`
        expect((await service.send(companyId, forged, payload)).status).toBe(401)
      }
      for (let left = 2; left >= 0; left -= 1) {
        const answer = await service.send(companyId, secret, payload)
        expect([answer.status, remaining(answer)]).toEqual([202, left])
      }
      expectLimited(await service.send(companyId, secret, payload), 'ingest', 3, 60)
    }
    const { rows } = await sql`select from events`.execute(service.db)
    expect(rows.length).toBe(6)
  })

  test('a window that an instance counts passes too', async () => {
    const ask = () => service.call('/.well-known/jwks.json', { method: 'GET' })
    const answers = await Promise.all(times(60, ask))
    expect(answers.some(({ status }) => status === 429)).toBe(true)
    service.clock.advance(2)
    expect((await ask()).status).toBe(200)
  })
})

describe('more sign-ins at once than can be hashed (ASVS 15.1.3, 15.2.2)', async () => {
  const hasher = await createLimitedHasher(1, { max: 4, maxPerWiderNetwork: 4 })
  const service = await openTestService({ hasher })
  const admin = await service.addCompany()
  const person = await service.addUser(admin)
  /** On connections of their own, so that nothing waits on this side. */
  const flood = (password: string) =>
    times(200, () =>
      fetch(`${service.addresses[0]}/api/auth/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ companyId: person.companyId, email: person.email, password }),
      }),
    )

  test('are turned away with 503 and Retry-After, while others are served', async () => {
    let { refreshToken } = await service.loginAs(admin)
    const sending = flood(person.password)
    for (let i = 0; i < 10; i += 1) {
      const { status, body } = await service.refresh(refreshToken)
      expect(status).toBe(200)
      refreshToken = body.refreshToken
    }
    const answers = await Promise.all(sending)
    const turnedAway = answers.filter(({ status }) => status !== 200)
    expect(turnedAway.length).toBeGreaterThan(0)
    expect(turnedAway.length).toBeLessThan(200)
    for (const answer of turnedAway) {
      expect(answer.status).toBe(503)
      expect(answer.headers.get('retry-after')).toBe('1')
      expect(await answer.json()).toMatchObject({ code: 'overloaded', category: 'availability' })
    }
    const { rows } = await sql`select from sessions where user_id = ${person.userId}`.execute(service.db)
    expect(rows.length).toBe(200 - turnedAway.length)
    expect((await service.login(person)).status).toBe(200)
  })

  test('are not counted as failures when they were turned away', async () => {
    const answers = await Promise.all(flood('not the password'))
    const guessed = answers.filter(({ status }) => status === 401).length
    expect(guessed).toBeLessThan(200)
    const answer = await service.login({ ...person, password: 'not the password' })
    expect(10_000 - remaining(answer)).toBe(guessed + 1)
  })
})

test('who is not answered in time gets 503, and is not signed in any more (section 1 of the interface, ASVS 15.1.3)', async () => {
  const hasher = await createCountingHasher()
  const service = await openTestService({ hasher, answerWithinMs: 300 })
  const person = await service.addCompany()
  const before = await selectCounters(service)
  const answered = Promise.withResolvers<void>()
  hasher.beforeVerifying = () => answered.promise
  const { status, headers, body } = await service.login(person)
  expect([status, headers['retry-after'], body.code]).toEqual([503, '1', 'unavailable'])
  answered.resolve()
  // Their attempt is refunded at the end of the request.
  await expect.poll(() => selectCounters(service)).toEqual(before)
  expect(await service.db.selectFrom('sessions').select('session_id').execute()).toEqual([])
  const logged = service.logs.map((line) => JSON.parse(line)).filter(({ code }) => code === 'unavailable')
  expect(logged).toMatchObject([{ status: 503, reason: 'too_late' }])
  expect(service.logs.join('')).not.toContain('sent')
})

test('who is refused for an outage does not wait for the refund of their attempt (section 1 of the interface)', async () => {
  const hasher = await createCountingHasher()
  const service = await openTestService({ hasher })
  const person = await service.addCompany()
  const { accessToken: token } = await service.loginAs(person)
  const json = { password: PASSWORD }
  for (const ask of [
    () => service.login(person),
    () => service.call('/auth/reauthenticate', { json, token }),
  ]) {
    const [counted, locked, answered] = [
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
    ]
    const before = await selectCounters(service)
    hasher.beforeVerifying = async () => {
      hasher.beforeVerifying = undefined
      counted.resolve()
      await locked.promise
      throw new SilentDatabaseError()
    }
    const asking = ask()
    await counted.promise
    // As if commits were not acknowledged: refunds wait.
    const locking = service.db.transaction().execute(async (tx) => {
      await sql`lock table rate_counters in access exclusive mode`.execute(tx)
      locked.resolve()
      await answered.promise
    })
    expect((await asking).status).toBe(503)
    answered.resolve()
    await locking
    await expect.poll(() => selectCounters(service)).toEqual(before)
  }
})

async function selectCounters({ db }: TestService) {
  return await db
    .selectFrom('rate_counters')
    .select(['counter', 'hits'])
    .where('hits', '>', 0)
    // Of these, each is counted, however it ends.
    .where('counter', 'not like', 'reauthentications:%')
    .orderBy('counter')
    .execute()
}
