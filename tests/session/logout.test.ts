import { expect, test } from 'vitest'
import { endSessionsOfCompany } from '../../src/operator/companies.ts'
import { changeUserStatus, endSessionsOfUser } from '../../src/operator/users.ts'
import type { Credential } from '../support/second-factors.ts'
import { countWaiting, type Person, times, useSharedService } from '../support/test-service.ts'
import { auditOfSession, ended, sessionRow } from './state.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()

/** A session of each kind on the first instance, used once on the second. */
async function openSessions() {
  const user = await service.addUser(admin)
  const tokens = await service.loginAs(user)
  const cookie = await service.cookieOf(user)
  for (const credential of [{ token: tokens.accessToken }, { cookie }])
    expect((await service.getSession({ ...credential, at: 1 })).status).toBe(200)
  return { user, tokens, cookie }
}

const loggedOut = ended('logout')
const logOut = (credential: Credential, { at = 0, query = '' } = {}) =>
  service.call(`/auth/logout${query}`, { ...credential, at })

/** Neither the credentials nor the refresh tokens work on either instance. */
async function expectLoggedOut(credentials: Credential[], refreshTokens: string[] = []) {
  for (const at of [1, 0]) {
    for (const credential of credentials)
      expect(await service.getSession({ ...credential, at })).toMatchObject(loggedOut)
    for (const token of refreshTokens)
      expect(await service.refresh(token, { at, key: 'retry' })).toMatchObject(loggedOut)
  }
}

const expectPairsLoggedOut = (pairs: { accessToken: string; refreshToken: string }[]) =>
  expectLoggedOut(
    pairs.map(({ accessToken: token }) => ({ token })),
    pairs.map(({ refreshToken }) => refreshToken),
  )

test('signing out immediately ends tokens of every generation everywhere (ASVS 7.4.1, 16.3.1)', async () => {
  const { user, tokens: first, cookie } = await openSessions()
  const { body: second } = await service.refresh(first.refreshToken, { key: 'k1' })
  const { body: third } = await service.refresh(second.refreshToken, { key: 'retry' })
  const answer = await logOut({ token: first.accessToken })
  expect([answer.status, answer.body, answer.headers['set-cookie']]).toEqual([204, '', undefined])
  await expectPairsLoggedOut([first, second, third])
  expect((await service.getSession({ cookie })).status).toBe(200)
  expect(await auditOfSession(service, first.session.id)).toEqual([
    { action: 'logout', outcome: 'done', actor: user.userId, ip_address: '127.0.0.1' },
  ])
})

test('signing out by cookie ends and expires only the session cookie (ASVS 7.4.1, 14.3.1)', async () => {
  const { tokens, cookie } = await openSessions()
  const { status, headers } = await logOut({ cookie })
  expect(status).toBe(204)
  // Clearing a full browser cache takes seconds, which is not worth it here.
  expect(headers['clear-site-data']).toBeUndefined()
  const [pair, ...attributes] = String(headers['set-cookie']).split('; ')
  expect(pair).toBe('__Host-session=')
  const past = 'Expires=Thu, 01 Jan 1970 00:00:00 GMT'
  expect(attributes.sort()).toEqual([past, 'HttpOnly', 'Max-Age=0', 'Path=/', 'SameSite=Strict', 'Secure'])
  await expectLoggedOut([{ cookie }])
  expect((await service.getSession({ token: tokens.accessToken })).status).toBe(200)
})

test.for(['token', 'cookie'])('signing out everywhere by %s ends only the user’s sessions', async (kind) => {
  const { user, tokens, cookie } = await openSessions()
  const other = await service.loginAs(user, { at: 1 })
  const bystander = await openSessions()
  const token = tokens.accessToken
  expect((await logOut(kind === 'token' ? { token } : { cookie }, { query: '?scope=all' })).status).toBe(204)
  await expectLoggedOut([{ token }, { token: other.accessToken }, { cookie }], [other.refreshToken])
  for (const alive of [{ token: bystander.tokens.accessToken }, { cookie: bystander.cookie }])
    expect((await service.getSession({ ...alive, at: 1 })).status).toBe(200)
  expect((await service.login(user)).status).toBe(200)
  const entry = { action: 'logout_all', actor: user.userId }
  if (kind === 'token') expect(await auditOfSession(service, tokens.session.id)).toMatchObject([entry])
})

test('concurrent sign-outs end the session once', async () => {
  const { tokens } = await openSessions()
  const answers = await Promise.all(times(20, (i) => logOut({ token: tokens.accessToken }, { at: i % 2 })))
  for (const answer of answers) if (answer.status !== 204) expect(answer).toMatchObject(loggedOut)
  expect(answers.some(({ status }) => status === 204)).toBe(true)
  expect(await sessionRow(service, tokens.session.id)).toMatchObject({ end_reason: 'logout' })
})

