import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { expectField, expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { openTestService, PASSWORD, type Person, times } from '../support/test-service.ts'

/** Passwords of service members: their form, two of them at a time, and what ends with them. */

const service = await openTestService({ instances: 2 })
const admin = await service.addCompany()
const token = (await service.loginAs(admin)).accessToken
const { companyId } = admin

/** A server of the company. */
async function addServer(at = 0): Promise<Person> {
  const json = { name: 'Billing Worker', role: 'developer' }
  const { status, body } = await service.call('/auth/members', { token, json, at })
  expect(status).toBe(201)
  return { companyId, userId: body.id, email: body.email, password: body.password }
}
const replace = (server: Person, json?: object, at = 0) =>
  service.call(`/auth/members/${server.userId}/password`, { token, at, ...(json && { json }) })
/** Replaces the password, and returns the server with the next one. */
async function withNext(server: Person, previousValidSeconds?: number, at = 0): Promise<Person> {
  const { status, body } = await replace(server, { previousValidSeconds }, at)
  expect(status).toBe(200)
  return { ...server, password: body.password }
}
const passwordsOf = async (server: Person) =>
  (await service.call(`/auth/members/${server.userId}`, { method: 'GET', token })).body.passwords
const tokenOf = async (server: Person) => (await service.loginAs(server)).accessToken
const statusOf = async (credential: string) => (await service.getSession({ token: credential, at: 1 })).status
const canSignIn = async (server: Person) => (await service.login(server, { at: 1 })).status === 200
/** As the time of the database passes: the password before the newest one has had its time. */
const letFormerExpire = ({ userId }: Person) =>
  service.db
    .updateTable('users')
    .set({ former_password_until: sql`clock_timestamp() - interval '1 millisecond'` })
    .where('user_id', '=', userId)
    .execute()
/** What an instance from before service passwords had made. */
async function makeOlder(server: Person, password = 'a password of an older form'): Promise<Person> {
  await service.db.deleteFrom('service_passwords').where('user_id', '=', server.userId).execute()
  const hash = await service.context.hasher.hash(password)
  await service.db
    .updateTable('users')
    .set({ password_hash: hash, password_epoch: 0 })
    .where('user_id', '=', server.userId)
    .execute()
  return { ...server, password }
}

describe('a service password', () => {
  test('has a form of its own, and is stored as a digest (ASVS 6.4.1, 11.4.2)', async () => {
    const server = await addServer()
    expect(server.password).toMatch(/^gsp_[A-Za-z0-9_-]{43}$/)
    const { rows } = await sql<{ row: string }>`
      select to_jsonb(p)::text || to_jsonb(u)::text as row from service_passwords p join users u using (company_id, user_id)
      where u.user_id = ${server.userId}`.execute(service.db)
    expect(rows).toHaveLength(1)
    expect(rows[0]?.row).not.toContain(server.password.slice(4))
    expect(rows[0]?.row).not.toContain('argon2')
  })

  test('names the cell after gsp_, and is refused by another one', async () => {
    const cell = await openTestService({ env: { CELL: 'eu1' } })
    const company = await cell.addCompany()
    const { accessToken } = await cell.loginAs(company)
    const add = await cell.call('/auth/members', { token: accessToken, json: { name: 'W', role: 'viewer' } })
    const server = { ...company, email: add.body.email, password: add.body.password }
    expect(server.password).toMatch(/^gsp_eu1\.[A-Za-z0-9_-]{43}$/)
    await cell.loginAs(server)
    const elsewhere = server.password.replace('eu1', 'us2')
    for (const password of [elsewhere, server.password.replace('eu1.', '')])
      expectProblem(await cell.login({ ...server, password }), [401, 'invalid_credentials'])
  })

  test('is listed by its last characters, with its use to the hour', async () => {
    const server = await addServer()
    const at = new Date(service.clock.now())
    const listed = {
      hint: server.password.slice(-4),
      createdAt: at.toISOString(),
      lastUsedAt: null,
      expiresAt: null,
    }
    expect(await passwordsOf(server)).toEqual([listed])
    await service.loginAs(server)
    at.setUTCMinutes(0, 0, 0)
    expect(await passwordsOf(server)).toEqual([{ ...listed, lastUsedAt: at.toISOString() }])
    const person = await service.call(`/auth/members?search=${admin.email}`, { method: 'GET', token })
    expect(person.body.members).toHaveLength(1)
    expect(person.body.members[0]).not.toHaveProperty('passwords')
  })
})

describe('a password that is replaced', () => {
  test('is dead at once with the sessions that it opened, by default', async () => {
    const server = await addServer()
    const opened = await tokenOf(server)
    const { body } = await replace(server)
    expect(body).toEqual({ password: expect.stringMatching(/^gsp_/), previousExpiresAt: null })
    const ended = await service.getSession({ token: opened, at: 1 })
    expect([ended.status, ended.body.reason]).toEqual([401, 'password_reset'])
    expect(await canSignIn(server)).toBe(false)
    expect(await canSignIn({ ...server, password: body.password })).toBe(true)
  })

  test('works beside the next one for as long as is asked, with the sessions that it opens', async () => {
    const server = await addServer()
    const before = await service.loginAs(server)
    const answer = await replace(server, { previousValidSeconds: 604_800 })
    expect(answer.status).toBe(200)
    const next = { ...server, password: answer.body.password }
    const { rows } = await sql<{ seconds: number }>`
      select extract(epoch from ${answer.body.previousExpiresAt}::timestamptz - clock_timestamp())::float as seconds`.execute(
      service.db,
    )
    expect(rows[0]?.seconds).toBeGreaterThan(604_700)
    expect(rows[0]?.seconds).toBeLessThanOrEqual(604_800)
    const [later, ofNext] = [await tokenOf(server), await tokenOf(next)]
    const refreshed = await service.refresh(before.refreshToken)
    expect(refreshed.status).toBe(200)
    for (const one of [refreshed.body.accessToken, later, ofNext]) expect(await statusOf(one)).toBe(200)
    expect(await passwordsOf(server)).toMatchObject([
      { hint: next.password.slice(-4), expiresAt: null },
      { hint: server.password.slice(-4), expiresAt: answer.body.previousExpiresAt },
    ])

    await letFormerExpire(server)
    for (const one of [refreshed.body.accessToken, later]) {
      const ended = await service.getSession({ token: one, at: 1 })
      expect([ended.status, ended.body.reason]).toEqual([401, 'password_reset'])
    }
    for (const answer of [
      await service.refresh(refreshed.body.refreshToken),
      await service.call('/auth/logout', { token: later }),
    ])
      expect([answer.status, answer.body.reason]).toEqual([401, 'password_reset'])
    expect(await canSignIn(server)).toBe(false)
    expect(await statusOf(ofNext)).toBe(200)
    expect(await passwordsOf(server)).toHaveLength(1)
    const { body } = await service.call('/auth/sessions', { method: 'GET', token: ofNext })
    expect(body.sessions).toHaveLength(1)
  })

  test('ends by the clock of the database, whatever that of an instance says', async () => {
    const server = await addServer()
    const next = await withNext(server, 60)
    service.clock.advance(120)
    expect(await canSignIn(server)).toBe(true)
    service.clock.advance(-120)
    const opened = await tokenOf(server)
    await withNext(next, 1)
    // `next` is now the one before, and `server` dead at once.
    expect(await statusOf(opened)).toBe(401)
    await expect.poll(() => canSignIn(next), { interval: 200 }).toBe(false)
  })

  test('is dead at once where a third takes its place, with its sessions', async () => {
    const first = await addServer()
    const opened = await tokenOf(first)
    const second = await withNext(first, 3600)
    const ofSecond = await tokenOf(second)
    const third = await withNext(second, 3600)
    expect(await Promise.all([first, second, third].map(canSignIn))).toEqual([false, true, true])
    expect([await statusOf(opened), await statusOf(ofSecond)]).toEqual([401, 200])
    expect(await passwordsOf(first)).toHaveLength(2)
    // One that is dead at once takes the other with it.
    const fourth = await withNext(third)
    expect(await Promise.all([second, third, fourth].map(canSignIn))).toEqual([false, false, true])
    expect(await statusOf(ofSecond)).toBe(401)
    expect(await passwordsOf(first)).toHaveLength(1)
  })

  test.for([-1, 604_801, 1.5, '60', null])('lives no other time: %o', async (previousValidSeconds) => {
    expectField(await replace(await addServer(), { previousValidSeconds }), '/previousValidSeconds')
  })

  test('is audited with the time of its end, and no secret', async () => {
    const server = await addServer()
    const { body } = await replace(server, { previousValidSeconds: 60 })
    await replace(server)
    const entries = await selectAudit(service.db)
      .select('details')
      .where('action', '=', 'service_password')
      .where('subject', '=', server.userId)
      .execute()
    expect(entries).toHaveLength(2)
    expect(entries).toContainEqual({ details: { previousExpiresAt: body.previousExpiresAt } })
    expect(entries).toContainEqual({ details: null })
    expect(service.logs.join('')).not.toContain(body.password)
  })
})

describe('at the same time', () => {
  test('of many replacements on two instances, two passwords are left', async () => {
    const server = await addServer()
    const answers = await Promise.all(times(8, (n) => replace(server, { previousValidSeconds: 3600 }, n % 2)))
    expect(answers.map(({ status }) => status)).toEqual(times(8, () => 200))
    const all = [server, ...answers.map(({ body }) => ({ ...server, password: body.password }))]
    const working = (await Promise.all(all.map(canSignIn))).filter((isWorking) => isWorking)
    expect(working).toHaveLength(2)
    expect(await passwordsOf(server)).toHaveLength(2)
  })

  test('a sign-in with the old password and a replacement leave no session of it (ASVS 15.4.2)', async () => {
    for (const _ of times(10, () => {})) {
      const server = await addServer()
      const [, ...signIns] = await Promise.all([
        replace(server, undefined, 1),
        ...times(6, (n) => service.login(server, { at: n % 2 })),
      ])
      for (const { status, body } of signIns) {
        if (status !== 200) expect(status).toBe(401)
        else expect(await statusOf(body.accessToken)).toBe(401)
      }
    }
  })

  test('a refresh and a third password leave no session of the first', async () => {
    for (const _ of times(10, () => {})) {
      const server = await addServer()
      const { refreshToken } = await service.loginAs(server)
      const next = await withNext(server, 3600)
      const [, refreshed] = await Promise.all([
        replace(next, { previousValidSeconds: 3600 }, 1),
        service.refresh(refreshToken),
      ])
      if (refreshed.status === 200) expect(await statusOf(refreshed.body.accessToken)).toBe(401)
      else expect([refreshed.status, refreshed.body.reason]).toEqual([401, 'password_reset'])
    }
  })
})

describe('a password from before service passwords had a form of their own', () => {
  test('goes on working until it is replaced, and is listed without a hint', async () => {
    const server = await makeOlder(await addServer())
    const opened = await tokenOf(server)
    expect(await passwordsOf(server)).toEqual([
      { hint: null, createdAt: null, lastUsedAt: expect.any(String), expiresAt: null },
    ])
    const next = await withNext(server)
    expect([await canSignIn(server), await canSignIn(next), await statusOf(opened)]).toEqual([
      false,
      true,
      401,
    ])
  })

  test('works beside its successor too, and is dead after that', async () => {
    const server = await makeOlder(await addServer())
    const opened = await tokenOf(server)
    const next = await withNext(server, 3600)
    expect([await canSignIn(server), await canSignIn(next)]).toEqual([true, true])
    expect(await statusOf(opened)).toBe(200)
    expect(await passwordsOf(server)).toMatchObject([
      { hint: next.password.slice(-4), expiresAt: null },
      { hint: null, lastUsedAt: expect.any(String), expiresAt: expect.any(String) },
    ])
    await letFormerExpire(server)
    expect([await canSignIn(server), await statusOf(opened)]).toEqual([false, 401])
    const third = await withNext(next, 3600)
    expect(await Promise.all([server, next, third].map(canSignIn))).toEqual([false, true, true])
  })
})

describe('holds from the next request on:', () => {
  test.each([
    ['disabled', { method: 'PATCH' as const, json: { status: 'disabled' } }],
    ['deleted', { method: 'DELETE' as const }],
  ])('a member that is %s signs in no more', async (_case, change) => {
    const server = await addServer()
    const opened = await tokenOf(server)
    const { status } = await service.call(`/auth/members/${server.userId}`, { token, ...change })
    expect(status).toBeLessThan(300)
    expect([await canSignIn(server), await statusOf(opened)]).toEqual([false, 401])
  })

  test('of a member that is deleted, nothing of its passwords is left', async () => {
    const server = await addServer()
    await service.call(`/auth/members/${server.userId}`, { method: 'DELETE', token })
    const rows = await service.db
      .selectFrom('service_passwords')
      .select('hint')
      .where('user_id', '=', server.userId)
      .execute()
    expect(rows).toEqual([])
  })

  test('in cookie mode the right password is refused, and opens nothing', async () => {
    const server = await addServer()
    const headers = { 'x-session-mode': 'cookie' }
    expectProblem(await service.login(server, { headers }), [403, 'permission_denied'])
    const wrong = { ...server, password: `gsp_${'A'.repeat(43)}` }
    expectProblem(await service.login(wrong, { headers }), [401, 'invalid_credentials'])
  })
})

test('whether an address is that of a person, of a server or of nobody does not show (ASVS 6.3.8)', async () => {
  const server = await addServer()
  const person = await service.addUser(admin)
  const nobody = { ...person, email: 'nobody@company.example' }
  const nowhere = { ...server, companyId: server.userId }
  const disabled = await addServer()
  await service.call(`/auth/members/${disabled.userId}`, {
    method: 'PATCH',
    token,
    json: { status: 'disabled' },
  })
  const form = `gsp_${'A'.repeat(43)}`
  const cases = [
    ...[server, person, nobody, nowhere].map((one) => ({ ...one, password: form })),
    disabled,
    // And those of a person of the same company, in the form of people.
    ...[server, nobody].map((one) => ({ ...one, password: PASSWORD })),
  ]
  const answers = await Promise.all(cases.map((one) => service.login(one)))
  const bytes = answers.map(({ status, body }) =>
    JSON.stringify([status, { ...body, requestId: '' }, Object.keys(body)]),
  )
  expect(new Set(bytes).size).toBe(1)
  expect(answers[0]?.status).toBe(401)
  const headersOf = ({ headers }: (typeof answers)[number]) =>
    Object.keys(headers)
      .filter((name) => name !== 'content-length')
      .sort()
  expect(new Set(answers.slice(0, 5).map((answer) => headersOf(answer).join())).size).toBe(1)
})
