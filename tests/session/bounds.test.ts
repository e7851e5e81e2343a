import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { endSessionsOfCompany } from '../../src/operator/companies.ts'
import { releaseTogether } from '../support/races.ts'
import {
  countWaiting,
  NEW_PASSWORD,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'
import { auditOfSession, copySession, countLive } from './state.ts'

/** A member can have a limited number of sessions, and all of them end without a write to each row. */

const MAX = 4
const atMost = (max: number) => ({ MAX_SESSIONS_PER_MEMBER: String(max) })
const service = await openTestService({ instances: 2, env: atMost(MAX) })
const { call, context } = service
const admin = await service.addCompany()

/** Signs in one second after the last sign-in. */
async function signIn(person: Person) {
  service.clock.advance(1)
  return await service.loginAs(person)
}

const reasonOf = async (token: string) => (await service.getSession({ token, at: 1 })).body.reason

test('a sign-in at the maximum ends the longest unused session (ASVS 7.1.2)', async () => {
  const person = await service.addUser(admin)
  const sessions = []
  for (let count = 0; count < MAX; count += 1) sessions.push(await signIn(person))
  const [used, unused, ...rest] = sessions
  service.clock.advance(1)
  const { body: refreshed } = await service.refresh(used.refreshToken)
  const latest = await signIn(person)
  expect(await reasonOf(unused.accessToken)).toBe('superseded')
  expect((await service.refresh(unused.refreshToken)).body.reason).toBe('superseded')
  for (const { accessToken } of [refreshed, ...rest, latest])
    expect((await service.getSession({ token: accessToken })).status).toBe(200)
  const entry = { action: 'session_end', outcome: 'superseded', actor: person.userId }
  expect(await auditOfSession(service, unused.session.id)).toMatchObject([entry])
})

test('concurrent sign-ins never exceed the maximum (ASVS 15.4.2)', async () => {
  const person = await service.addUser(admin)
  const answers = await Promise.all(times(20, (i) => service.login(person, { at: i % 2 })))
  expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
  expect(await countLive(service, person)).toBe(MAX)
})

test.for([MAX, 1])('racing sign-ins end the longest unused of at most %i sessions', async (max) => {
  const racing = max === MAX ? service : await openTestService({ instances: 2, env: atMost(max) })
  const person = await racing.addCompany()
  const before = []
  for (let count = 0; count < max; count += 1) {
    racing.clock.advance(1)
    before.push(await racing.loginAs(person))
  }
  racing.clock.advance(1)
  // Each statement takes its snapshot before one of them opens a session.
  const acts = times(4, (at) => () => racing.login(person, { at: at % 2 }))
  const answers = await releaseTogether(racing.db, { table: 'users', ...person }, acts)
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(await countLive(racing, person)).toBe(max)
  const all = [...before, ...answers.map(({ body }) => body)]
  const live = await Promise.all(all.map(({ accessToken: token }) => racing.getSession({ token, at: 1 })))
  const ended = all.filter((_, index) => live[index]?.body.reason === 'superseded')
  expect(ended).toHaveLength(4)
  if (max === MAX) expect(ended).toEqual(before)
  for (const { session } of ended)
    expect(await auditOfSession(racing, session.id)).toMatchObject([{ outcome: 'superseded' }])
})

test('ended and expired sessions make room for new ones', async () => {
  const person = await service.addUser(admin)
  const first = await signIn(person)
  for (let count = 1; count < MAX; count += 1) await signIn(person)
  await service.call('/auth/logout', { token: first.accessToken })
  const second = await signIn(person)
  expect(await countLive(service, person)).toBe(MAX)
  service.clock.advance(8 * 86_400)
  await signIn(person)
  expect(await reasonOf(second.accessToken)).toBe(undefined)
  expect((await service.refresh(second.refreshToken)).body.code).toBe('token_expired')
  expect(await countLive(service, person)).toBe(1)
})

test('excess sessions end in bounded batches', async () => {
  const person = await service.addUser(admin)
  const { session } = await signIn(person)
  await copySession(service, session.id, { count: 1_500 })
  const { accessToken } = await signIn(person)
  expect(await countLive(service, person)).toBe(502)
  await signIn(person)
  expect(await countLive(service, person)).toBe(MAX)
  expect((await service.getSession({ token: accessToken })).status).toBe(200)
})

const json = { currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
test.for<[act: string, reason: string, end: (person: Person, token: string) => Promise<unknown>]>([
  ['a logout of all', 'logout', (_, token) => call('/auth/logout?scope=all', { token })],
  ['a password change', 'password_changed', (_, token) => call('/auth/password/change', { token, json })],
  ['an operator', 'ended_by_operator', (of) => endSessionsOfCompany(context, of.companyId)],
])('%s ends all sessions without writing their rows (ASVS 7.4.3)', async ([, reason, end]) => {
  const keepsOwn = reason === 'password_changed'
  const person = await service.addCompany()
  const other = await signIn(person)
  const own = await signIn(person)
  await copySession(service, other.session.id, { count: 20 })
  /** Changes with each write to one of the rows. */
  const versions = async () =>
    (
      await sql`select session_id, ctid::text from sessions
        where user_id = ${person.userId} and session_id <> ${own.session.id} order by 1`.execute(service.db)
    ).rows
  const before = await versions()
  await end(person, own.accessToken)
  expect(await countLive(service, person)).toBe(keepsOwn ? 1 : 0)
  expect(await versions()).toEqual(before)
  expect(await reasonOf(other.accessToken)).toBe(reason)
  expect((await service.refresh(other.refreshToken)).body.reason).toBe(reason)
  expect(await reasonOf(own.accessToken)).toBe(keepsOwn ? undefined : reason)
  const { accessToken: token } = keepsOwn ? own : await service.loginAs(person)
  const list = await service.call('/auth/sessions', { method: 'GET', token })
  expect(list.body.sessions).toHaveLength(1)
})

test('a refresh waiting for a password change succeeds in the kept session', async () => {
  const person = await service.addUser(admin)
  const { refreshToken, session } = await service.loginAs(person)
  let refreshing: ReturnType<typeof service.refresh> | undefined
  await service.db.transaction().execute(async (tx) => {
    await sql`update users set session_epoch = session_epoch + 1, session_epoch_reason = 'password_changed'
      where user_id = ${person.userId}`.execute(tx)
    await sql`update sessions set user_epoch = user_epoch + 1 where session_id = ${session.id}`.execute(tx)
    refreshing = service.refresh(refreshToken)
    await expect.poll(() => countWaiting(service.db)).toBe(1)
  })
  expect((await refreshing)?.status).toBe(200)
})
