import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { run } from '../../scripts/admin/run.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { MASTER_KEYS, openTestService, times } from '../support/test-service.ts'

const service = await openTestService({ timeoutScale: 1 })
const admin = await service.addCompany()
const { db, clock } = service
const DAY = 86_400
const at = (seconds: number) => new Date(clock.now() + seconds * 1000)
const prune = () => pruneAcrossCompanies(service.context, clock.now())

const nothing = {
  events: 0,
  sessions: 0,
  tokens: 0,
  invitations: 0,
  formerSecrets: 0,
  formerHandles: 0,
  refusedRequests: 0,
  counters: 0,
  mails: 0,
  auditAddresses: 0,
  auditDays: 0,
  refusedSignIns: 0,
  serviceSignIns: 0,
  auditMonths: 0,
  knownClients: 0,
  usedChallenges: 0,
  mailboxCodes: 0,
  unconfirmedFactors: 0,
  companies: 0,
}

test('superseded sessions of service accounts are deleted after a day, and only these', async () => {
  const person = await service.addUser(admin)
  const account = await service.addUser(admin)
  await sql`update users set kind = 'service' where user_id = ${account.userId}`.execute(db)
  const session = (name: string, userId: string, reason: 'superseded' | 'logout', seconds: number) => ({
    company_id: admin.companyId,
    session_id: randomUUID(),
    user_id: userId,
    kind: 'token' as const,
    created_at: at(-2 * DAY),
    issued_at: at(-2 * DAY),
    expires_at: at(5 * DAY),
    max_expires_at: at(28 * DAY),
    ended_at: at(seconds),
    end_reason: reason,
    cookie_hash: null,
    user_agent: name,
    ip_address: null,
  })
  const sessions = [
    session('gone', account.userId, 'superseded', -DAY - 60),
    session('recent', account.userId, 'superseded', -DAY + 60),
    session('signed out', account.userId, 'logout', -DAY - 60),
    session('of a person', person.userId, 'superseded', -DAY - 60),
  ]
  await db.insertInto('sessions').values(sessions).execute()
  expect((await prune()).sessions).toBe(1)
  const left = await db.selectFrom('sessions').select('user_agent').orderBy('user_agent').execute()
  expect(left.map(({ user_agent }) => user_agent)).toEqual(['of a person', 'recent', 'signed out'])
  await db.deleteFrom('sessions').execute()
  for (const { userId } of [person, account])
    await db.deleteFrom('users').where('user_id', '=', userId).execute()
})

