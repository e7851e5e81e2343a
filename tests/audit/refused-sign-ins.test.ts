import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { PLATFORM } from '../../src/audit/entry.ts'
import { recordRefusedSignIns } from '../../src/company/refused-sign-ins-repository.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { settleLapsedAcrossCompanies } from '../../src/sign-in/lapsed.ts'
import { type Line, linesAbout } from '../support/log-lines.ts'
import { COOKIE_MODE, openFactorService } from '../support/second-factors.ts'
import { type Answer, type Person, times } from '../support/test-service.ts'

/** The log and the audit trail show why a sign-in was refused. The response does not. */

const service = await openFactorService({ instances: 2, env: { TRUST_PROXY: '127.0.0.1' } })
const { db, clock } = service
// Nothing is added to the sums of minutes that are over by the database's clock.
clock.advance(600)
// On a Postgres in FIPS mode, md5() fails.
await sql`alter function md5(text) rename to no_md5`.execute(db)
const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
const WRONG = { password: 'not the password' }

async function refusals(companyId: string) {
  const columns = ['minute', 'network', 'reason', 'user_id as userId', 'count'] as const
  const rows = db.selectFrom('refused_sign_ins').select(columns).where('company_id', '=', companyId)
  return await rows.orderBy('minute').orderBy('network').execute()
}

const minute = () => new Date(clock.now() - (clock.now() % 60_000))

const lineOf = async (answer: Answer, of = service) => (await linesAbout(of, answer))[0] ?? {}
const expectLine = async (answer: Answer, line: object) => expect(await lineOf(answer)).toMatchObject(line)

async function trailOf(admin: Parameters<typeof service.loginAs>[0], query = '') {
  const { accessToken: token } = await service.loginAs(admin)
  const { body } = await service.call(`/auth/audit${query}`, { method: 'GET', token })
  return body.entries as Line[]
}

const refusedIn = (entries: Line[]) => entries.filter(({ reason }) => reason !== undefined)

const admin = await service.addCompany()
const { companyId } = admin
const suspended = await service.addCompany()
const disabled = await service.addUser(admin)
const unverified = await service.addUser(admin)
await changeCompanyStatus(service.context, suspended.companyId, 'suspended')
await changeUserStatus(service.context, companyId, disabled, 'disabled')
await sql`update users set email_verified_at = null where user_id = ${unverified.userId}`.execute(db)

test.for<[cause: string, person: Person, reason: string]>([
  ['an unknown company', { ...admin, companyId: randomUUID() }, 'unknown_company'],
  ['an unknown user', { ...admin, email: 'no@body.example' }, 'unknown_user'],
  ['a wrong password', { ...admin, ...WRONG }, 'wrong_password'],
  ['a disabled user', disabled, 'user_disabled'],
  ['a suspended company', suspended, 'company_suspended'],
  ['an unverified email', unverified, 'email_not_verified'],
])('the log names why %s is refused (ASVS 16.2.1, 16.2.5)', async ([, person, reason]) => {
  const answer = await service.login(person)
  const line = await lineOf(answer)
  const { companyId, userId } = person
  const code = reason === 'email_not_verified' ? reason : 'invalid_credentials'
  expect(line).toMatchObject({ code, companyId, reason })
  expect(line['userId']).toBe(reason.startsWith('unknown') ? undefined : userId)
  expect(JSON.stringify(line)).not.toContain('@')
  for (const word of [companyId, userId, reason].filter((one) => one !== code))
    expect(JSON.stringify(answer)).not.toContain(word)
})

