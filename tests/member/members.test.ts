import { describe, expect, test } from 'vitest'
import { changeUserRole, changeUserStatus, deleteUser } from '../../src/operator/users.ts'
import { expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { releaseTogether } from '../support/races.ts'
import { openTestService, type Person, times } from '../support/test-service.ts'

/** What admins do to the members of their company, by a session of their own. */

const service = await openTestService({ instances: 2 })
const admin = await service.addCompany()
const stranger = await service.addCompany()
const token = (await service.loginAs(admin)).accessToken

type Options = Parameters<typeof service.call>[1]

const change = (id: string, json: object, options: Options = {}) =>
  service.call(`/auth/members/${id}`, { method: 'PATCH', token, json, ...options })
const list = (query = '', options: Options = {}) =>
  service.call(`/auth/members${query}`, { method: 'GET', token, ...options })
const show = (id: string, options: Options = {}) => list(`/${id}`, options)
const remove = (path: string, options: Options = {}) =>
  service.call(path, { method: 'DELETE', token, ...options })
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken
const isLive = async (credential: string, at = 0) =>
  (await service.getSession({ token: credential, at })).status === 200

const auditOf = async (subject: string) =>
  await selectAudit(service.db)
    .select(['action', 'actor', 'details', 'session_id'])
    .where('subject', '=', subject)
    .where('company_id', '=', admin.companyId)
    .where('actor', '!=', 'operator')
    .orderBy('occurred_at')
    .orderBy('audit_id')
    .execute()

describe('the list', () => {
  test('has every member with what an admin needs to know', async () => {
    const person = await service.addUser(admin, 'analyst')
    await service.loginAs(person)
    const { status, body } = await show(person.userId)
    const hour = new Date(service.clock.now())
    hour.setUTCMinutes(0, 0, 0)
    expect([status, body]).toEqual([
      200,
      {
        id: person.userId,
        kind: 'person',
        email: person.email,
        name: person.email,
        role: 'analyst',
        assignments: ['environment:production'],
        status: 'active',
        emailVerified: true,
        secondFactors: [],
        lastSignInAt: hour.toISOString(),
        createdAt: new Date(service.clock.now()).toISOString(),
      },
    ])
    expect((await list()).body.members).toContainEqual(body)
  })

  test('goes by name in pages, each member once, and finds a part of name or e-mail in any case', async () => {
    const other = await service.addCompany({ adminName: 'Zoe' })
    const credential = await tokenOf(other)
    for (const name of ['bea', 'Ada', 'Cem', 'ada']) {
      const json = { name, role: 'viewer' }
      expect((await service.call('/auth/members', { token: credential, json })).status).toBe(201)
    }
    const names: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query = `?limit=2${cursor && `&cursor=${cursor}`}`
      const { body } = await list(query, { token: credential })
      expect(body.members.length).toBeLessThanOrEqual(2)
      names.push(...body.members.map(({ name }: { name: string }) => name))
      cursor = body.nextCursor
    }
    expect(names.map((name) => name.toLowerCase())).toEqual(['ada', 'ada', 'bea', 'cem', 'zoe'])
    const found = async (search: string) =>
      (await list(`?search=${encodeURIComponent(search)}`, { token: credential })).body.members.length
    expect(await found('ADA')).toBe(2)
    expect(await found('@SERVICE')).toBe(4)
    // No wildcard is one.
    expect([await found('%'), await found('_')]).toEqual([0, 0])
  })

  test('is searched accents and case aside, narrowed by role and status, and says how many match', async () => {
    const other = await service.addCompany({ adminName: 'Żółć' })
    const credential = await tokenOf(other)
    for (const [name, role] of [
      ['José Núñez', 'viewer'],
      ['Jose Smith', 'analyst'],
      ['Σοφία', 'viewer'],
    ]) {
      const { status } = await service.call('/auth/members', { token: credential, json: { name, role } })
      expect(status).toBe(201)
    }
    const ask = async (query: Record<string, string>) => {
      const { body } = await list(`?${new URLSearchParams(query)}`, { token: credential })
      return [body.total, ...body.members.map(({ name }: { name: string }) => name)]
    }
    expect(await ask({ search: 'jose' })).toEqual([2, 'Jose Smith', 'José Núñez'])
    expect(await ask({ search: 'NUNEZ' })).toEqual([1, 'José Núñez'])
    expect(await ask({ search: 'nun\u0303ez' })).toEqual([1, 'José Núñez'])
    expect(await ask({ search: 'ΣΟΦΙΑ' })).toEqual([1, 'Σοφία'])
    expect(await ask({ search: 'zołc' })).toEqual([1, 'Żółć'])
    expect(await ask({ role: 'viewer', limit: '1' })).toEqual([2, 'José Núñez'])
    expect(await ask({ role: 'admin', status: 'active' })).toEqual([1, 'Żółć'])
    expect(await ask({ status: 'disabled' })).toEqual([0])
    // A name that an instance from before wrote is compared as it is.
    await service.db
      .updateTable('users')
      .set({ search_name: null })
      .where('company_id', '=', other.companyId)
      .execute()
    expect(await ask({ search: 'josé' })).toEqual([1, 'José Núñez'])
  })

  test.for([
    '?limit=0',
    '?limit=101',
    '?limit=1e1',
    '?cursor=x',
    '?cursor=WyJhIl0',
    `?cursor=${Buffer.from('["a","b"]').toString('base64url')}`,
    '?search=%00',
    '?search=',
    '?role=owner',
    '?status=deleted',
    '?page=2',
  ])('refuses %s, and says what it takes (ASVS 2.2.1)', async (query) => {
    const answer = await list(query)
    expectProblem(answer, [400, 'invalid_request'])
    expect(answer.body.errors[0].path).toMatch(/^\/querystring/)
  })
})

