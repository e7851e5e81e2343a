import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { type Answer, openTestService, times } from '../support/test-service.ts'
import { countStatuses, expectLimited, from, newAddress, remaining } from './limited.ts'

/** Limits of refreshes and regenerations, and those that each instance counts on its own. */

const service = await openTestService({
  instances: 2,
  env: {
    TRUST_PROXY: '127.0.0.1/32',
    RATE_LIMIT_SCALE: '1',
    LIMIT_REFRESH: '6/60',
    LIMIT_INGEST: '3/60',
    LIMIT_REFUSALS: '10/60',
  },
})
const payload = { type: 'payment.created', data: {} }

test('refreshes above the limit consume no token, and retries count', async () => {
  const admin = await service.addCompany()
  const { refreshToken, session } = await service.loginAs(admin)
  let [token, previous] = [refreshToken, refreshToken]
  // Each is sent twice, with the same idempotency key.
  for (const left of [5, 4, 3, 2, 1, 0]) {
    const key = `refresh-${Math.floor(left / 2)}`
    const answer = await service.refresh(token, { at: left % 2, key })
    expect([answer.status, remaining(answer)]).toEqual([200, left])
    expect(answer.headers['ratelimit-policy']).toBe('"refresh";q=6;w=60')
    if (left % 2 === 0) [token, previous] = [answer.body.refreshToken, token]
  }
  const row = service.db.selectFrom('sessions').selectAll().where('session_id', '=', session.id)
  const before = await row.executeTakeFirstOrThrow()
  for (const at of [0, 1]) {
    expectLimited(await service.refresh(token, { at }), 'refresh', 6, 60)
    expectLimited(await service.refresh(previous, { at, key: 'refresh-0' }), 'refresh', 6, 60)
  }
  expect(await row.executeTakeFirstOrThrow()).toEqual(before)
  const other = await service.loginAs(admin)
  expect((await service.refresh(other.refreshToken)).status).toBe(200)
  // The window ends by the database's clock, which no test can move, so the window moves instead.
  await sql`update sessions set window_started_at = window_started_at - interval '60 s'
    where session_id = ${session.id}`.execute(service.db)
  const answer = await service.refresh(token, { at: 1 })
  expect([answer.status, remaining(answer)]).toEqual([200, 5])
})

test('a response reports the tightest limit that counted it, without refunded ones', async () => {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const cookie = await service.cookieOf(admin)
  const answers = [
    await service.call('/auth/invitations', { token, json: { email: 'guest@x.example', role: 'viewer' } }),
    await service.call('/auth/reauthenticate', { cookie, json: { password: admin.password } }),
    await service.call('/auth/reauthenticate', { token, json: { password: 'wrong' } }),
  ]
  const names = answers.map(({ headers }) => String(headers['ratelimit-policy']).split(';', 1)[0])
  expect(names).toEqual(['"invitations"', '"session"', '"wrong-reauthentications"'])
})

test('refresh races count toward the limit, which bounds their audit entries', async () => {
  const { refreshToken, session } = await service.loginAs(await service.addCompany())
  const { body: next } = await service.refresh(refreshToken)
  // Ahead of the database's clock, so that the race lasts.
  await sql`update sessions set rotated_at = rotated_at + interval '1 hour'
    where session_id = ${session.id}`.execute(service.db)
  for (const _ of times(5, () => 0))
    expect((await service.refresh(refreshToken)).body.code).toBe('refresh_token_reused')
  for (const token of [refreshToken, next.refreshToken])
    expectLimited(await service.refresh(token), 'refresh', 6, 60)
  const audited = service.db.selectFrom('audit_events').select('audit_id').where('action', '=', 'refresh')
  expect(await audited.where('session_id', '=', session.id).execute()).toHaveLength(5)
})

test("a company's admins share 5 regenerations an hour on all instances", async () => {
  const admin = await service.addCompany()
  const admins = [admin, await service.addUser(admin, 'admin')]
  const tokens = await Promise.all(admins.map(async (one) => (await service.loginAs(one)).accessToken))
  const viewer = await service.loginAs(await service.addUser(admin, 'viewer'))
  const regenerate = (token: string | undefined, at = 0) =>
    service.call('/auth/webhook-secret/regenerate', { at, token })
  // Requests without the permission do not count.
  for (const _ of times(6, () => 0)) expect((await regenerate(viewer.accessToken)).status).toBe(403)
  const answers = await Promise.all(times(12, (n) => regenerate(tokens[n % 2], n % 2)))
  expect(countStatuses(answers)).toEqual({ 200: 5, 429: 7 })
  const good = answers.filter(({ status }) => status === 200)
  expect(good.map(({ body }) => body.version).sort()).toEqual([1, 2, 3, 4, 5])
  expect(good.map(remaining).sort()).toEqual([0, 1, 2, 3, 4])
  for (const limited of answers.filter(({ status }) => status === 429))
    expectLimited(limited, 'regenerate', 5, 3600)
  const current = good.find(({ body }) => body.version === 5)?.body.secret
  expect((await service.send(admin.companyId, current, payload)).status).toBe(202)
  expect(await service.newSecret(await service.addCompany())).toMatch(/^whsec_/)

  service.clock.advance(3600)
  const { accessToken } = await service.loginAs(admin)
  const again = await regenerate(accessToken, 1)
  expect([again.status, again.body.version]).toEqual([200, 6])
})

test('each instance limits refused credentials by network (ASVS 6.3.1)', async () => {
  const { accessToken } = await service.loginAs(await service.addCompany())
  const headers = from(newAddress())
  const kinds: (() => Promise<Answer>)[] = [
    () => service.getSession({ headers }),
    () => service.getSession({ headers, token: 'x.y.z' }),
    () => service.getSession({ headers, cookie: 'A'.repeat(43) }),
    () => service.refresh('x.y.z', { headers }),
    () => service.call('/auth/logout', { headers }),
  ]
  const answers = await Promise.all([...kinds, ...kinds].map((refused) => refused()))
  expect(countStatuses(answers)).toEqual({ 401: 10 })
  for (const refused of kinds) expectLimited(await refused(), 'refusals', 10, 60)
  expect((await service.getSession({ headers, token: accessToken })).status).toBe(200)
  expect((await service.getSession({ headers: from(newAddress()) })).status).toBe(401)
  expect((await service.getSession({ headers, at: 1 })).status).toBe(401)
})

test('requests with a valid signature are limited by company', async () => {
  for (const { companyId, ...owner } of [await service.addCompany(), await service.addCompany()]) {
    const secret = await service.newSecret({ companyId, ...owner })
    for (let left = 2; left >= 0; left -= 1) {
      const answer = await service.send(companyId, secret, payload)
      expect([answer.status, remaining(answer)]).toEqual([202, left])
    }
    expectLimited(await service.send(companyId, secret, payload), 'ingest', 3, 60)
    const stored = service.db.selectFrom('events').select('event_id').where('company_id', '=', companyId)
    expect(await stored.execute()).toHaveLength(3)
  }
})
