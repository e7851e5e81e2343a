import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { recordRefusedSignIns } from '../../src/company/refused-sign-ins-repository.ts'
import { pruneAcrossCompanies } from '../../src/operator/housekeeping.ts'
import { openTestService, times } from '../support/test-service.ts'

const service = await openTestService({ instances: 2, env: { TRUST_PROXY: '127.0.0.1' } })
const { db, clock } = service
const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })

const refusals = (companyId: string) =>
  db
    .selectFrom('refused_sign_ins')
    .select(['minute', 'network', 'kind', 'count', 'last_email as lastEmail'])
    .where('company_id', '=', companyId)
    .orderBy('minute')
    .orderBy('network')
    .execute()

const minute = () => new Date(clock.now() - (clock.now() % 60_000))

test('forty refused sign-ins of a minute are one row per network, on any number of instances', async () => {
  const person = await service.addCompany()
  const first = minute()
  const guess = (i: number) =>
    service.login({ ...person, password: 'wrong' }, { at: i % 2, ...from(`192.0.2.${i % 2}`) })
  const answers = await Promise.all(times(40, guess))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]))
  clock.advance(60)
  await guess(0)
  const row = { kind: 'wrong_password', lastEmail: person.email }
  expect(await refusals(person.companyId)).toEqual([
    { ...row, minute: first, network: '192.0.2.0', count: 20 },
    { ...row, minute: first, network: '192.0.2.1', count: 20 },
    { ...row, minute: minute(), network: '192.0.2.0', count: 1 },
  ])
})

test('the same is written whether the account exists or not, and none of it into the audit trail (ASVS 6.3.8)', async () => {
  const person = await service.addCompany()
  const { rows: before } = await sql`select count(*) from audit_events`.execute(db)
  const strangers = [person, { ...person, email: 'no@body.example' }, { ...person, companyId: randomUUID() }]
  for (const { companyId, email } of strangers) {
    clock.advance(60)
    await service.login({ companyId, email, password: 'wrong' })
    expect((await refusals(companyId)).at(-1)).toEqual({
      minute: minute(),
      network: '127.0.0.1',
      kind: 'wrong_password',
      count: 1,
      lastEmail: email,
    })
  }
  expect((await sql`select count(*) from audit_events`.execute(db)).rows).toEqual(before)
})

test('guesses that lock out many users at once, on all instances, do not block each other', async () => {
  const admin = await service.addCompany()
  const users = await Promise.all(times(10, () => service.addUser(admin)))
  const items = users.map(({ companyId, email }) => ({
    companyId,
    email,
    network: '192.0.2.1',
    kind: 'wrong_password' as const,
    at: new Date(clock.now()),
    isLockout: true,
    ipAddress: '192.0.2.1',
    isGuessed: false,
    mailId: randomUUID(),
  }))
  for (let round = 0; round < 5; round += 1) {
    await Promise.all(times(4, (i) => recordRefusedSignIns(db, i % 2 ? items : items.toReversed())))
  }
  const [row] = await refusals(admin.companyId)
  expect(row?.count).toBe(200)
  const locked = await db
    .selectFrom('users')
    .select('user_id')
    .where('company_id', '=', admin.companyId)
    .where('locked_out_at', 'is not', null)
    .execute()
  expect(locked).toHaveLength(10)
})

test('what an IPv6 /48 can write in an hour stays below 20 MB, and goes after 90 days', async () => {
  // 30 attempts a minute from a network, four times that from a /48, each in the name of a made-up company.
  const companyId = () => randomUUID()
  for (let minute = 0; minute < 60; minute += 1) {
    const at = new Date(clock.now() + minute * 60_000)
    const attempts = times(120, (i) => ({
      companyId: companyId(),
      email: `${'x'.repeat(241)}${i}@x.example`.slice(-254),
      network: `2001:db8:1:${i}::/64`,
      kind: 'wrong_password' as const,
      at,
      isLockout: false,
      ipAddress: `2001:db8:1:${i}::1`,
      isGuessed: false,
      mailId: randomUUID(),
    }))
    await recordRefusedSignIns(db, attempts)
  }
  const { rows } = await sql<{ bytes: number }>`
    select pg_total_relation_size('refused_sign_ins')::int as bytes`.execute(db)
  expect(rows[0]?.bytes).toBeLessThan(20e6 / 4)
  const { refusedSignIns } = await pruneAcrossCompanies(service.context, clock.now() + 91 * 86_400_000)
  expect(refusedSignIns).toBeGreaterThan(7_200)
  expect((await db.selectFrom('refused_sign_ins').select('count').execute()).length).toBe(0)
})
