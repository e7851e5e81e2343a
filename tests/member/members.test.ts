import { beforeEach, expect, test } from 'vitest'
import { selectAudit } from '../support/audit.ts'
import { expectProblem } from '../support/problem.ts'
import { useFactorService } from '../support/second-factors.ts'
import { type Person, times } from '../support/test-service.ts'

/** What admins do to the members of their company. */

const service = await useFactorService()
const admin = await service.addCompany()
const stranger = await service.addCompany()
let token = ''

// A test can let more time pass than a recent authentication lasts.
beforeEach(async () => {
  token = await tokenOf(admin)
})

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
const expectEnded = (credential: string, reason: string) => service.expectEnded({ token: credential }, reason)

async function auditOf(subject: string) {
  const entries = selectAudit(service.db).select(['action', 'actor', 'details', 'session_id'])
  return await entries.where('subject', '=', subject).where('actor', '!=', 'operator').execute()
}

test('the list shows every member with their role, status, and sign-in', async () => {
  const person = await service.signedIn(admin, 'analyst')
  const { body } = await show(person.userId)
  const now = new Date(service.clock.now()).toISOString()
  expect(body).toEqual({
    id: person.userId,
    kind: 'person',
    email: person.email,
    name: person.email,
    role: 'analyst',
    assignments: ['environment:production'],
    status: 'active',
    emailVerified: true,
    secondFactors: [],
    lastSignInAt: `${now.slice(0, 13)}:00:00.000Z`,
    createdAt: now,
  })
  expect((await list()).body.members).toContainEqual(body)
})

test('the list is ordered by name, searched without accents, filtered, and counted', async () => {
  const other = await service.addCompany({ adminName: 'Żółć' })
  const credential = { token: await tokenOf(other) }
  const add = async (name: string, role: string) =>
    expect((await service.call('/auth/members', { ...credential, json: { name, role } })).status).toBe(201)
  for (const name of ['bea', 'José Núñez', 'Σοφία', 'Bea']) await add(name, 'viewer')
  await add('Jose Smith', 'analyst')
  const read = async (query: Record<string, string>) =>
    (await list(`?${new URLSearchParams(query)}`, credential)).body
  const namesIn = ({ members }: { members: { name: string }[] }) => members.map(({ name }) => name)

  const names: string[] = []
  let page = await read({ limit: '2' })
  for (; page.nextCursor !== null; page = await read({ limit: '2', cursor: page.nextCursor })) {
    expect(page.members).toHaveLength(2)
    names.push(...namesIn(page))
  }
  const all = [...names, ...namesIn(page)].map((name) => name.toLowerCase())
  expect(all).toEqual(['bea', 'bea', 'jose smith', 'josé núñez', 'żółć', 'σοφία'])

  const find = async (query: Record<string, string>) => {
    const found = await read(query)
    return [found.total, ...namesIn(found)]
  }
  expect(await find({ search: 'jose' })).toEqual([2, 'Jose Smith', 'José Núñez'])
  expect(await find({ search: 'NUNEZ' })).toEqual([1, 'José Núñez'])
  expect(await find({ search: 'nun\u0303ez' })).toEqual([1, 'José Núñez'])
  expect(await find({ search: 'ΣΟΦΙΑ' })).toEqual([1, 'Σοφία'])
  expect(await find({ search: 'zołc' })).toEqual([1, 'Żółć'])
  expect((await find({ search: '@SERVICE' }))[0]).toBe(5)
  // Wildcards match only themselves.
  for (const search of ['%', '_']) expect(await find({ search })).toEqual([0])
  expect(await find({ role: 'analyst' })).toEqual([1, 'Jose Smith'])
  expect((await find({ role: 'viewer', limit: '1' }))[0]).toBe(4)
  expect(await find({ role: 'admin', status: 'active' })).toEqual([1, 'Żółć'])
  expect(await find({ status: 'disabled' })).toEqual([0])
  // A name that an earlier release wrote is compared as it is.
  const users = service.db.updateTable('users').where('company_id', '=', other.companyId)
  await users.set({ search_name: null }).execute()
  expect(await find({ search: 'josé' })).toEqual([1, 'José Núñez'])
})

test('the list refuses queries outside its schema (ASVS 2.2.1)', async () => {
  const cursor = Buffer.from('["a","b"]').toString('base64url')
  const queries = `limit=0 limit=101 limit=1e1 cursor=x cursor=${cursor} search=%00 search= role=owner status=deleted`
  for (const query of queries.split(' ')) {
    const { status, body } = await list(`?${query}`)
    expect([status, body.errors[0].path], query).toEqual([400, expect.stringMatching(/^\/querystring/)])
  }
})

test('a new role takes effect on the next request, on every instance (ASVS 8.3.2)', async () => {
  const { token: credential, ...person } = await service.signedIn(admin, 'admin')
  expect((await list('', { token: credential, at: 1 })).status).toBe(200)
  const { status, body } = await change(person.userId, { role: 'viewer' })
  expect([status, body.role]).toEqual([200, 'viewer'])
  expectProblem(await list('', { token: credential, at: 1 }), [403, 'permission_denied'])
  const details = { before: { role: 'admin' }, after: { role: 'viewer' } }
  const entry = { action: 'user_role', actor: admin.userId, details, session_id: expect.any(String) }
  expect(await auditOf(person.userId)).toEqual([entry])
})

test('disabling a member ends all their sessions for good (ASVS 7.4.2)', async () => {
  const { token: credential, ...person } = await service.signedIn(admin)
  expect((await change(person.userId, { status: 'disabled' })).body.status).toBe('disabled')
  await expectEnded(credential, 'user_disabled')
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expect((await change(person.userId, { status: 'active' })).body.status).toBe('active')
  expect(await isLive(credential)).toBe(false)
  expect(await isLive(await tokenOf(person))).toBe(true)
})

