import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { endSessionsOfCompany } from '../../src/operator/companies.ts'
import { selectAudit } from '../support/audit.ts'
import { countWaiting, openTestService, PASSWORD, type Person, times } from '../support/test-service.ts'

/** How many sessions a member can have, and how all of them end without writing each row. */

const MAX = 4
const service = await openTestService({
  instances: 2,
  env: { TRUST_PROXY: '127.0.0.1/32', MAX_SESSIONS_PER_MEMBER: String(MAX) },
})
const admin = await service.addCompany()
const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
const MANY = 2_000

/** Signs in one second after the last sign-in. */
async function signIn(person: Person, address = '192.0.2.1') {
  service.clock.advance(1)
  return await service.loginAs(person, from(address))
}

const reasonOf = async (token: string) => (await service.getSession({ token, at: 1 })).body.reason

async function countLive({ companyId, userId }: Person): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from sessions s
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
      and a.user_epoch = s.user_epoch and a.company_epoch = s.company_epoch
    where s.company_id = ${companyId} and s.user_id = ${userId} and s.ended_at is null
      and s.expires_at > ${new Date(service.clock.now())}`.execute(service.db)
  return rows[0]?.count ?? 0
}

/** Adds live sessions, all like one. */
async function addSessions(sessionId: string, count: number): Promise<void> {
  await sql`
    insert into sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at, max_expires_at,
      network, user_epoch, company_epoch)
    select company_id, gen_random_uuid(), user_id, kind, created_at, issued_at, expires_at, max_expires_at, network,
      user_epoch, company_epoch
    from sessions, generate_series(1, ${count}) where session_id = ${sessionId}`.execute(service.db)
}

describe('the maximum number of sessions (ASVS 7.1.2)', () => {
  test('signing in at the maximum ends the longest unused session (ASVS 7.1.2)', async () => {
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
    const audit = await selectAudit(service.db)
      .select(['action', 'outcome', 'actor'])
      .where('session_id', '=', unused.session.id)
      .where('action', '<>', 'sign_in')
      .execute()
    expect(audit).toEqual([{ action: 'session_end', outcome: 'superseded', actor: person.userId }])
  })

  test('a thief who opens many sessions evicts only their own', async () => {
    const person = await service.addUser(admin)
    const owner = await signIn(person, '192.0.2.7')
    const stolen = []
    for (let count = 0; count < MAX + 3; count += 1) stolen.push(await signIn(person, '203.0.113.9'))
    expect((await service.getSession({ token: owner.accessToken })).status).toBe(200)
    const reasons = await Promise.all(stolen.map(({ accessToken }) => reasonOf(accessToken)))
    expect(reasons).toEqual([
      ...times(stolen.length - MAX + 1, () => 'superseded'),
      ...times(MAX - 1, () => undefined),
    ])
  })

  test('sessions in one IPv6 /64 count as one network', async () => {
    const person = await service.addUser(admin)
    const owner = await signIn(person)
    const cookie = await service.cookieOf(person, {
      headers: { 'x-session-mode': 'cookie', 'x-forwarded-for': '2001:db8:1:2::1' },
    })
    for (let host = 2; host <= MAX; host += 1) await signIn(person, `2001:db8:1:2::${host}`)
    expect((await service.getSession({ token: owner.accessToken })).status).toBe(200)
    expect((await service.getSession({ cookie })).body.reason).toBe('superseded')
  })

  test('concurrent sign-ins never exceed the maximum (ASVS 15.4.2)', async () => {
    const person = await service.addUser(admin)
    const answers = await Promise.all(times(20, (i) => service.login(person, { at: i % 2 })))
    expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
    expect(await countLive(person)).toBe(MAX)
  })

  test('ended and expired sessions make room for new ones', async () => {
    const person = await service.addUser(admin)
    const first = await signIn(person)
    for (let count = 1; count < MAX; count += 1) await signIn(person)
    await service.call('/auth/logout', { token: first.accessToken })
    const second = await signIn(person)
    expect(await countLive(person)).toBe(MAX)
    service.clock.advance(8 * 86_400)
    await signIn(person)
    expect(await reasonOf(second.accessToken)).toBe(undefined)
    expect((await service.refresh(second.refreshToken)).body.code).toBe('token_expired')
    expect(await countLive(person)).toBe(1)
  })

  test('too many existing sessions end in bounded batches', async () => {
    const person = await service.addUser(admin)
    const { session } = await signIn(person)
    await addSessions(session.id, 1_500)
    const { accessToken } = await signIn(person)
    expect(await countLive(person)).toBe(502)
    await signIn(person)
    expect(await countLive(person)).toBe(MAX)
    expect((await service.getSession({ token: accessToken })).status).toBe(200)
  })
})

describe(`ending all of ${MANY} sessions`, () => {
  const endings: [string, (person: Person, token: string) => Promise<unknown>, string, boolean][] = [
    ['a logout of all', (_, token) => service.call('/auth/logout?scope=all', { token }), 'logout', false],
    [
      'a change of the password',
      (_, token) =>
        service.call('/auth/password/change', {
          token,
          json: { currentPassword: PASSWORD, newPassword: 'wrong horse staple' },
        }),
      'password_changed',
      true,
    ],
    [
      'an operator',
      ({ companyId }) => endSessionsOfCompany(service.context, companyId, service.clock.now()),
      'ended_by_operator',
      false,
    ],
  ]

  test.each(endings)(
    '%s ends all sessions without writing their rows (ASVS 7.4.3)',
    async (_what, end, reason, keepsOwn) => {
      const person = await service.addCompany()
      const other = await signIn(person)
      const own = await signIn(person)
      await addSessions(other.session.id, MANY)
      /** Changes with each write to one of the rows. */
      const versions = async () =>
        (
          await sql`
          select md5(string_agg(ctid::text, ',' order by session_id)) from sessions
          where user_id = ${person.userId} and session_id <> ${own.session.id}`.execute(service.db)
        ).rows
      const before = await versions()
      await end(person, own.accessToken)
      expect(await countLive(person)).toBe(keepsOwn ? 1 : 0)
      expect(await versions()).toEqual(before)
      expect(await reasonOf(other.accessToken)).toBe(reason)
      expect((await service.refresh(other.refreshToken)).body.reason).toBe(reason)
      expect(await reasonOf(own.accessToken)).toBe(keepsOwn ? undefined : reason)
      const list = await service.call('/auth/sessions', {
        method: 'GET',
        token: keepsOwn
          ? own.accessToken
          : (await service.loginAs({ ...person, password: PASSWORD })).accessToken,
      })
      expect(list.body.sessions).toHaveLength(1)
    },
  )
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