describe('a change by an admin (ASVS 8.3.2)', () => {
  test('of the role holds from the next request on, on every instance', async () => {
    const person = await service.addUser(admin, 'admin')
    const credential = await tokenOf(person)
    expect((await list('', { token: credential, at: 1 })).status).toBe(200)
    const { status, body } = await change(person.userId, { role: 'viewer' })
    expect([status, body.role]).toEqual([200, 'viewer'])
    expectProblem(await list('', { token: credential, at: 1 }), [403, 'permission_denied'])
    expect((await service.getSession({ token: credential, at: 1 })).body.permissions).toEqual([
      'risk:read',
      'analytics:read',
    ])
    expect(await auditOf(person.userId)).toEqual([
      {
        action: 'user_role',
        actor: admin.userId,
        details: { before: { role: 'admin' }, after: { role: 'viewer' } },
        session_id: expect.any(String),
      },
    ])
  })

  test('of the status ends every session of the member with it, and enabling revives none (ASVS 7.4.2)', async () => {
    const person = await service.addUser(admin)
    const credential = await tokenOf(person)
    const cookie = await service.cookieOf(person)
    expect((await change(person.userId, { status: 'disabled' })).body.status).toBe('disabled')
    for (const at of [0, 1]) {
      const { status, body } = await service.getSession({ token: credential, at })
      expect([status, body.reason]).toEqual([401, 'user_disabled'])
      expect((await service.getSession({ cookie, at })).status).toBe(401)
    }
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
    expect((await change(person.userId, { status: 'active' })).body.status).toBe('active')
    expect(await isLive(credential)).toBe(false)
    expect(await isLive(await tokenOf(person))).toBe(true)
  })

  test('of the assignments is in the next answer, and one that changes nothing leaves no entry', async () => {
    const person = await service.addUser(admin)
    const assignments = ['environment:test', 'region:eu-1']
    const { body } = await change(person.userId, { assignments, role: 'viewer', status: 'active' })
    expect(body.assignments).toEqual(assignments)
    expect((await service.loginAs(person)).accessContext.assignments).toEqual(assignments)
    await change(person.userId, { assignments })
    expect((await auditOf(person.userId)).map(({ action }) => action)).toEqual(['user_assignments'])
  })

  test.for<[string, object]>([
    ['nothing', {}],
    ['a role that there is not', { role: 'owner' }],
    ['a status that there is not', { status: 'deleted' }],
    ['an assignment twice', { assignments: ['a:b', 'a:b'] }],
    ['an assignment with spaces', { assignments: ['a b'] }],
    ['an unknown field', { email: 'x@y.example' }],
  ])('of %s is refused (ASVS 2.2.1)', async ([, json]) => {
    const person = await service.addUser(admin)
    expectProblem(await change(person.userId, json), [400, 'invalid_request'])
  })

  test('asks for a recent proof, and reading does not (ASVS 7.5.1)', async () => {
    const person = await service.addUser(admin)
    const { refreshToken } = await service.loginAs(admin)
    service.clock.advance(16 * 60)
    const { body } = await service.refresh(refreshToken)
    const stale = { token: body.accessToken }
    expect((await list('', stale)).status).toBe(200)
    expectProblem(await change(person.userId, { role: 'admin' }, stale), [403, 'reauthentication_required'])
    const proven = await service.call('/auth/reauthenticate', {
      ...stale,
      json: { password: admin.password },
    })
    const fresh = { token: proven.body.accessToken }
    expect((await change(person.userId, { role: 'analyst' }, fresh)).status).toBe(200)
    service.clock.advance(-16 * 60)
  })
})

