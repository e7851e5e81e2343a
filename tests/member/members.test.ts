import { beforeEach, expect, test } from 'vitest'
import { selectAudit } from '../support/audit.ts'
import { expectProblem } from '../support/problem.ts'
import { must, useFactorService } from '../support/second-factors.ts'
import { type Person, times } from '../support/test-service.ts'

const service = await useFactorService()
const admin = await service.addCompany()
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

test('the member list shows every member with role, status, and sign-in', async () => {
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

test('the member list is sorted, searched without accents, filtered, and counted (ASVS 1.2.9)', async () => {
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
  for (const cursor of ['x', Buffer.from('["a","b"]').toString('base64url')])
    expectProblem(await list(`?cursor=${cursor}`), [400, 'invalid_request'])
  // Names that an earlier release wrote are compared as they are.
  const users = service.db.updateTable('users').where('company_id', '=', other.companyId)
  await users.set({ search_name: null }).execute()
  expect(await find({ search: 'josé' })).toEqual([1, 'José Núñez'])
})

test('the member list can be filtered by kind and second factor', async () => {
  const other = await service.addCompany()
  const credential = { token: await tokenOf(other) }
  const [withApp, withPasskey, without] = [
    await service.personWithTotp(other),
    await service.personWithPasskey(other),
    await service.addUser(other),
  ]
  const { id: server } = await service.addServiceAccount(other, credential.token)
  const find = async (filter: string) => {
    const ids: string[] = []
    let [cursor, total] = ['', 0]
    while (cursor !== null) {
      const { body } = await list(`?limit=1&${filter}${cursor}`, credential)
      ids.push(...body.members.map(({ id }: { id: string }) => id))
      total = body.total
      cursor = body.nextCursor && `&cursor=${body.nextCursor}`
    }
    expect(total).toBe(ids.length)
    return ids.sort()
  }
  const idsOf = (...people: Person[]) => people.map(({ userId }) => userId).sort()
  expect(await find('secondFactor=yes')).toEqual(idsOf(withApp, withPasskey))
  // A service account neither has nor lacks a second factor.
  expect(await find('secondFactor=no')).toEqual(idsOf(other, without))
  expect(await find('kind=service')).toEqual([server])
  expect(await find('kind=person')).toEqual(idsOf(other, withApp, withPasskey, without))
  expect(await find('kind=service&secondFactor=no')).toEqual([])
  expect(await find('kind=person&secondFactor=no&role=admin')).toEqual(idsOf(other))
})

test('changes of a member take effect on the next request (ASVS 7.4.2, 8.3.2)', async () => {
  const { token: credential, ...person } = await service.signedIn(admin, 'admin')
  expect((await list('', { token: credential, at: 1 })).status).toBe(200)
  const assignments = ['environment:test', 'region:eu-1']
  const json = { role: 'viewer', assignments, status: 'active' }
  expect((await change(person.userId, json)).body).toMatchObject(json)
  expectProblem(await list('', { token: credential, at: 1 }), [403, 'permission_denied'])
  expect((await service.loginAs(person)).accessContext.assignments).toEqual(assignments)
  // The same values change nothing.
  await change(person.userId, json)

  expect((await change(person.userId, { status: 'disabled' })).body.status).toBe('disabled')
  await expectEnded(credential, 'user_disabled')
  expectProblem(await service.login(person), [401, 'invalid_credentials'])
  expect((await change(person.userId, { status: 'active' })).body.status).toBe('active')
  expect(await isLive(credential)).toBe(false)
  expect(await isLive(await tokenOf(person))).toBe(true)
  const details = { before: { role: 'admin' }, after: { role: 'viewer' } }
  const entries = await auditOf(person.userId)
  const entry = { action: 'user_role', actor: admin.userId, details, session_id: expect.any(String) }
  expect(entries[0]).toEqual(entry)
  const actions = ['user_role', 'user_assignments', 'user_disable', 'user_enable']
  expect(entries.map(({ action }) => action)).toEqual(actions)
})

/** Requests that require permission to manage members. */
const managing = (id: string): [path: string, options: Options][] => [
  ['/auth/members', { json: { name: 'x', role: 'viewer' } }],
  [`/auth/members/${id}`, { method: 'PATCH', json: { role: 'viewer' } }],
  [`/auth/members/${id}`, { method: 'DELETE' }],
  [`/auth/members/${id}/sessions`, { method: 'DELETE' }],
  [`/auth/members/${id}/second-factors`, { method: 'DELETE' }],
  [`/auth/members/${id}/password`, {}],
  ['/auth/company', { method: 'PATCH', json: { name: 'Mine' } }],
  ['/auth/company/sessions', { method: 'DELETE' }],
  ['/auth/company/security', { method: 'PATCH', json: { secondFactor: 'everyone' } }],
  ['/auth/invitations', { json: { email: 'a@b.example', role: 'admin' } }],
]

test('a member without the permission cannot manage members (ASVS 8.2.1)', async () => {
  const credential = { token: (await service.signedIn(admin, 'developer')).token }
  const reading = [
    `/auth/members/${admin.userId}`,
    '/auth/members',
    '/auth/invitations',
    '/auth/company/security',
  ]
  const reads = reading.map((path): [string, Options] => [path, { method: 'GET' }])
  for (const [path, options] of [...managing(admin.userId), ...reads])
    expectProblem(await service.call(path, { ...options, ...credential }), [403, 'permission_denied'])
})

test('changes require recent authentication, but reading does not (ASVS 7.5.1)', async () => {
  const person = await service.personWithTotp(admin, 'admin')
  const { refreshToken } = await must(service.signInByTotp(person))
  service.clock.advance(16 * 60)
  const stale = { token: (await must(service.refresh(refreshToken))).accessToken }
  for (const path of ['/auth/members', '/auth/second-factors'])
    expect((await service.call(path, { method: 'GET', ...stale })).status).toBe(200)
  const own: [string, Options][] = [
    ['/auth/email/change', { json: { newEmail: 'a@b.example' } }],
    ['/auth/second-factors/totp', {}],
    [`/auth/second-factors/${person.id}`, { method: 'DELETE' }],
  ]
  for (const [path, options] of [...managing(admin.userId), ...own])
    expectProblem(await service.call(path, { ...options, ...stale }), [403, 'reauthentication_required'])
})

test('admins cannot change, delete, or sign out themselves as members', async () => {
  const own = [
    await change(admin.userId, { role: 'viewer' }),
    await remove(`/auth/members/${admin.userId}`),
    await remove(`/auth/members/${admin.userId}/sessions`),
  ]
  for (const answer of own) expectProblem(answer, [403, 'permission_denied'])
  expect((await show(admin.userId)).body.role).toBe('admin')
})

test('an admin ends the sessions of one member only (ASVS 7.4.5)', async () => {
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