test('no token survives a sign-out during concurrent refreshes (ASVS 7.4.1)', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { tokens } = await openSessions()
    const refreshes = times(50, (i) => service.refresh(tokens.refreshToken, { at: i % 2, key: 'retry' }))
    // In later rounds, some refreshes already have their response.
    await Promise.all(refreshes.slice(0, round * 5))
    expect((await logOut({ token: tokens.accessToken }, { at: round % 2 })).status).toBe(204)
    const answers = await Promise.all(refreshes)
    for (const answer of answers) if (answer.status !== 200) expect(answer).toMatchObject(loggedOut)
    const successors = new Map(
      answers.filter(({ status }) => status === 200).map(({ body }) => [body.refreshToken, body]),
    )
    expect(successors.size).toBeLessThanOrEqual(1)
    await expectPairsLoggedOut([tokens, ...successors.values()])
    expect(await sessionRow(service, tokens.session.id)).toMatchObject({ end_reason: 'logout' })
  }
})

test('no token survives a sign-out during consecutive refreshes', async () => {
  const { tokens } = await openSessions()
  const chain = [tokens]
  let loggingOut: ReturnType<typeof logOut> | undefined
  for (let turn = 0; turn < 50; turn += 1) {
    if (turn === 20) loggingOut = logOut({ token: tokens.accessToken }, { at: 1 })
    const last = chain.at(-1)
    const answer = await service.refresh(last?.refreshToken, { key: `turn-${turn}` })
    if (answer.status === 200) chain.push(answer.body)
    else expect(answer).toMatchObject(loggedOut)
  }
  expect((await loggingOut)?.status).toBe(204)
  expect(chain.length).toBeGreaterThan(20)
  await expectPairsLoggedOut(chain)
})

test('no concurrent renewal revives a signed-out cookie', async () => {
  const { cookie } = await openSessions()
  const { body } = await service.getSession({ cookie })
  service.clock.advance(120)
  const [logout, ...answers] = await Promise.all([
    logOut({ cookie }, { at: 1 }),
    ...times(50, (i) => service.getSession({ cookie, at: i % 2 })),
  ])
  expect(logout.status).toBe(204)
  for (const answer of answers) if (answer.status !== 200) expect(answer).toMatchObject(loggedOut)
  await expectLoggedOut([{ cookie }])
  expect(await sessionRow(service, body.session.id)).toMatchObject({ end_reason: 'logout' })
})

const signInInPlaceOf = (user: Person, cookie: string) =>
  service.cookieOf(user, { headers: { 'x-session-mode': 'cookie', cookie: `__Host-session=${cookie}` } })

test('nothing changes an ended session (ASVS 7.4.1)', async () => {
  const { user, tokens, cookie } = await openSessions()
  const { body: cookieSession } = await service.getSession({ cookie })
  for (const credential of [{ token: tokens.accessToken }, { cookie }]) await logOut(credential)
  const rows = () =>
    Promise.all([tokens, cookieSession].map(({ session }) => sessionRow(service, session.id)))
  const before = await rows()
  const attempts: (() => Promise<unknown>)[] = [
    () => service.refresh(tokens.refreshToken),
    () => service.refresh(tokens.refreshToken, { key: 'again', at: 1 }),
    () => service.getSession({ token: tokens.accessToken }),
    () => logOut({ token: tokens.accessToken }, { query: '?scope=all' }),
    () => service.getSession({ cookie }),
    () => logOut({ cookie }, { at: 1 }),
    () => signInInPlaceOf(user, cookie),
    async () => logOut({ token: (await service.loginAs(user)).accessToken }, { query: '?scope=all' }),
    () => endSessionsOfUser(service.context, user.companyId, user.userId),
    () => endSessionsOfCompany(service.context, user.companyId),
    () => changeUserStatus(service.context, user.companyId, user, 'disabled'),
    () => changeUserStatus(service.context, user.companyId, user, 'active'),
    () => service.loginAs(user),
  ]
  for (const attempt of attempts) {
    service.clock.advance(61)
    await attempt()
    expect(await rows()).toEqual(before)
  }
  expect(await service.getSession({ cookie })).toMatchObject(loggedOut)
})

const waiting: [string, (sessions: Awaited<ReturnType<typeof openSessions>>) => Promise<unknown>][] = [
  ['a logout', ({ tokens }) => logOut({ token: tokens.accessToken })],
  ['a refresh', ({ tokens }) => service.refresh(tokens.refreshToken)],
  ['a renewal of the cookie', ({ cookie }) => service.getSession({ cookie, at: 1 })],
  ['a logout by cookie', ({ cookie }) => logOut({ cookie })],
  ['a sign-in in its place', ({ user, cookie }) => signInInPlaceOf(user, cookie)],
]
test.for(waiting)('%s in progress does not change how a session has ended', async ([, act]) => {
  const sessions = await openSessions()
  const { userId } = sessions.user
  service.clock.advance(120)
  const ending = { ended_at: new Date(service.clock.now() - 1), end_reason: 'ended_by_operator' } as const
  let acting: Promise<unknown> | undefined
  await service.db.transaction().execute(async (tx) => {
    await tx.updateTable('sessions').set(ending).where('user_id', '=', userId).execute()
    acting = act(sessions)
    await expect.poll(() => countWaiting(service.db)).toBe(1)
  })
  await acting
  const theirs = service.db.selectFrom('sessions').selectAll().where('user_id', '=', userId)
  const rows = await theirs.where('created_at', '<', new Date(service.clock.now())).execute()
  expect(rows).toMatchObject([ending, ending])
  for (const { issued_at, created_at } of rows) expect(issued_at).toEqual(created_at)
})