test('the log distinguishes lockouts of one network and of unknown networks', async () => {
  const limited = await openFactorService({
    env: {
      RATE_LIMIT_SCALE: '1',
      LIMIT_SIGN_IN_FAILURES: '2/900',
      LIMIT_ACCOUNT_FAILURES: '3/900',
      LIMIT_SECOND_FACTOR_CODES: '2/900',
      TRUST_PROXY: '127.0.0.1',
    },
  })
  const person = await limited.addCompany()
  const { companyId, userId, password } = person
  const tell = async (answer: Answer) => {
    const { code, limit, reason, ...line } = await lineOf(answer, limited)
    expect(line).toMatchObject({ companyId, userId })
    return [code, limit ?? null, reason]
  }
  const signIn = async (address: string, password: string) =>
    await tell(await limited.login({ ...person, password }, from(address)))
  for (const address of ['192.0.2.1', '192.0.2.1', '192.0.2.2'])
    expect(await signIn(address, WRONG.password)).toEqual(['invalid_credentials', null, 'wrong_password'])
  expect(await signIn('192.0.2.1', password)).toEqual(['rate_limited', 'sign-in-failures', 'locked_out'])
  // Unknown networks are locked out, whatever they send.
  for (const any of [password, WRONG.password])
    expect(await signIn('192.0.2.3', any)).toEqual(['invalid_credentials', null, 'locked_out'])
  const { rows } = await sql`
    select network, count from refused_sign_ins where reason = 'locked_out'`.execute(limited.db)
  expect(rows).toEqual([{ network: '192.0.2.3', count: 2 }])
  // Wrong codes count toward the member's limit.
  const other = await limited.personWithTotp(person)
  const { challenge } = await limited.begin(other, from('192.0.2.4'))
  const guess = () => limited.complete({ challenge, method: 'totp', code: '000000' })
  for (const _ of times(2, () => 0)) expect((await guess()).body.code).toBe('invalid_second_factor')
  const { code, limit, ...line } = await lineOf(await guess(), limited)
  expect([code, limit]).toEqual(['rate_limited', 'second-factor-codes'])
  expect(line).toMatchObject({ companyId, userId: other.userId, reason: 'locked_out' })
})

test('the log names missing, wrong, late, and unknown second factors', async () => {
  const person = await service.personWithTotp(admin)
  const who = { companyId, userId: person.userId }
  const begun = await service.login(person)
  await expectLine(begun, { code: 'second_factor_required', ...who, reason: 'factor_missing' })
  const { challenge } = begun.body
  const wrong = await service.complete({ challenge, method: 'totp', code: '000000' })
  const code = 'invalid_second_factor'
  await expectLine(wrong, { code, ...who, reason: 'wrong_factor' })
  clock.advance(301)
  const late = await service.complete({ challenge, ...service.totpOf(person) })
  await expectLine(late, { code, reason: 'challenge_void' })

  const owner = await service.personWithPasskey(admin)
  await changeUserStatus(service.context, companyId, owner, 'disabled')
  const about = { companyId, userId: owner.userId, reason: 'user_disabled' }
  await expectLine(await service.signInByPasskey(owner), { code, ...about })
  const [entry] = await trailOf(admin, `?action=second_factor&actor=${owner.userId}`)
  expect(entry).toMatchObject({ outcome: 'refused', details: { method: 'passkey', reason: 'user_disabled' } })
  await sql`delete from second_factors where user_id = ${owner.userId}`.execute(db)
  await expectLine(await service.signInByPasskey(owner), { code, reason: 'unknown_passkey' })
})

test('the log names why a service account in cookie mode was refused', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const { id, ...account } = await service.addServiceAccount(admin, token)
  const answer = await service.login(account, { headers: COOKIE_MODE })
  await expectLine(answer, { code: 'permission_denied', companyId, userId: id, reason: 'token_mode_only' })
})