describe('nobody', () => {
  const MEMBER_ROUTES = (id: string): [string, Options][] => [
    [`/auth/members/${id}`, { method: 'GET' }],
    [`/auth/members/${id}`, { method: 'PATCH', json: { role: 'viewer' } }],
    [`/auth/members/${id}`, { method: 'DELETE' }],
    [`/auth/members/${id}/sessions`, { method: 'DELETE' }],
    [`/auth/members/${id}/password`, { method: 'POST' }],
  ]

  test('reaches a member of another company: each route answers as for an id that does not exist (ASVS 8.2.2)', async () => {
    const none = '01890a5d-ac96-774b-bcce-b302099a8057'
    const routes = MEMBER_ROUTES(stranger.userId)
    for (const [n, [path, options]] of routes.entries()) {
      const answer = await service.call(path, { token, ...options })
      const [other = '', same] = MEMBER_ROUTES(none)[n] ?? []
      const absent = await service.call(other, { token, ...same })
      expectProblem(answer, [404, 'not_found'])
      expect({ ...answer.body, requestId: '' }).toEqual({ ...absent.body, requestId: '' })
    }
    expect(await isLive(await tokenOf(stranger))).toBe(true)
  })

  test('without the permission gets past the guard (ASVS 8.2.1)', async () => {
    const person = await service.addUser(admin, 'developer')
    const credential = { token: await tokenOf(person) }
    const routes: [string, Options][] = [
      ...MEMBER_ROUTES(admin.userId),
      ['/auth/members', { method: 'GET' }],
      ['/auth/members', { json: { name: 'x', role: 'viewer' } }],
      ['/auth/company/sessions', { method: 'DELETE' }],
      ['/auth/invitations', { method: 'GET' }],
      ['/auth/invitations', { json: { email: 'a@b.example', role: 'admin' } }],
    ]
    for (const [path, options] of routes)
      expectProblem(await service.call(path, { ...credential, ...options }), [403, 'permission_denied'])
  })

  test('changes, deletes or signs out themselves here', async () => {
    const own = [
      await change(admin.userId, { role: 'viewer' }),
      await remove(`/auth/members/${admin.userId}`),
      await remove(`/auth/members/${admin.userId}/sessions`),
    ]
    for (const answer of own) expectProblem(answer, [403, 'permission_denied'])
    expect((await show(admin.userId)).body.role).toBe('admin')
  })
})

