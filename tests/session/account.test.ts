import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import {
  createClock,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'

const hasher = await createCountingHasher()
const service = await openTestService({ instances: 2, hasher })
const admin = await service.addCompany()

const listAs = async (credential: { token?: string; cookie?: string }, at = 0) =>
  (await service.call('/auth/sessions', { method: 'GET', at, ...credential })).body.sessions
const end = (id: string, credential: { token?: string; cookie?: string }, options = {}) =>
  service.call(`/auth/sessions/${id}`, { method: 'DELETE', ...credential, ...options })

describe("a user's own sessions (ASVS 7.5.2)", () => {
  test('the session list shows live sessions of both kinds, last used first', async () => {
    const person = await service.addUser(admin)
    await service.loginAs(await service.addUser(admin))
    const gone = await service.loginAs(person)
    await service.call('/auth/logout', { token: gone.accessToken })
    const first = await service.loginAs(person, { headers: { 'user-agent': 'curl/8.0' } })
    service.clock.advance(100)
    const cookie = await service.cookieOf(person)
    service.clock.advance(100)
    const { body: refreshed } = await service.refresh(first.refreshToken)
    const createdAt = first.session.createdAt

    const sessions = await listAs({ token: refreshed.accessToken }, 1)
    expect(sessions).toEqual([
      {
        id: first.session.id,
        kind: 'token',
        createdAt,
        lastSeenAt: new Date(service.clock.now()).toISOString(),
        userAgent: 'curl/8.0',
        ipAddress: '127.0.0.1',
        current: true,
      },
      {
        id: expect.any(String),
        kind: 'cookie',
        createdAt: new Date(service.clock.now() - 100_000).toISOString(),
        lastSeenAt: new Date(service.clock.now() - 100_000).toISOString(),
        userAgent: null,
        ipAddress: '127.0.0.1',
        current: false,
      },
    ])
    service.clock.advance(1)
    const byCookie = await listAs({ cookie })
    expect(byCookie.map(({ kind, current }: Record<string, unknown>) => [kind, current])).toEqual([
      ['cookie', true],
      ['token', false],
    ])
  })

  test('the session list leaves out expired sessions', async () => {
    const person = await service.addUser(admin)
    await service.cookieOf(person)
    service.clock.advance(12 * 3600 + 1)
    const { accessToken, session } = await service.loginAs(person)
    const sessions = await listAs({ token: accessToken })
    expect(sessions.map(({ id }: { id: string }) => id)).toEqual([session.id])
  })

  test('the session list has at most 1,000 sessions', async () => {
    const person = await service.addUser(admin)
    const { accessToken } = await service.loginAs(person)
    const { session_id: _, ...row } = await service.db
      .selectFrom('sessions')
      .selectAll()
      .where('user_id', '=', person.userId)
      .executeTakeFirstOrThrow()
    const copies = times(1_100, () => ({ ...row, session_id: randomUUID() }))
    await service.db.insertInto('sessions').values(copies).execute()
    expect(await listAs({ token: accessToken })).toHaveLength(1_000)
  })
})

describe('ending one of your own sessions (ASVS 7.5.2)', () => {
  test('a session ended from the list ends on every instance', async () => {
    const person = await service.addUser(admin)
    const [mine, other] = [await service.loginAs(person), await service.loginAs(person)]
    const cookie = await service.cookieOf(person)
    expect((await end(other.session.id, { token: mine.accessToken })).status).toBe(204)
    const ended = { status: 401, body: { code: 'session_ended', reason: 'ended_by_user' } }
    expect(await service.getSession({ token: other.accessToken, at: 1 })).toMatchObject(ended)
    expect(await service.refresh(other.refreshToken, { at: 1 })).toMatchObject(ended)
    expect((await service.getSession({ token: mine.accessToken, at: 1 })).status).toBe(200)
    expect((await service.getSession({ cookie, at: 1 })).status).toBe(200)
    const audit = await selectAudit(service.db)
      .select(['action', 'outcome', 'actor', 'ip_address'])
      .where('session_id', '=', other.session.id)
      .where('action', '=', 'session_end')
      .execute()
    expect(audit).toEqual([
      { action: 'session_end', outcome: 'done', actor: person.userId, ip_address: '127.0.0.1' },
    ])
  })

  test('ending the current session expires the cookie', async () => {
    const person = await service.addUser(admin)
    const cookie = await service.cookieOf(person)
    const [own] = await listAs({ cookie })
    const answer = await end(own.id.toUpperCase(), { cookie })
    expect(answer.status).toBe(204)
    expect(answer.headers['set-cookie']).toMatch(/^__Host-session=;.*Secure/)
    expect((await service.getSession({ cookie })).status).toBe(401)
  })

  test("other people's sessions look like missing ones (ASVS 8.2.2)", async () => {
    const person = await service.addUser(admin)
    const { accessToken } = await service.loginAs(person)
    const gone = await service.loginAs(person)
    await end(gone.session.id, { token: accessToken })
    const others = [
      (await service.loginAs(await service.addUser(admin))).session.id,
      (await service.loginAs(admin)).session.id,
      (await service.loginAs(await service.addCompany())).session.id,
      gone.session.id,
      randomUUID(),
    ]
    const before = await service.db.selectFrom('sessions').selectAll().orderBy('session_id').execute()
    const answers = []
    for (const id of others) answers.push(await end(id, { token: accessToken }))
    for (const answer of answers) {
      expectProblem(answer, [404, 'not_found'])
      expect({ ...answer.body, requestId: '' }).toEqual({ ...answers[0]?.body, requestId: '' })
    }
    expect(await service.db.selectFrom('sessions').selectAll().orderBy('session_id').execute()).toEqual(
      before,
    )
    for (const id of ['x', `urn:uuid:${randomUUID()}`, '%00'])
      expect((await end(id, { token: accessToken })).status).toBe(400)
  })

  test('a session ends even if one clock is a minute ahead', async () => {
    const [slow, fast] = [createClock(), createClock()]
    const apart = await openTestService({ instances: 2, clocks: [slow, fast] })
    const person = await apart.addCompany()
    const cookie = await apart.cookieOf(person)
    const { sessions } = (await apart.call('/auth/sessions', { method: 'GET', cookie })).body
    fast.advance(12 * 3600 + 30)
    slow.advance(12 * 3600 - 30)
    const { accessToken } = await apart.loginAs(person, { at: 1 })
    const ending = { method: 'DELETE', token: accessToken, at: 1 }
    expect((await apart.call(`/auth/sessions/${sessions[0].id}`, ending)).status).toBe(204)
    expect((await apart.getSession({ cookie })).status).toBe(401)
  })

  test('only one of fifty concurrent requests ends a session', async () => {
    const person = await service.addUser(admin)
    const [mine, other] = [await service.loginAs(person), await service.loginAs(person)]
    const answers = await Promise.all(
      times(50, (index) => end(other.session.id, { token: mine.accessToken }, { at: index % 2 })),
    )
    expect(answers.filter(({ status }) => status === 204)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 404)).toHaveLength(49)
  })
})

