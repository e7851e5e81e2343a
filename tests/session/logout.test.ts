import { describe, expect, test } from 'vitest'
import { endSessionsOfCompany } from '../../src/operator/companies.ts'
import { changeUserStatus, endSessionsOfUser } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { countWaiting, type Person, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()

/** A session of each kind on the first instance, used once on the second. */
async function openSessions() {
  const user = await service.addUser(admin)
  const tokens = await service.loginAs(user)
  const cookie = await service.cookieOf(user)
  for (const credential of [{ token: tokens.accessToken }, { cookie }]) {
    expect((await service.getSession({ ...credential, at: 1 })).status).toBe(200)
  }
  return { user, tokens, cookie }
}

const sessionRow = (sessionId: string) =>
  service.db.selectFrom('sessions').selectAll().where('session_id', '=', sessionId).executeTakeFirstOrThrow()

const logoutsOf = (sessionId: string) =>
  selectAudit(service.db)
    .select(['action', 'outcome', 'actor', 'ip_address'])
    .where('session_id', '=', sessionId)
    .where('action', 'in', ['logout', 'logout_all'])
    .execute()

const ended = { status: 401, body: { code: 'session_ended', reason: 'logout' } }

describe('signing out', () => {
  test('signing out ends both tokens on every instance immediately (ASVS 7.4.1)', async () => {
    const { tokens, cookie } = await openSessions()
    const answer = await service.call('/auth/logout', { token: tokens.accessToken })
    expect([answer.status, answer.body, answer.headers['set-cookie']]).toEqual([204, '', undefined])
    for (const at of [1, 0]) {
      expect(await service.getSession({ token: tokens.accessToken, at })).toMatchObject(ended)
      expect(await service.refresh(tokens.refreshToken, { at })).toMatchObject(ended)
    }
    expect((await service.getSession({ cookie })).status).toBe(200)
  })

  test('signing out ends the cookie on every instance immediately (ASVS 7.4.1)', async () => {
    const { tokens, cookie } = await openSessions()
    expect((await service.call('/auth/logout', { cookie })).status).toBe(204)
    for (const at of [1, 0]) expect(await service.getSession({ cookie, at })).toMatchObject(ended)
    expect((await service.getSession({ token: tokens.accessToken })).status).toBe(200)
  })

  test('signing out ends the tokens of every generation', async () => {
    const { tokens: first } = await openSessions()
    const { body: second } = await service.refresh(first.refreshToken, { key: 'k1' })
    const { body: third } = await service.refresh(second.refreshToken, { key: 'k2' })
    expect((await service.call('/auth/logout', { token: first.accessToken })).status).toBe(204)
    for (const { accessToken, refreshToken } of [first, second, third]) {
      expect(await service.getSession({ token: accessToken, at: 1 })).toMatchObject(ended)
      // Also the retry of a lost answer is no way back.
      expect(await service.refresh(refreshToken, { at: 1, key: 'k2' })).toMatchObject(ended)
    }
  })

  test.each(['token', 'cookie'])(
    'signing out everywhere by %s ends only the user’s sessions',
    async (kind) => {
      const { user, tokens, cookie } = await openSessions()
      const other = await service.loginAs(user, { at: 1 })
      const bystander = await openSessions()
      const credential = kind === 'token' ? { token: tokens.accessToken } : { cookie }
      expect((await service.call('/auth/logout?scope=all', credential)).status).toBe(204)
      for (const at of [1, 0]) {
        for (const dead of [{ token: tokens.accessToken }, { token: other.accessToken }, { cookie }]) {
          expect(await service.getSession({ ...dead, at })).toMatchObject(ended)
        }
        expect(await service.refresh(other.refreshToken, { at })).toMatchObject(ended)
      }
      for (const alive of [{ token: bystander.tokens.accessToken }, { cookie: bystander.cookie }]) {
        expect((await service.getSession({ ...alive, at: 1 })).status).toBe(200)
      }
      expect((await service.login(user)).status).toBe(200)
    },
  )

  test.each(['scope=session', 'scope=', 'scope=all&scope=all'])(
    'signing out with ?%s is refused (ASVS 15.3.7)',
    async (query) => {
      const { tokens } = await openSessions()
      const { status, body } = await service.call(`/auth/logout?${query}`, { token: tokens.accessToken })
      expect([status, body.code]).toEqual([400, 'invalid_request'])
      expect((await service.getSession({ token: tokens.accessToken })).status).toBe(200)
    },
  )

  test('concurrent sign-outs end the session once', async () => {
    const { tokens } = await openSessions()
    const answers = await Promise.all(
      times(20, (i) => service.call('/auth/logout', { token: tokens.accessToken, at: i % 2 })),
    )
    for (const answer of answers) if (answer.status !== 204) expect(answer).toMatchObject(ended)
    expect(answers.some(({ status }) => status === 204)).toBe(true)
    expect(await sessionRow(tokens.session.id)).toMatchObject({ end_reason: 'logout' })
  })

  test('the audit trail has who signed out of which session (ASVS 16.3.1)', async () => {
    const { user, tokens } = await openSessions()
    const again = await service.loginAs(user)
    await service.call('/auth/logout', { token: tokens.accessToken })
    await service.call('/auth/logout?scope=all', { token: again.accessToken })
    const entry = { outcome: 'done', actor: user.userId, ip_address: '127.0.0.1' }
    expect(await logoutsOf(tokens.session.id)).toEqual([{ action: 'logout', ...entry }])
    expect(await logoutsOf(again.session.id)).toEqual([{ action: 'logout_all', ...entry }])
  })
})

describe('signing out in cookie mode', () => {
  test('signing out by cookie expires only the session cookie (ASVS 14.3.1)', async () => {
    const { cookie } = await openSessions()
    const { headers } = await service.call('/auth/logout', { cookie })
    // Nothing that it names is worth the seconds that a browser with a full cache takes.
    expect(headers['clear-site-data']).toBeUndefined()
    const [pair, ...attributes] = String(headers['set-cookie']).split('; ')
    expect(pair).toBe('__Host-session=')
    expect(attributes.sort()).toEqual([
      'Expires=Thu, 01 Jan 1970 00:00:00 GMT',
      'HttpOnly',
      'Max-Age=0',
      'Path=/',
      'SameSite=Strict',
      'Secure',
    ])
  })
})

describe('after a sign-out no token works (ASVS 7.4.1)', () => {
  /** Every token that any of the answers brought is dead, on both instances. */
  async function expectAllDead(bodies: { accessToken: string; refreshToken: string }[]) {
    for (const { accessToken, refreshToken } of bodies) {
      for (const at of [0, 1]) {
        expect(await service.getSession({ token: accessToken, at })).toMatchObject(ended)
        expect(await service.refresh(refreshToken, { at, key: 'race' })).toMatchObject(ended)
      }
    }
  }

  test('no token survives a sign-out during concurrent refreshes (ASVS 7.4.1)', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { tokens } = await openSessions()
      const refreshes = times(50, (i) => service.refresh(tokens.refreshToken, { at: i % 2, key: 'race' }))
      // The later rounds log out when some have their answer already.
      await Promise.all(refreshes.slice(0, round * 5))
      const logout = await service.call('/auth/logout', { token: tokens.accessToken, at: round % 2 })
      expect(logout.status).toBe(204)
      const answers = await Promise.all(refreshes)
      for (const answer of answers) if (answer.status !== 200) expect(answer).toMatchObject(ended)
      const successors = new Map(
        answers.filter(({ status }) => status === 200).map(({ body }) => [body.refreshToken, body]),
      )
      expect(successors.size).toBeLessThanOrEqual(1)
      await expectAllDead([tokens, ...successors.values()])
      expect(await sessionRow(tokens.session.id)).toMatchObject({ end_reason: 'logout' })
    }
  })

  test('no token survives a sign-out during consecutive refreshes', async () => {
    const { tokens } = await openSessions()
    const chain = [tokens]
    let loggedOut: ReturnType<typeof service.call> | undefined
    for (let turn = 0; turn < 50; turn += 1) {
      if (turn === 20) loggedOut = service.call('/auth/logout', { token: tokens.accessToken, at: 1 })
      const last = chain.at(-1)
      const answer = await service.refresh(last?.refreshToken, { key: `turn-${turn}` })
      if (answer.status === 200) chain.push(answer.body)
      else expect(answer).toMatchObject(ended)
    }
    expect((await loggedOut)?.status).toBe(204)
    expect(chain.length).toBeGreaterThan(20)
    await expectAllDead(chain)
  })

  test('no concurrent renewal revives a signed-out cookie', async () => {
    const { cookie } = await openSessions()
    const { body } = await service.getSession({ cookie })
    service.clock.advance(120)
    const [logout, ...answers] = await Promise.all([
      service.call('/auth/logout', { cookie, at: 1 }),
      ...times(50, (i) => service.getSession({ cookie, at: i % 2 })),
    ])
    expect(logout.status).toBe(204)
    for (const answer of answers) if (answer.status !== 200) expect(answer).toMatchObject(ended)
    for (const at of [0, 1]) expect(await service.getSession({ cookie, at })).toMatchObject(ended)
    expect(await sessionRow(body.session.id)).toMatchObject({ end_reason: 'logout' })
  })
})