test('the audit trail sums up refused sign-ins of all instances, newest first (ASVS 16.3.1)', async () => {
  const admin = await service.addCompany()
  const member = await service.addUser(admin)
  const first = minute()
  const guess = (n: number) => service.login({ ...member, ...WRONG }, { at: n % 2, ...from('192.0.2.1') })
  const answers = await Promise.all(times(20, guess))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]))
  await service.login({ ...member, ...WRONG }, from('2001:db8::1'))
  await service.login({ ...admin, email: 'no@body.example' }, from('192.0.2.1'))
  clock.advance(60)
  await guess(0)
  clock.advance(60)
  const id = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
  const entry = { id, action: 'sign_in', outcome: 'refused', actor: null, details: null, sessionId: null }
  const wrong = { ...entry, subject: member.userId, reason: 'wrong_password' }
  const at = (time: Date) => ({ occurredAt: time.toISOString() })
  const second = new Date(first.getTime() + 60_000)
  const entries = await trailOf(admin)
  const refused = refusedIn(entries)
  expect(refused[0]).toEqual({ ...wrong, ...at(second), ipAddress: '192.0.2.1', count: 1 })
  const earlier = [
    { ...wrong, ...at(first), ipAddress: '192.0.2.1', count: 20 },
    { ...wrong, ...at(first), ipAddress: '2001:db8::1', count: 1 },
    { ...entry, ...at(first), subject: null, ipAddress: '192.0.2.1', reason: 'unknown_user', count: 1 },
  ]
  expect(refused.slice(1)).toEqual(expect.arrayContaining(earlier))
  expect(refused).toHaveLength(4)
  const moments = entries.map(({ occurredAt }) => String(occurredAt))
  expect(moments).toEqual(moments.toSorted().toReversed())

  clock.advance(1)
  const { accessToken: token } = await service.loginAs(admin)
  const seen: object[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    // Entries that arrive between two pages do not appear on later pages.
    clock.advance(1)
    await service.login(admin)
    const path: string = `/auth/audit?limit=2${cursor && `&cursor=${cursor}`}`
    const { body } = await service.call(path, { method: 'GET', token, at: seen.length % 2 })
    seen.push(...body.entries)
    cursor = body.nextCursor
  }
  expect(seen.slice(-entries.length)).toEqual(entries)
  expect(seen).toHaveLength(entries.length + 2)
  const headers = { accept: 'application/x-ndjson' }
  const exported = await service.call('/auth/audit', { method: 'GET', token, headers })
  const lines = String(exported.body).trim().split('\n').slice(-seen.length)
  expect(lines.map((line) => JSON.parse(line))).toMatchObject(seen)

  const count = async (query: string) => refusedIn(await trailOf(admin, query)).length
  expect([await count('?action=sign_in'), await count('?action=logout')]).toEqual([4, 0])
  expect(await count(`?actor=${admin.userId}`)).toBe(0)
  const time = encodeURIComponent(second.toISOString())
  expect([await count(`?to=${time}`), await count(`?from=${time}`)]).toEqual([3, 1])
})

test('the audit trail shows sign-ins that stopped before the second factor', async () => {
  const admin = await service.addCompany()
  const person = await service.personWithTotp(admin)
  const at = minute().toISOString()
  for (const _ of times(2, () => 0)) await service.begin(person, from('192.0.2.7'))
  expect(refusedIn(await trailOf(admin))).toEqual([])
  clock.advance(301 + 900)
  const settle = () => settleLapsedAcrossCompanies({ db, system: clock }, clock.now())
  await Promise.all([settle(), settle()])
  expect(refusedIn(await trailOf(admin))).toMatchObject([
    { reason: 'factor_missing', count: 2, subject: person.userId, ipAddress: '192.0.2.7', occurredAt: at },
  ])
})

test('the audit trail shows refused sign-ins that the previous release stored', async () => {
  const admin = await service.addCompany()
  const insert = () =>
    sql`insert into refused_sign_ins as r (company_id, minute, network, kind, count, last_email, last_at)
      values (${admin.companyId}, ${minute()}, '192.0.2.9', 'wrong_password', 2, 'a@b.example', ${minute()})
      on conflict (company_id, minute, network, kind) do update set count = r.count + excluded.count,
        last_email = excluded.last_email, last_at = greatest(r.last_at, excluded.last_at)`.execute(db)
  await insert()
  await service.login({ ...admin, ...WRONG }, from('192.0.2.9'))
  await insert()
  const refused = refusedIn(await trailOf(admin))
  expect(refused.toSorted((one, other) => Number(other['count']) - Number(one['count']))).toMatchObject([
    { reason: 'refused', count: 4, subject: null, ipAddress: null },
    { reason: 'wrong_password', count: 1, subject: admin.userId },
  ])
})

const attempt = (about: Partial<Parameters<typeof recordRefusedSignIns>[1][number]>) => ({
  companyId: randomUUID(),
  email: 'no@body.example',
  network: '192.0.2.1',
  ipAddress: '192.0.2.1',
  reason: 'wrong_password' as const,
  userId: null,
  isKnown: false,
  at: new Date(clock.now()),
  isLockout: false,
  isGuessed: false,
  mailId: randomUUID(),
  ...about,
})