describe('no company is left without an active admin', () => {
  const activeAdmins = async ({ companyId }: { companyId: string }) =>
    await service.db
      .selectFrom('users')
      .select('user_id')
      .where('company_id', '=', companyId)
      .where('role', '=', 'admin')
      .where('status', '=', 'active')
      .execute()

  const acts: [string, (id: string, options: Options) => ReturnType<typeof change>][] = [
    ['demote', (id, options) => change(id, { role: 'viewer' }, options)],
    ['disable', (id, options) => change(id, { status: 'disabled' }, options)],
    ['delete', (id, options) => remove(`/auth/members/${id}`, options)],
  ]

  test.for(acts)(
    'when fifty admins %s each other at once, on two instances (ASVS 2.3.4, 15.4.2)',
    async ([, act]) => {
      const first = await service.addCompany()
      const admins = [first, ...(await Promise.all(times(49, () => service.addUser(first, 'admin'))))]
      const tokens = await Promise.all(admins.map(tokenOf))
      const answers = await Promise.all(
        admins.map((_, n) => {
          const next = admins[(n + 1) % admins.length]
          return act(next?.userId ?? '', { token: tokens[n] ?? '', at: n % 2 })
        }),
      )
      const refused = answers.filter(({ status }) => status >= 300)
      for (const { status } of refused) expect([401, 403, 404]).toContain(status)
      const left = await activeAdmins(first)
      expect(left.length).toBeGreaterThanOrEqual(1)
      expect(left.length).toBe(admins.length - (answers.length - refused.length))
    },
  )

  test('when two admins demote each other: the later is refused', async () => {
    for (const _ of times(10, () => 0)) {
      const one = await service.addCompany()
      const other = await service.addUser(one, 'admin')
      const [oneToken, otherToken] = [await tokenOf(one), await tokenOf(other)]
      const answers = await Promise.all([
        change(other.userId, { role: 'viewer' }, { token: oneToken }),
        change(one.userId, { role: 'viewer' }, { token: otherToken, at: 1 }),
      ])
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 403])
      expect(await activeAdmins(one)).toHaveLength(1)
    }
  })

  test('when an operator demotes the one who demotes the other', async () => {
    const { context } = service
    for (const _ of times(10, () => 0)) {
      const one = await service.addCompany()
      const other = await service.addUser(one, 'admin')
      const credential = await tokenOf(one)
      await Promise.all([
        change(other.userId, { role: 'viewer' }, { token: credential }),
        changeUserRole(context, one.companyId, one, 'viewer', service.clock.now()).catch((error) => {
          expect(error.code).toBe('last_admin')
        }),
      ])
      expect(await activeAdmins(one)).toHaveLength(1)
    }
  })
})

describe('an operator and an admin who change the same member wait for each other in one order (ASVS 15.4.3)', () => {
  const { context, clock, db } = service
  const acts: [string, (person: Person) => Promise<unknown>][] = [
    ['disabling', (person) => changeUserStatus(context, person.companyId, person, 'disabled')],
    ['demoting', (person) => changeUserRole(context, person.companyId, person, 'viewer', clock.now())],
    ['deleting', (person) => deleteUser(context, person.companyId, person, clock.now())],
  ]

  test.for(acts)('%s', async ([, act]) => {
    const founder = await service.addCompany()
    const member = await service.addUser(founder)
    // The key of the admin comes after that of the member.
    clock.advance(1)
    const actor = await service.addUser(founder, 'admin')
    const credential = await tokenOf(actor)
    const byAdmin = async () =>
      (await change(member.userId, { assignments: ['region:eu-1'] }, { token: credential })).status
    const byOperator = async () => void (await act(member))
    const held = { table: 'users', ...member } as const
    expect(await releaseTogether(db, held, [byAdmin, byOperator])).toEqual([200, undefined])
  })
})