test('housekeeping deletes what has lapsed, and nothing that anybody needs (ASVS 14.2.7)', async () => {
  await sql`delete from rate_counters`.execute(db)
  const { companyId, userId } = admin
  const session = (ended: Date | null, expires: Date) => ({
    company_id: companyId,
    session_id: randomUUID(),
    user_id: userId,
    kind: 'token' as const,
    created_at: at(-90 * DAY),
    issued_at: at(-90 * DAY),
    expires_at: expires,
    max_expires_at: at(DAY),
    ended_at: ended,
    end_reason: ended && ('logout' as const),
  })
  const kept = [
    session(null, at(DAY)),
    session(null, at(-30 * DAY + 60)),
    session(at(-30 * DAY + 60), at(-31 * DAY + 2 * DAY)),
    session(at(-DAY), at(DAY)),
  ]
  const gone = [
    session(null, at(-30 * DAY - 60)),
    session(at(-30 * DAY - 60), at(DAY)),
    session(at(-10 * DAY), at(-30 * DAY - 60)),
  ]
  await db
    .insertInto('sessions')
    .values(
      [...kept, ...gone].map(({ ...row }) => ({
        ...row,
        cookie_hash: null,
        user_agent: null,
        ip_address: null,
      })),
    )
    .execute()

  const token = (email: string, expires: Date) => ({
    company_id: companyId,
    purpose: 'reset' as const,
    email,
    token_hash: randomBytes(32),
    role: null,
    created_at: at(-DAY),
    expires_at: expires,
  })
  await db
    .insertInto('one_time_tokens')
    .values([token('kept@x.example', at(1)), token('gone@x.example', at(-301))])
    .execute()

  const counter = (name: string, ends: Date) => ({ counter: name, hits: 1, window_ends_at: ends })
  await db
    .insertInto('rate_counters')
    .values([counter('kept', at(1)), counter('gone', at(-301))])
    .execute()

  const mail = (recipient: string, end: { sent_at?: Date; failed_at?: Date }) => ({
    company_id: companyId,
    mail_id: randomUUID(),
    kind: 'password_changed' as const,
    recipient,
    facts: '{}',
    created_at: at(-9 * DAY),
    next_attempt_at: at(DAY),
    ...end,
  })
  await db
    .insertInto('mail_outbox')
    .values([
      mail('waiting@x.example', {}),
      mail('kept@x.example', { sent_at: at(-7 * DAY + 60) }),
      mail('gone@x.example', { sent_at: at(-7 * DAY - 60) }),
      mail('gone@x.example', { failed_at: at(-7 * DAY - 60) }),
    ])
    .execute()
  const known = (until: Date) => ({
    company_id: companyId,
    user_id: userId,
    kind: 'network' as const,
    digest: randomBytes(16),
    known_until: until,
  })
  await db
    .insertInto('known_clients')
    .values([known(at(1)), known(at(-301))])
    .execute()
  const used = (expires: Date) => ({ challenge_hash: randomBytes(32), expires_at: expires })
  await db
    .insertInto('used_passkey_challenges')
    .values([used(at(1)), used(at(-301))])
    .execute()
  const app = (created: Date, confirmed: Date | null) => ({
    company_id: companyId,
    factor_id: randomUUID(),
    user_id: userId,
    kind: 'totp' as const,
    name: 'Authenticator app',
    created_at: created,
    confirmed_at: confirmed,
    sealed_secret: 'sealed',
  })
  await db
    .insertInto('second_factors')
    .values([app(at(-90 * DAY), at(-90 * DAY)), app(at(-7_100), null), app(at(-7_300), null)])
    .execute()
  const other = await service.addUser(admin)
  const code = (user_id: string, expires: Date) => ({
    company_id: companyId,
    user_id,
    digest: randomBytes(32),
    expires_at: expires,
  })
  await db
    .insertInto('mailbox_codes')
    .values([code(userId, at(1)), code(other.userId, at(-301))])
    .execute()
  const audit = await db.selectFrom('audit_events').selectAll().execute()

  expect(await prune()).toEqual({
    ...nothing,
    sessions: 3,
    tokens: 1,
    counters: 1,
    mails: 2,
    knownClients: 1,
    usedChallenges: 1,
    mailboxCodes: 1,
    unconfirmedFactors: 1,
  })
  const sessions = await db.selectFrom('sessions').select('session_id').execute()
  expect(sessions.map(({ session_id: id }) => id).toSorted()).toEqual(
    kept.map((row) => row.session_id).toSorted(),
  )
  expect(await db.selectFrom('one_time_tokens').select('email').execute()).toEqual([
    { email: 'kept@x.example' },
  ])
  expect(await db.selectFrom('rate_counters').select('counter').execute()).toEqual([{ counter: 'kept' }])
  expect(await db.selectFrom('known_clients').select('known_until').execute()).toEqual([
    { known_until: at(1) },
  ])
  const factors = await db.selectFrom('second_factors').select('created_at').orderBy('created_at').execute()
  expect(factors).toEqual([{ created_at: at(-90 * DAY) }, { created_at: at(-7_100) }])
  const mails = await db.selectFrom('mail_outbox').select('recipient').orderBy('recipient').execute()
  expect(mails).toEqual([{ recipient: 'kept@x.example' }, { recipient: 'waiting@x.example' }])
  expect(await db.selectFrom('audit_events').selectAll().execute()).toEqual(audit)
  expect(await prune()).toEqual(nothing)
})

async function addOldSessions(count: number): Promise<void> {
  await sql`
    insert into sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at, max_expires_at)
    select ${admin.companyId}, gen_random_uuid(), ${admin.userId}, 'token', now(), now(),
      case when n % 2 = 0 then ${at(-31 * DAY)}::timestamptz else ${at(DAY)}::timestamptz end, now()
    from generate_series(1, ${count}) n`.execute(db)
}