/** Refusals from 90 networks, concurrently on both instances. */
const flood = (companyId: string, reason: 'unknown_user' | 'unknown_company') =>
  Promise.all(
    times(6, (n) =>
      recordRefusedSignIns(
        service.connections[n % 2]?.db ?? db,
        times(30, (i) => attempt({ companyId, reason, network: `192.0.2.${(n % 3) * 30 + i}` })),
      ),
    ),
  )

const total = (rows: { count: number }[]) => rows.reduce((sum, { count }) => sum + count, 0)

test('a flood stores 20 rows per minute and company, including known clients', async () => {
  const admin = await service.addCompany()
  const member = await service.addUser(admin)
  await service.loginAs(member, from('198.51.100.1'))
  clock.advance(60)
  await flood(admin.companyId, 'unknown_user')
  await service.login({ ...member, ...WRONG }, from('198.51.100.1'))
  const rows = await refusals(admin.companyId)
  expect(rows.length).toBeGreaterThan(2)
  expect(rows.length).toBeLessThanOrEqual(20)
  expect(total(rows)).toBe(181)
  expect(rows[0]).toMatchObject({ network: '', reason: 'other', userId: null })
  const known = { network: '198.51.100.1', reason: 'wrong_password', userId: member.userId, count: 1 }
  expect(rows).toContainEqual(expect.objectContaining(known))
})

test('refused sign-ins at missing or deleted companies are summed up together (ASVS 6.3.8)', async () => {
  const person = await service.addCompany()
  const gone = await service.addCompany()
  await sql`update companies set status = 'deleting' where company_id = ${gone.companyId}`.execute(db)
  const { rows: before } = await sql`select count(*) from audit_events`.execute(db)
  for (const one of [{ ...person, companyId: randomUUID() }, gone]) {
    clock.advance(60)
    await service.login({ ...one, ...WRONG }, from('203.0.113.1'))
    await flood(one.companyId, 'unknown_company')
    await flood(randomUUID(), 'unknown_company')
    expect(await refusals(one.companyId)).toEqual([])
    const rows = (await refusals(PLATFORM)).filter((row) => Number(row.minute) === Number(minute()))
    expect(rows.length).toBeLessThanOrEqual(20)
    expect(total(rows)).toBe(361)
    const first = { network: '203.0.113.1', reason: 'unknown_company', userId: null, count: 1 }
    expect(rows).toContainEqual(expect.objectContaining(first))
  }
  expect((await sql`select count(*) from audit_events`.execute(db)).rows).toEqual(before)
})

test('guesses that lock out many users concurrently do not deadlock', async () => {
  const admin = await service.addCompany()
  const users = await Promise.all(times(10, () => service.addUser(admin)))
  const items = users.map(({ companyId, userId, email }) =>
    attempt({ companyId, email, userId, isLockout: true }),
  )
  await Promise.all(times(8, (i) => recordRefusedSignIns(db, i % 2 ? items : items.toReversed())))
  expect(total(await refusals(admin.companyId))).toBe(80)
  const members = db.selectFrom('users').select('user_id').where('company_id', '=', admin.companyId)
  expect(await members.where('locked_out_at', 'is not', null).execute()).toHaveLength(10)
})

test('an IPv6 /48 stores ten refused sign-ins per minute and company', async () => {
  await sql`truncate refused_sign_ins`.execute(db)
  clock.advance(60)
  const companies = await Promise.all(times(3, () => service.addCompany()))
  // One /48 sends these within a minute, to existing and made-up companies. The made-up ones count as one.
  const attempts = times(120, (i) =>
    attempt({
      companyId: companies[i % 6]?.companyId ?? randomUUID(),
      email: `${i}@x.example`,
      network: `2001:db8:1:${i}::/64`,
    }),
  )
  await recordRefusedSignIns(db, attempts)
  const rows = db.selectFrom('refused_sign_ins').select('count')
  expect(await rows.execute()).toHaveLength(4 * 10)
  const { refusedSignIns } = await pruneAcrossCompanies(service.context, clock.now() + 91 * 86_400_000)
  expect([refusedSignIns, await rows.execute()]).toEqual([40, []])
})