test('new assignments are in the next response, and audited once', async () => {
  const person = await service.addUser(admin)
  const assignments = ['environment:test', 'region:eu-1']
  const { body } = await change(person.userId, { assignments, role: 'viewer', status: 'active' })
  expect(body.assignments).toEqual(assignments)
  expect((await service.loginAs(person)).accessContext.assignments).toEqual(assignments)
  await change(person.userId, { assignments })
  expect((await auditOf(person.userId)).map(({ action }) => action)).toEqual(['user_assignments'])
})

test('a change outside its schema is refused (ASVS 2.2.1)', async () => {
  const { userId } = await service.addUser(admin)
  const assignments = [['a:b', 'a:b'], ['a b']].map((assignments) => ({ assignments }))
  for (const json of [{}, { role: 'owner' }, { status: 'deleted' }, ...assignments, { email: 'x@y.example' }])
    expectProblem(await change(userId, json), [400, 'invalid_request'])
})

test('changing a member requires recent authentication, and reading does not (ASVS 7.5.1)', async () => {
  const person = await service.addUser(admin)
  const { refreshToken } = await service.loginAs(admin)
  service.clock.advance(16 * 60)
  const { body } = await service.refresh(refreshToken)
  const stale = { token: body.accessToken }
  expect((await list('', stale)).status).toBe(200)
  expectProblem(await change(person.userId, { role: 'admin' }, stale), [403, 'reauthentication_required'])
})

const memberRoutes = (id: string): [string, Options][] => [
  [`/auth/members/${id}`, { method: 'GET' }],
  [`/auth/members/${id}`, { method: 'PATCH', json: { role: 'viewer' } }],
  [`/auth/members/${id}`, { method: 'DELETE' }],
  [`/auth/members/${id}/sessions`, { method: 'DELETE' }],
  [`/auth/members/${id}/password`, { method: 'POST' }],
]

test('a member without the permission cannot manage members (ASVS 8.2.1)', async () => {
  const credential = { token: (await service.signedIn(admin, 'developer')).token }
  const routes: [string, Options][] = [
    ...memberRoutes(admin.userId),
    ['/auth/members', { method: 'GET' }],
    ['/auth/members', { json: { name: 'x', role: 'viewer' } }],
    ['/auth/company/sessions', { method: 'DELETE' }],
    ['/auth/invitations', { method: 'GET' }],
    ['/auth/invitations', { json: { email: 'a@b.example', role: 'admin' } }],
  ]
  for (const [path, options] of routes)
    expectProblem(await service.call(path, { ...credential, ...options }), [403, 'permission_denied'])
})

test('a member of another company is like an unknown id (ASVS 8.2.2)', async () => {
  const none = '01890a5d-ac96-774b-bcce-b302099a8057'
  for (const [path, options] of memberRoutes(stranger.userId)) {
    const answer = await service.call(path, { token, ...options })
    const absent = await service.call(path.replace(stranger.userId, none), { token, ...options })
    expectProblem(answer, [404, 'not_found'])
    expect({ ...answer.body, requestId: '' }).toEqual({ ...absent.body, requestId: '' })
  }
  expect(await isLive(await tokenOf(stranger))).toBe(true)
})

test('admins cannot change, delete, or sign out themselves here', async () => {
  const own = [
    await change(admin.userId, { role: 'viewer' }),
    await remove(`/auth/members/${admin.userId}`),
    await remove(`/auth/members/${admin.userId}/sessions`),
  ]
  for (const answer of own) expectProblem(answer, [403, 'permission_denied'])
  expect((await show(admin.userId)).body.role).toBe('admin')
})

test('deleting a member leaves only their id (ASVS 14.2.7)', async () => {
  const { token: credential, ...person } = await service.signedIn(admin, 'admin')
  await service.call('/auth/webhook-secret/regenerate', { token: credential })
  expect((await remove(`/auth/members/${person.userId}`)).status).toBe(204)
  await expectEnded(credential, 'user_deleted')
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expectProblem(await show(person.userId), [404, 'not_found'])
  expectProblem(await remove(`/auth/members/${person.userId}`), [404, 'not_found'])
  const { body } = await service.call('/auth/webhook-secret/status', { token })
  expect(body.createdBy).toEqual({ id: person.userId, email: null })
  const user = service.db.selectFrom('users').selectAll().where('user_id', '=', person.userId)
  const left = { email: null, name: '', password_hash: '', status: 'deleted', assignments: [] }
  expect(await user.executeTakeFirst()).toMatchObject(left)
  expect((await auditOf(person.userId)).map(({ action }) => action)).toEqual(['user_delete'])
  // The email is free again.
  expect((await service.addUser(admin, 'viewer', { email: person.email })).userId).not.toBe(person.userId)
})

test('an admin ends the sessions of one member, and no others (ASVS 7.4.5)', async () => {
  const { token: mine, ...person } = await service.signedIn(admin)
  const { token: theirs } = await service.signedIn(admin)
  expect((await remove(`/auth/members/${person.userId}/sessions`)).status).toBe(204)
  await expectEnded(mine, 'ended_by_admin')
  expect(await isLive(theirs)).toBe(true)
  expect(await isLive(await tokenOf(person))).toBe(true)
})

test('an admin ends all other sessions of the company during sign-ins', async () => {
  const company = await service.addCompany()
  const members = await Promise.all(times(4, () => service.addUser(company)))
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
  await expectEnded(elsewhere, 'ended_by_admin')
  expect(await isLive(token)).toBe(true)
})