describe('changing the password', () => {
  const change = (credential: { token?: string; cookie?: string }, json: object, options = {}) =>
    service.call('/auth/password/change', { json, ...credential, ...options })
  const json = { currentPassword: PASSWORD, newPassword: 'another good password' }

  test("changing the password ends the user's other sessions (ASVS 6.2.2, 7.4.3)", async () => {
    const person = await service.addUser(admin)
    const [mine, other] = [await service.loginAs(person), await service.loginAs(person)]
    const cookie = await service.cookieOf(person)
    const colleague = await service.loginAs(admin)
    expect((await change({ token: mine.accessToken }, json)).status).toBe(204)
    const ended = { status: 401, body: { code: 'session_ended', reason: 'password_changed' } }
    expect(await service.getSession({ token: other.accessToken, at: 1 })).toMatchObject(ended)
    expect(await service.refresh(other.refreshToken, { at: 1 })).toMatchObject(ended)
    expect(await service.getSession({ cookie, at: 1 })).toMatchObject(ended)
    expect((await service.refresh(mine.refreshToken, { at: 1 })).status).toBe(200)
    expect((await service.getSession({ token: colleague.accessToken })).status).toBe(200)
    expect((await service.login(person)).status).toBe(401)
    expect((await service.login({ ...person, password: json.newPassword })).status).toBe(200)
  })

  test('changing the password requires the current password (ASVS 6.2.3)', async () => {
    const person = await service.addUser(admin)
    const { accessToken } = await service.loginAs(person)
    const answer = await change({ token: accessToken }, { ...json, currentPassword: 'not it at all' })
    expectProblem(answer, [400, 'invalid_request'])
    expect(answer.body.errors).toEqual([{ path: '/currentPassword', message: 'is wrong' }])
    expect((await service.login(person)).status).toBe(200)
    const audit = await selectAudit(service.db)
      .select('outcome')
      .where('actor', '=', person.userId)
      .where('action', '=', 'password_change')
      .execute()
    expect(audit).toEqual([{ outcome: 'refused' }])
  })

  test.each([
    ['short', 'short'],
    ['the email address', 'EMAIL'],
    ['the company name', 'COMPANY'],
  ])(
    'a new password that is %s is rejected before hashing (ASVS 6.2.1, 6.2.4, 6.2.11)',
    async (_what, text) => {
      const person = await service.addUser(admin)
      const { accessToken, accessContext } = await service.loginAs(person)
      const newPassword = { EMAIL: person.email, COMPANY: accessContext.companyName }[text] ?? text
      hasher.verified = 0
      const answer = await change({ token: accessToken }, { ...json, newPassword })
      expectProblem(answer, [400, 'invalid_request'])
      expect(answer.body.errors[0].path).toBe('/newPassword')
      expect(hasher.verified).toBe(0)
    },
  )

  test('a new password must be different from the current one', async () => {
    const person = await service.addUser(admin)
    const { accessToken } = await service.loginAs(person)
    const answer = await change({ token: accessToken }, { ...json, newPassword: json.currentPassword })
    expectProblem(answer, [400, 'invalid_request'])
    expect(answer.body.errors[0].path).toBe('/newPassword')
  })

  test('only one of two concurrent password changes succeeds', async () => {
    const person = await service.addUser(admin)
    const sessions = [await service.loginAs(person), await service.loginAs(person)]
    // The winner's change ends the other session: its request is let in before.
    const bothVerify = Promise.withResolvers<void>()
    let verifying = 0
    hasher.beforeVerifying = async () => {
      verifying += 1
      if (verifying === sessions.length) bothVerify.resolve()
      await bothVerify.promise
    }
    onTestFinished(() => {
      hasher.beforeVerifying = undefined
    })
    const answers = await Promise.all(
      sessions.map(({ accessToken }, at) =>
        change({ token: accessToken }, { ...json, newPassword: `password of number ${at}` }, { at }),
      ),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 400])
    const winner = answers.findIndex(({ status }) => status === 204)
    expect((await service.login({ ...person, password: `password of number ${winner}` })).status).toBe(200)
    expect((await service.login({ ...person, password: `password of number ${1 - winner}` })).status).toBe(
      401,
    )
  })

  test('changing the password is limited (ASVS 2.4.1)', async () => {
    const own = await openTestService({ env: { LIMIT_PASSWORD_CHANGES: '1/3600', RATE_LIMIT_SCALE: '1' } })
    const { accessToken: token } = await own.loginAs(await own.addCompany())
    const wrong = { ...json, currentPassword: 'not it at all' }
    const tryTo = () => own.call('/auth/password/change', { token, json: wrong })
    expect([(await tryTo()).status, (await tryTo()).status]).toEqual([400, 429])
  })

  test('a current password that is too long is not hashed (ASVS 6.2.1)', async () => {
    const person = await service.addUser(admin)
    const { accessToken } = await service.loginAs(person)
    hasher.verified = 0
    const answer = await change({ token: accessToken }, { ...json, currentPassword: 'x'.repeat(1_000) })
    expectProblem(answer, [400, 'invalid_request'])
    expect(hasher.verified).toBe(0)
  })

  test('changing the password invalidates an emailed reset link', async () => {
    const person = await service.addUser(admin)
    await service.call('/auth/password/forgot', {
      json: { companyId: person.companyId, email: person.email },
    })
    const tokensOf = () =>
      service.db.selectFrom('one_time_tokens').select('purpose').where('email', '=', person.email).execute()
    await expect.poll(tokensOf).toEqual([{ purpose: 'reset' }])
    const { accessToken } = await service.loginAs(person)
    expect((await change({ token: accessToken }, json)).status).toBe(204)
    expect(await tokensOf()).toEqual([])
  })

  describe('the password stays if, during the check,', () => {
    const changes: [string, (person: Person, token: string) => Promise<unknown>][] = [
      ['the session is ended', (_, token) => service.call('/auth/logout', { token, at: 1 })],
      [
        'the user is disabled',
        (person) => changeUserStatus(service.context, person.companyId, person, 'disabled'),
      ],
      [
        'the company is suspended',
        (person) => changeCompanyStatus(service.context, person.companyId, 'suspended'),
      ],
    ]
    test.each(changes)(
      'the password stays if %s during the check (ASVS 7.4.2, 8.3.2)',
      async (_what, happen) => {
        const person = await service.addUser(await service.addCompany())
        const { accessToken } = await service.loginAs(person)
        const hash = () =>
          service.db
            .selectFrom('users')
            .select('password_hash')
            .where('user_id', '=', person.userId)
            .executeTakeFirst()
        const before = await hash()
        hasher.beforeVerifying = async () => {
          hasher.beforeVerifying = undefined
          await happen(person, accessToken)
        }
        const { status } = await change({ token: accessToken }, json)
        expect([400, 401]).toContain(status)
        expect(await hash()).toEqual(before)
      },
    )
  })

  test('wrong current passwords count as failed sign-ins (ASVS 6.1.1, 6.3.1)', async () => {
    const own = await openTestService({
      instances: 2,
      env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '1000/60', LIMIT_PASSWORD_CHANGES: '1000/60' },
    })
    const person = await own.addCompany()
    const { accessToken } = await own.loginAs(person)
    const guess = (at: number) =>
      own.call('/auth/password/change', {
        token: accessToken,
        json: { ...json, currentPassword: 'not it' },
        at,
      })
    for (let count = 0; count < 4; count += 1)
      expect((await own.login({ ...person, password: 'not it' })).status).toBe(401)
    const answers = await Promise.all(times(20, (index) => guess(index % 2)))
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(6)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(14)
    expect((await own.login(person)).status).toBe(429)
    own.clock.advance(901)
    expect(
      (await own.call('/auth/password/change', { token: (await own.loginAs(person)).accessToken, json }))
        .status,
    ).toBe(204)
  })
})