describe('deleting a member', () => {
  test('leaves the bare id, in the trail and as the maker of a secret (ASVS 14.2.7)', async () => {
    const person = await service.addUser(admin, 'admin')
    const credential = await tokenOf(person)
    await service.call('/auth/webhook-secret/regenerate', { token: credential })
    expect((await remove(`/auth/members/${person.userId}`)).status).toBe(204)
    const ended = await service.getSession({ token: credential, at: 1 })
    expect([ended.status, ended.body.reason]).toEqual([401, 'user_deleted'])
    expectProblem(await service.login(person), [401, 'invalid_credentials'])
    expectProblem(await show(person.userId), [404, 'not_found'])
    expectProblem(await remove(`/auth/members/${person.userId}`), [404, 'not_found'])
    const { body } = await service.call('/auth/webhook-secret/status', { token })
    expect(body.createdBy).toEqual({ id: person.userId, email: null })
    const row = await service.db
      .selectFrom('users')
      .selectAll()
      .where('user_id', '=', person.userId)
      .executeTakeFirstOrThrow()
    expect(row).toMatchObject({
      email: null,
      name: '',
      password_hash: '',
      status: 'deleted',
      assignments: [],
    })
    expect((await auditOf(person.userId)).map(({ action }) => action)).toEqual(['user_delete'])
    // The e-mail is free again.
    expect((await service.addUser(admin, 'viewer', { email: person.email })).userId).not.toBe(person.userId)
  })
})

describe('sessions end by an admin (ASVS 7.4.5)', () => {
  test('of one member, all of them and no others', async () => {
    const [person, other] = [await service.addUser(admin), await service.addUser(admin)]
    const [mine, theirs] = [await tokenOf(person), await tokenOf(other)]
    const cookie = await service.cookieOf(person)
    expect((await remove(`/auth/members/${person.userId}/sessions`)).status).toBe(204)
    const ended = await service.getSession({ token: mine, at: 1 })
    expect([ended.status, ended.body.reason]).toEqual([401, 'ended_by_admin'])
    expect((await service.getSession({ cookie, at: 1 })).status).toBe(401)
    expect(await isLive(theirs)).toBe(true)
    expect(await isLive(await tokenOf(person))).toBe(true)
  })

  test('of the company, all but that which asks, also while others sign in', async () => {
    const company = await service.addCompany()
    const members = await Promise.all(times(6, () => service.addUser(company)))
    const [mine, elsewhere] = [await tokenOf(company), await tokenOf(company)]
    const before = await Promise.all(members.map(tokenOf))
    const [ending] = await Promise.all([
      remove('/auth/company/sessions', { token: mine }),
      ...members.map((member) => service.login(member, { at: 1 })),
    ])
    expect(ending?.status).toBe(204)
    for (const at of [0, 1]) {
      expect(await isLive(mine, at)).toBe(true)
      expect(await isLive(elsewhere, at)).toBe(false)
      for (const one of before) expect(await isLive(one, at)).toBe(false)
    }
    const { body } = await service.getSession({ token: elsewhere })
    expect(body.reason).toBe('ended_by_admin')
    expect(await isLive(token)).toBe(true)
  })
})

