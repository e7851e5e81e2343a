import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { preferredType } from '../../src/http/headers.ts'
import { changeUserRole, invite } from '../../src/operator/users.ts'
import { expectProblem } from '../support/problem.ts'
import { type Person, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const ID = '01890a5d-ac96-774b-bcce-b302099a8057'

type Options = Parameters<typeof service.call>[1]
const read = (token: string, query = '', options: Options = {}) =>
  service.call(`/auth/audit${query}`, { method: 'GET', token, ...options })
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken

/** A company with entries in its audit trail, and its admin's token. */
async function livelyCompany() {
  const { clock, context } = service
  const admin = await service.addCompany()
  const { companyId } = admin
  clock.advance(1)
  const token = await tokenOf(admin)
  clock.advance(1)
  const member = await service.addUser(admin, 'viewer')
  clock.advance(1)
  const change = { method: 'PATCH', token, json: { role: 'analyst' } }
  await service.call(`/auth/members/${member.userId}`, change)
  clock.advance(1)
  await changeUserRole(context, companyId, member, 'viewer')
  clock.advance(1)
  await invite(context, companyId, { email: 'bob@else.example', role: 'viewer' })
  clock.advance(1)
  return { admin, token, member, at: clock.now() }
}

/** Shared by the tests that only read. */
const lively = await livelyCompany()

test('the audit trail shows who did what, when, and from where (ASVS 16.2.1)', async () => {
  const { admin, token, member, at } = lively
  const { entries, ...page } = (await read(token)).body
  const names = { [admin.userId]: admin.email, [member.userId]: member.email }
  expect(page).toEqual({ nextCursor: null, names })
  const actions = entries.map(({ action }: { action: string }) => action)
  expect(actions.join(' ')).toBe('invite user_role user_role user_create sign_in company_create')
  const [invited, byOperator, byAdmin] = entries
  expect(invited).toMatchObject({ actor: 'operator', subject: 'bob@else.example', ipAddress: null })
  expect(byOperator.details).toEqual({ before: { role: 'analyst' }, after: { role: 'viewer' } })
  const { session } = (await service.getSession({ token })).body
  const made = { id: expect.any(String), occurredAt: new Date(at - 3_000).toISOString() }
  const act = { action: 'user_role', outcome: 'done', actor: admin.userId, subject: member.userId }
  const details = { before: { role: 'viewer' }, after: { role: 'analyst' } }
  const from = { sessionId: session.id, ipAddress: '127.0.0.1' }
  expect(byAdmin).toEqual({ ...made, ...act, details, ...from })
})

test('a CSV export of the audit trail has no formulas (RFC 4180; ASVS 1.1.2, 1.2.10, 5.4.1, 5.4.2)', async () => {
  const { admin, token, member } = await livelyCompany()
  const json = { name: '=1+1, "quoted";-2;"@3"' }
  await service.call('/auth/account', { method: 'PATCH', token, json })
  const csv = { headers: { accept: 'text/csv' } }
  const { headers, body } = await read(token, '?action=user_role', csv)
  expect(headers['content-type']).toBe('text/csv; charset=utf-8')
  expect(headers['content-disposition']).toBe('attachment; filename="audit.csv"')
  const [header, byOperator, byAdmin, ...rest] = String(body).split('\r\n')
  expect(header).toBe(
    'id,occurredAt,action,outcome,actor,actorName,subject,subjectName,reason,count,details,sessionId,ipAddress',
  )
  const details = (before: string, after: string) =>
    `"{""before"":{""role"":""${before}""},""after"":{""role"":""${after}""}}"`
  expect(byOperator).toMatch(/^[0-9a-f-]{36},\d{4}-.*Z,user_role,done,operator,,/)
  expect(byOperator).toContain(`${member.userId},${member.email},,,${details('analyst', 'viewer')},,`)
  expect(byAdmin).toContain(`,done,${admin.userId},"'=1+1, ""quoted"";'-2;'""@3""",${member.userId},`)
  expect(byAdmin).toMatch(/,127\.0\.0\.1$/)
  expect(rest).toEqual([''])
})

test.for([
  ['text/csv, application/x-ndjson, application/json', 'application/json'],
  ['application/json, text/csv;q=0.8', 'application/json'],
  ['text/csv;Q=0.000', 'application/json'],
  ['TEXT/*', 'text/csv'],
  ['application/json;q=0.5,text/csv;q=0.6', 'text/csv'],
  ['application/json; q=0, */*', 'application/x-ndjson'],
] as const)('"Accept: %s" returns the audit trail as %s (RFC 9110, 12.5.1)', ([accept, type]) => {
  expect(preferredType(accept, ['application/json', 'application/x-ndjson', 'text/csv'])).toBe(type)
})

test('the audit trail can be filtered by action, actor, and time', async () => {
  const { admin, token, at } = lively
  const count = async (query: string) => (await read(token, query)).body.entries.length
  expect(await count('?action=user_role')).toBe(2)
  expect(await count(`?actor=${admin.userId.toUpperCase()}`)).toBe(2)
  expect(await count('?actor=operator&action=user_role')).toBe(1)
  const time = encodeURIComponent(new Date(at - 2_000).toISOString())
  expect([await count(`?from=${time}`), await count(`?to=${time}`)]).toEqual([2, 4])
  expect((await read(token, '?action=invite')).body).toMatchObject({ entries: [{}], names: {} })
})

test('the audit trail can be filtered by outcome and subject, in exports too', async () => {
  const { admin, token, member } = await livelyCompany()
  const { id: server, ...account } = (
    await service.call('/auth/members', { token, json: { name: 'Billing', role: 'viewer' } })
  ).body
  await service.login({ ...admin, ...account })
  await service.login({ ...admin, password: 'wrong' })
  await service.call('/auth/reauthenticate', { token, json: { password: 'wrong' } })
  const find = async (query: string) => {
    const ndjson = { headers: { accept: 'application/x-ndjson' } }
    const lines = String((await read(token, `?${query}`, ndjson)).body).split('\n')
    const exported = lines.filter((line) => line !== '').map((line) => JSON.parse(line).action)
    const actions: string[] = []
    let cursor = ''
    while (cursor !== null) {
      const { body } = await read(token, `?limit=1&${query}${cursor}`)
      actions.push(...body.entries.map(({ action }: { action: string }) => action))
      cursor = body.nextCursor && `&cursor=${body.nextCursor}`
    }
    expect(exported).toEqual(actions)
    return actions.join(' ')
  }
  const refused = 'outcome=refused'
  expect(await find(refused)).toBe('reauthenticate sign_in')
  expect(await find(`${refused}&action=sign_in`)).toBe('sign_in')
  expect(await find(`${refused}&actor=${admin.userId}`)).toBe('reauthenticate')
  expect(await find(`${refused}&subject=${admin.userId.toUpperCase()}`)).toBe('sign_in')
  expect(await find('outcome=done&action=sign_in')).toBe('sign_in sign_in')
  expect(await find(`outcome=done&actor=${server}`)).toBe('sign_in')
  expect(await find('outcome=unknown')).toBe('')
  const about = `subject=${member.userId}`
  expect(await find(about)).toBe('user_role user_role user_create')
  expect(await find(`${about}&outcome=done&action=user_role`)).toBe('user_role user_role')
  expect(await find(`${about}&actor=operator`)).toBe('user_role user_create')
  expect(await find(`${about}&${refused}`)).toBe('')
  expect(await find('subject=Bob@ELSE.example')).toBe('invite')
  expect(await find('subject=bob@else.example&outcome=done&actor=operator&action=invite')).toBe('invite')
  expect(await find(`subject=bob@else.example&${refused}`)).toBe('')
})

test('the audit trail can be exported whole, one export at a time', async () => {
  const { admin, token } = await livelyCompany()
  await sql`insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor)
    select ${admin.companyId}::uuid, gen_random_uuid(), ${new Date(service.clock.now())}, 'invite', 'done', 'operator'
    from generate_series(1, 600)`.execute(service.db)
  const ndjson = { headers: { accept: 'application/x-ndjson' } }
  const { headers, body } = await read(token, '?action=invite', ndjson)
  expect(headers['content-type']).toBe('application/x-ndjson')
  expect(headers['content-disposition']).toBe('attachment; filename="audit.ndjson"')
  const lines = String(body).trim().split('\n')
  expect(lines).toHaveLength(601)
  const oldest = { action: 'invite', subject: 'bob@else.example', actorName: null }
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject(oldest)
  // The first export stays open until the second one is refused.
  const exports: ReturnType<typeof read>[] = []
  const refused = await service.db.transaction().execute(async (tx) => {
    await sql`lock table audit_events in access exclusive mode`.execute(tx)
    exports.push(...times(2, () => read(token, '', ndjson)))
    return await Promise.race(exports)
  })
  expectProblem(refused, [429, 'rate_limited'])
  const both = await Promise.all(exports)
  expect(both.map((answer) => answer.status).sort()).toEqual([200, 429])
  expect((await read(token, '', ndjson)).status).toBe(200)
})

test("the audit trail requires permission, and shows only the caller's company (ASVS 8.2.1, 8.2.2)", async () => {
  const other = await service.addCompany()
  service.clock.advance(1)
  const { entries } = (await read(await tokenOf(other))).body
  expect(entries.map(({ action }: { action: string }) => action)).toEqual(['sign_in', 'company_create'])
  const token = await tokenOf(await service.addUser(other, 'developer'))
  for (const path of ['', '/daily']) expectProblem(await read(token, path), [403, 'permission_denied'])
})

const cursor = (...place: string[]) => `?cursor=${Buffer.from(JSON.stringify(place)).toString('base64url')}`

test.for([
  ['an invalid action', '?action=A'],
  ['an invalid outcome', '?outcome=Done'],
  ['a subject that is neither an ID nor an email', '?subject=bob'],
  ['a date that does not exist', '?from=2026-02-30T00:00:00Z'],
  ['an unknown parameter', '?who=me'],
  ['a cursor before all times', cursor('-200000-01-01T00:00:00.000Z', ID)],
  ['a cursor without an id', cursor('2026-11-01T00:00:00.000Z', 'x')],
  ['no day', '/daily?days=0'],
])('the audit trail rejects %s (ASVS 2.2.1)', async ([, query]) => {
  expectProblem(await read(lively.token, query), [400, 'invalid_request'])
})

test("the audit trail's daily sums count sign-ins, refusals, and changes (ASVS 16.3.1)", async () => {
  const { admin } = await livelyCompany()
  for (const _ of times(2, () => 0)) await service.login({ ...admin, password: 'wrong' })
  service.clock.advance(86_400)
  const later = await tokenOf(admin)
  const { body } = await read(later, '/daily?days=3', { at: 1 })
  const day = (ago: number) => new Date(service.clock.now() - ago * 86_400_000).toISOString().slice(0, 10)
  expect(body.days).toEqual([
    { date: day(2), signIns: 0, refusals: 0, changes: 0 },
    { date: day(1), signIns: 1, refusals: 2, changes: 5 },
    { date: day(0), signIns: 1, refusals: 0, changes: 0 },
  ])
  expect((await read(later, '/daily')).body.days).toHaveLength(30)
})