test('more than fits one statement goes in several, and what is in use meanwhile is passed over', async () => {
  await addOldSessions(12_000)
  const counters = times(2_500, (index) => ({ counter: `old ${index}`, hits: 1, window_ends_at: at(-DAY) }))
  await db.insertInto('rate_counters').values(counters).execute()
  const pruned = await db.transaction().execute(async (tx) => {
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
    await sql`select from rate_counters where counter = 'old 7' for update`.execute(tx)
    return await prune()
  })
  expect(pruned).toEqual({ ...nothing, sessions: 6_000, counters: 2_499 })
  expect(await prune()).toEqual({ ...nothing, counters: 1 })
})

test('several at a time share the work, and one that is stopped is gone on with', async () => {
  await addOldSessions(12_000)
  expect(
    (await pruneAcrossCompanies(service.context, clock.now(), AbortSignal.abort())).sessions,
  ).toBeLessThan(6_000)
  const rest = await Promise.all([prune(), prune(), prune()])
  expect(rest.reduce((sum, { sessions = 0 }) => sum + sessions, 0)).toBeLessThanOrEqual(6_000)
  expect(await prune()).toEqual(nothing)
})

test('what fails keeps nothing else from its turn, and is reported at the end', async () => {
  const [held, free] = [await service.addCompany(), await service.addCompany()]
  await sql`update companies set status = 'deleting', deletion_began_at = now() - interval '61 seconds'
    where company_id in (${held.companyId}, ${free.companyId})`.execute(db)
  await addOldSessions(2)
  const countSessions = async () =>
    (await sql`select from sessions where expires_at < ${at(-30 * DAY)}`.execute(db)).rows.length
  expect(await countSessions()).toBe(1)
  await sql`alter table known_clients rename to known_clients_away`.execute(db)
  const [line, status] = await db.transaction().execute(async (tx) => {
    // However busy the machine is.
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
    await sql`select from users where company_id = ${held.companyId} for update`.execute(tx)
    await expect(prune()).rejects.toThrow(
      /^Housekeeping failed in part: knownClients \(42P01\), companies \(55P03\)\. /,
    )
    const left = await db
      .selectFrom('companies')
      .select('company_id')
      .where('status', '=', 'deleting')
      .execute()
    expect(left).toEqual([{ company_id: held.companyId }])
    expect(await countSessions()).toBe(0)
    const told: unknown[] = []
    const status = await run(['prune'], {
      env: { ...process.env, DATABASE_URL: service.url, MASTER_KEYS },
      readInput: async () => '',
      print: () => {},
      complain: (reason) => told.push(reason),
    })
    return [told.join(), status] as const
  })
  expect(status).toBe(1)
  expect(line).toMatch(/^Housekeeping failed in part: knownClients \(42P01\), companies \(55P03\)\. .*$/)
  await sql`alter table known_clients_away rename to known_clients`.execute(db)
  expect(await prune()).toMatchObject({ companies: 1 })
})

test('counts go on where a counter was deleted under them', async () => {
  // With longer waits than the service above.
  const patient = await openTestService()
  const person = await patient.addCompany()
  await patient.loginAs(person)
  // Nobody counts with this one, so it is deleted for sure.
  const unused = { counter: 'unused', hits: 1, window_ends_at: at(DAY) }
  await patient.db.insertInto('rate_counters').values(unused).execute()
  const pruning = times(30, async () => {
    // It waits for none: sign-ins lock several, in another order.
    await sql`
      with free as (select counter from rate_counters for update skip locked)
      update rate_counters c set window_ends_at = ${at(-DAY)} from free where c.counter = free.counter`.execute(
      patient.db,
    )
    return (await pruneAcrossCompanies(patient.context, patient.clock.now())).counters ?? 0
  })
  const answers = await Promise.all(times(30, () => patient.login(person)))
  expect(answers.map(({ status }) => status)).toEqual(times(30, () => 200))
  expect((await Promise.all(pruning)).reduce((sum, counters) => sum + counters, 0)).toBeGreaterThan(0)
})