describe('a server of a company', () => {
  const add = (json: object = {}, options: Options = {}) =>
    service.call('/auth/members', {
      token,
      json: { name: 'Billing Worker', role: 'developer', ...json },
      ...options,
    })

  test('signs in as a service member with a password that is shown once (ASVS 6.4.1)', async () => {
    const { status, body } = await add()
    expect(status).toBe(201)
    expect(body).toEqual({
      id: expect.any(String),
      email: expect.stringMatching(/^billing-worker-\d{4}@service\.invalid$/),
      password: expect.stringMatching(/^gsp_[A-Za-z0-9_-]{43}$/),
    })
    const { companyId } = admin
    const signedIn = await service.loginAs({ companyId, email: body.email, password: body.password })
    expect(signedIn.user).toMatchObject({ id: body.id, name: 'Billing Worker', role: 'developer' })
    expect((await show(body.id)).body).toMatchObject({ kind: 'service', emailVerified: true })
    expect(JSON.stringify(await show(body.id))).not.toContain(body.password)
    expect(service.logs.join('')).not.toContain(body.password)
  })

  test.for([
    ['Großer Dienst 1', /^gro-er-dienst-1-\d{4}@/],
    ['東京', /^service-\d{4}@/],
    ['x'.repeat(100), /^x{40}-\d{4}@/],
  ] as const)('named %s gets an e-mail that is one', async ([name, email]) => {
    const { body } = await add({ name })
    expect(body.email).toMatch(email)
  })

  test('gets no cookie, no other e-mail and no other password of its own, and is never an admin', async () => {
    const { body } = await add()
    const server: Person = { ...admin, userId: body.id, email: body.email, password: body.password }
    expectProblem(await service.login(server, { headers: { 'x-session-mode': 'cookie' } }), [
      403,
      'permission_denied',
    ])
    const credential = { token: await tokenOf(server) }
    const email = { json: { newEmail: 'else@where.example' } }
    expectProblem(await service.call('/auth/email/change', { ...credential, ...email }), [
      403,
      'permission_denied',
    ])
    const passwords = { json: { currentPassword: body.password, newPassword: 'another good password' } }
    expectProblem(await service.call('/auth/password/change', { ...credential, ...passwords }), [
      403,
      'permission_denied',
    ])
    expectProblem(await add({ role: 'admin' }), [400, 'invalid_request'])
    const promoted = await change(body.id, { role: 'admin' })
    expectProblem(promoted, [400, 'invalid_request'])
    expect(promoted.body.errors[0].path).toBe('/role')
  })

  test('is asked for no recent proof', async () => {
    const { body } = await add()
    const server = { ...admin, email: body.email, password: body.password }
    const { refreshToken } = await service.loginAs(server)
    const other = await service.loginAs(server)
    service.clock.advance(3600)
    const { body: refreshed } = await service.refresh(refreshToken)
    const { status } = await remove(`/auth/sessions/${other.session.id}`, { token: refreshed.accessToken })
    expect(status).toBe(204)
    service.clock.advance(-3600)
  })

  test('gets another password; the old one and what it opened are dead at once', async () => {
    const { body } = await add()
    const server = { ...admin, email: body.email, password: body.password }
    const before = await tokenOf(server)
    const replaced = await service.call(`/auth/members/${body.id}/password`, { token })
    expect(replaced.status).toBe(200)
    const ended = await service.getSession({ token: before, at: 1 })
    expect([ended.status, ended.body.reason]).toEqual([401, 'password_reset'])
    expectProblem(await service.login(server), [401, 'invalid_credentials'])
    expect(await isLive(await tokenOf({ ...server, password: replaced.body.password }))).toBe(true)
    // A person chooses a password alone.
    const person = await service.addUser(admin)
    expectProblem(await service.call(`/auth/members/${person.userId}/password`, { token }), [
      404,
      'not_found',
    ])
  })

  test('comes within the limits of its company, also at once (ASVS 2.4.1)', async () => {
    const small = await openTestService({
      instances: 2,
      env: { MAX_MEMBERS_IN_TRIAL: '4', LIMIT_SERVICE_PASSWORDS: '7/3600', RATE_LIMIT_SCALE: '1' },
    })
    const company = await small.addCompany()
    const { accessToken } = await small.loginAs(company)
    const json = { name: 'Worker', role: 'viewer' }
    const make = (at: number) => small.call('/auth/members', { token: accessToken, json, at })
    const answers = await Promise.all(times(6, (n) => make(n % 2)))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 409, 409, 409])
    for (const answer of answers.filter(({ status }) => status === 409))
      expectProblem(answer, [409, 'quota_reached'])
    expectProblem(await make(0), [409, 'quota_reached'])
    expectProblem(await make(1), [429, 'rate_limited'])
  })
})
