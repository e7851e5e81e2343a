import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { changeUserRole, invite } from '../../src/operator/users.ts'
import { expectProblem } from '../http/problem.ts'
import { type Person, times, useSharedService } from '../support/test-service.ts'

/** What the members of a company see of its audit trail. */

const { service } = await useSharedService()
const ID = '01890a5d-ac96-774b-bcce-b302099a8057'

type Options = Parameters<typeof service.call>[1]
const read = (token: string, query = '', options: Options = {}) =>
  service.call(`/auth/audit${query}`, { method: 'GET', token, ...options })
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken

/** A company in which something has happened, with a token of its admin. */
async function livelyCompany() {
  const admin = await service.addCompany()
  service.clock.advance(1)
  const token = await tokenOf(admin)
  service.clock.advance(1)
  const member = await service.addUser(admin, 'viewer')
  service.clock.advance(1)
  const change = { method: 'PATCH', token, json: { role: 'analyst' } }
  await service.call(`/auth/members/${member.userId}`, change)
  service.clock.advance(1)
  await changeUserRole(service.context, admin.companyId, member, 'viewer', service.clock.now())
  service.clock.advance(1)
  await invite(service.context, admin.companyId, { email: 'bob@else.example', role: 'viewer' })
  service.clock.advance(1)
  return { admin, token, member, at: service.clock.now() }
}

/** Tests that only read share one. */
const lively = await livelyCompany()

describe('the audit trail (ASVS 16.2.1)', () => {
  test('the audit trail shows who did what, when, and from where', async () => {
    const { admin, token, member, at } = lively
    const { body } = await read(token)
    expect(body.nextCursor).toBeNull()
    const actions = body.entries.map(({ action }: { action: string }) => action)
    expect(actions.join(' ')).toBe('invite user_role user_role user_create sign_in company_create')
    const [invited, byOperator, byAdmin] = body.entries
    expect(invited).toMatchObject({ actor: 'operator', subject: 'bob@else.example', ipAddress: null })
    expect(byOperator.details).toEqual({ before: { role: 'analyst' }, after: { role: 'viewer' } })
    const { session } = (await service.getSession({ token })).body
    expect(byAdmin).toEqual({
      id: expect.any(String),
      occurredAt: new Date(at - 3_000).toISOString(),
      action: 'user_role',
      outcome: 'done',
      actor: admin.userId,
      subject: member.userId,
      details: { before: { role: 'viewer' }, after: { role: 'analyst' } },
      sessionId: session.id,
      ipAddress: '127.0.0.1',
    })
  })

  test('the audit trail has the names of the members in it', async () => {
    const { admin, token, member } = lively
    const { body } = await read(token, '?limit=3')
    expect(body.names).toEqual({ [admin.userId]: admin.email, [member.userId]: member.email })
    expect((await read(token, '?action=invite')).body.names).toEqual({})
  })

  test('the audit trail comes as CSV without formulas (RFC 4180)', async () => {
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

  test('the audit trail has the content type that Accept prefers (RFC 9110, 12.5.1)', async () => {
    const { token } = lively
    const typeOf = async (accept: string) => {
      const { headers } = await read(token, '', { headers: { accept } })
      return String(headers['content-type']).split(';')[0]
    }
    for (const accept of [
      'application/json, application/x-ndjson, text/csv, application/problem+json',
      'text/csv, application/x-ndjson, application/json',
      'application/json, text/csv;q=0.8',
      'text/csv;q=0, application/json',
      'text/csv;Q=0.000',
      'text/csvx, image/*, */*;q=0.1',
      'application/*',
      'x/y;z=",text/csv,"',
    ])
      expect([accept, await typeOf(accept)]).toEqual([accept, 'application/json'])
    const csv = [
      'TEXT/CSV',
      'text/*',
      'text/csv; charset=utf-8, */*',
      'application/json;q=0.5,text/csv;q=0.6',
    ]
    for (const accept of csv) expect([accept, await typeOf(accept)]).toEqual([accept, 'text/csv'])
    expect(await typeOf('application/json; q=0, */*')).toBe('application/x-ndjson')
  })

  test('the audit trail can be filtered by action, actor, and time', async () => {
    const { admin, token, at } = lively
    const count = async (query: string) => (await read(token, query)).body.entries.length
    expect(await count('?action=user_role')).toBe(2)
    expect(await count(`?actor=${admin.userId.toUpperCase()}`)).toBe(2)
    expect(await count('?actor=operator&action=user_role')).toBe(1)
    const time = encodeURIComponent(new Date(at - 2_000).toISOString())
    expect([await count(`?from=${time}`), await count(`?to=${time}`)]).toEqual([2, 4])
    expect(await count('?action=nothing')).toBe(0)
  })

  test('the audit trail has each entry once in its pages while others arrive', async () => {
    const { admin, token } = await livelyCompany()
    const seen: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const { body } = await read(token, `?limit=2${cursor && `&cursor=${cursor}`}`, { at: seen.length % 2 })
      seen.push(...body.entries.map(({ id }: { id: string }) => id))
      cursor = body.nextCursor
      await service.login(admin)
    }
    expect([seen.length, new Set(seen).size]).toEqual([6, 6])
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
    // The export that comes first cannot read on before the other has its answer.
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

  test('the audit trail shows only the own company, and requires permission (ASVS 8.2.1, 8.2.2)', async () => {
    const other = await service.addCompany()
    service.clock.advance(1)
    const entries = (await read(await tokenOf(other))).body.entries
    expect(entries.map(({ action }: { action: string }) => action)).toEqual(['sign_in', 'company_create'])
    const credential = await tokenOf(await service.addUser(other, 'developer'))
    expectProblem(await read(credential), [403, 'permission_denied'])
    expectProblem(await read(credential, '/daily'), [403, 'permission_denied'])
  })

  test.for([
    ['an invalid action', 'action=A'],
    ['an email as the actor', 'actor=ada@acme.example'],
    ['a word as the time', 'from=yesterday'],
    ['a date that does not exist', 'from=2026-02-30T00:00:00Z'],
    ['a leap second', 'to=2026-12-31T23:59:60Z'],
    ['a limit that is too high', 'limit=1000'],
    ['an unknown parameter', 'who=me'],
    ...[
      ['a cursor of words', 'x', 'y'],
      ['a cursor before all times', '-200000-01-01T00:00:00.000Z', ID],
      ['a cursor after all times', '+200000-01-01T00:00:00.000Z', ID],
      ['a cursor of a time that does not exist', '2026-13-01T00:00:00.000Z', ID],
      ['a cursor without a time', '', ID],
    ].map(([what = '', ...place]) => [
      what,
      `cursor=${Buffer.from(JSON.stringify(place)).toString('base64url')}`,
    ]),
  ])('the audit trail rejects %s (ASVS 2.2.1)', async ([, query]) => {
    expectProblem(await read(lively.token, `?${query}`), [400, 'invalid_request'])
  })
})

test('the daily sums of the audit trail have sign-ins, refusals, and changes (ASVS 16.3.1)', async () => {
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
  for (const days of [0, 91])
    expectProblem(await read(later, `/daily?days=${days}`), [400, 'invalid_request'])
})