describe('an ended session', () => {
  const signInInPlaceOf = (user: Person, cookie: string) =>
    service.cookieOf(user, { headers: { 'x-session-mode': 'cookie', cookie: `__Host-session=${cookie}` } })

  test('nothing changes an ended session (ASVS 7.4.1)', async () => {
    const { user, tokens, cookie } = await openSessions()
    const { body: cookieSession } = await service.getSession({ cookie })
    for (const credential of [{ token: tokens.accessToken }, { cookie }]) {
      await service.call('/auth/logout', credential)
    }
    const ids = [tokens.session.id, cookieSession.session.id]
    const before = await Promise.all(ids.map(sessionRow))
    const attempts: (() => Promise<unknown>)[] = [
      () => service.refresh(tokens.refreshToken),
      () => service.refresh(tokens.refreshToken, { key: 'again', at: 1 }),
      () => service.getSession({ token: tokens.accessToken }),
      () => service.call('/auth/logout?scope=all', { token: tokens.accessToken }),
      () => service.getSession({ cookie }),
      () => service.call('/auth/logout', { cookie, at: 1 }),
      () => signInInPlaceOf(user, cookie),
      async () =>
        service.call('/auth/logout?scope=all', { token: (await service.loginAs(user)).accessToken }),
      () => endSessionsOfUser(service.context, user.companyId, user.userId, service.clock.now()),
      () => endSessionsOfCompany(service.context, user.companyId, service.clock.now()),
      () => changeUserStatus(service.context, user.companyId, user, 'disabled'),
      () => changeUserStatus(service.context, user.companyId, user, 'active'),
      () => service.loginAs(user),
    ]
    for (const attempt of attempts) {
      service.clock.advance(61)
      await attempt()
      expect(await Promise.all(ids.map(sessionRow))).toEqual(before)
    }
    expect(await service.getSession({ cookie })).toMatchObject(ended)
  })

  const waiting: [string, (sessions: Awaited<ReturnType<typeof openSessions>>) => Promise<unknown>][] = [
    ['a logout', ({ tokens }) => service.call('/auth/logout', { token: tokens.accessToken })],
    ['a refresh', ({ tokens }) => service.refresh(tokens.refreshToken)],
    ['a use of the cookie that renews it', ({ cookie }) => service.getSession({ cookie, at: 1 })],
    ['a logout with the cookie', ({ cookie }) => service.call('/auth/logout', { cookie })],
    ['a sign-in in its place', ({ user, cookie }) => signInInPlaceOf(user, cookie)],
  ]
  test.each(waiting)('%s in progress leaves a session that ends as it ended', async (_what, act) => {
    const sessions = await openSessions()
    const { userId } = sessions.user
    service.clock.advance(120)
    let acting: Promise<unknown> | undefined
    await service.db.transaction().execute(async (tx) => {
      await tx
        .updateTable('sessions')
        .set({ ended_at: new Date(service.clock.now() - 1), end_reason: 'ended_by_operator' })
        .where('user_id', '=', userId)
        .execute()
      acting = act(sessions)
      await expect.poll(() => countWaiting(service.db)).toBe(1)
    })
    await acting
    const rows = await service.db
      .selectFrom('sessions')
      .selectAll()
      .where('user_id', '=', userId)
      .where('created_at', '<', new Date(service.clock.now()))
      .execute()
    expect(rows.map(({ end_reason }) => end_reason)).toEqual(['ended_by_operator', 'ended_by_operator'])
    for (const { ended_at, issued_at, created_at } of rows) {
      expect(ended_at?.getTime()).toBe(service.clock.now() - 1)
      expect(issued_at).toEqual(created_at)
    }
  })
})
