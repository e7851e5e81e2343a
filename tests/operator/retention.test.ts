import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { openTestService, times } from '../support/test-service.ts'
import { commandLineOf } from './command-line.ts'

const service = await openTestService()
const { db, clock } = service
const [admin, other] = [await service.addCompany(), await service.addCompany()]
const member = await service.addUser(admin)
const account = await service.addUser(admin)
await sql`update users set kind = 'service' where user_id = ${account.userId}`.execute(db)

const DAY = 86_400
const at = (seconds: number) => new Date(clock.now() + seconds * 1000)
const long = at(-90 * DAY)
const prune = (signal?: AbortSignal) => pruneAcrossCompanies(service.context, clock.now(), signal)

const STEPS = [
  'tokens invitations counters mails auditAddresses auditDays refusedSignIns serviceSignIns formerSecrets',
  'refusedRequests watchedEvents knownClients usedChallenges formerHandles mailboxCodes unconfirmedFactors sessions events',
  'companies auditMonths',
]
const nothing = Object.fromEntries(STEPS.flatMap((line) => line.split(' ')).map((step) => [step, 0]))

interface Lapse {
  table: string
  /** Columns that all rows share. */
  row: () => object
  /** Columns in which rows differ. */
  kept: object[]
  gone: object[]
}

const { companyId: company_id, userId: user_id } = admin
const bytes = () => `\\x${randomBytes(16).toString('hex')}`
const session = (ended: number | null, expires: number, { by = admin, reason = 'logout' } = {}) => ({
  user_id: by.userId,
  ended_at: ended && at(ended),
  end_reason: ended && reason,
  expires_at: at(expires),
})
const superseded = { by: account, reason: 'superseded' }
/** Rows are kept for five minutes after the time in this column. */
const lapsing = (column: string) => ({ kept: [{ [column]: at(1) }], gone: [{ [column]: at(-301) }] })
const opened = { kind: 'token', created_at: long, issued_at: long, max_expires_at: at(DAY) }
const app = { kind: 'totp', name: 'App', sealed_secret: 'x' }
const mail = { kind: 'password_changed', recipient: 'ada@x.example', facts: {}, created_at: long }

const LAPSES: Record<string, Lapse> = {
  sessions: {
    table: 'sessions',
    row: () => ({ company_id, session_id: randomUUID(), ...opened }),
    kept: [
      session(null, DAY),
      session(null, -30 * DAY + 60),
      session(-30 * DAY + 60, -29 * DAY),
      session(-DAY, DAY),
      session(-DAY + 60, DAY, superseded),
      session(-DAY - 60, DAY, { ...superseded, by: member }),
      session(-DAY - 60, DAY, { by: account }),
    ],
    gone: [
      session(null, -30 * DAY - 60),
      session(-30 * DAY - 60, DAY),
      session(-10 * DAY, -30 * DAY - 60),
      session(-DAY - 60, DAY, superseded),
    ],
  },
  tokens: {
    table: 'one_time_tokens',
    row: () => ({ company_id, purpose: 'reset', email: randomUUID(), token_hash: bytes(), created_at: long }),
    ...lapsing('expires_at'),
  },
  invitations: {
    table: 'invitations',
    row: () => {
      const [invitation_id, email, mail_id] = [randomUUID(), randomUUID(), randomUUID()]
      return { company_id, invitation_id, email, mail_id, role: 'viewer', assignments: [] }
    },
    // The last invitation in each list was never sent.
    kept: [
      { expires_at: at(-7 * DAY + 60), renewed_at: long, created_at: long },
      { expires_at: null, renewed_at: at(-7 * DAY + 60), created_at: long },
    ],
    gone: [
      { expires_at: at(-7 * DAY - 60), renewed_at: at(0), created_at: long },
      { expires_at: null, renewed_at: null, created_at: long },
    ],
  },
  counters: {
    table: 'rate_counters',
    row: () => ({ counter: randomUUID(), hits: 1 }),
    ...lapsing('window_ends_at'),
  },
  mails: {
    table: 'mail_outbox',
    row: () => ({ company_id, mail_id: randomUUID(), ...mail, next_attempt_at: at(DAY) }),
    kept: [
      { sent_at: null, failed_at: null },
      { sent_at: at(-7 * DAY + 60), failed_at: null },
    ],
    gone: [
      { sent_at: at(-7 * DAY - 60), failed_at: null },
      { sent_at: null, failed_at: at(-7 * DAY - 60) },
    ],
  },
  formerSecrets: {
    table: 'former_signing_secrets',
    row: () => ({ version: 1, sealed_secret: 'sealed' }),
    kept: [{ company_id, replaced_at: at(-DAY + 60) }],
    gone: [{ company_id: other.companyId, replaced_at: at(-DAY - 60) }],
  },
  watchedEvents: {
    table: 'watched_events',
    row: () => ({ company_id, event_id: randomUUID(), is_truncated: false }),
    kept: [{ received_at: at(-899) }],
    gone: [{ received_at: at(-901) }],
  },
  knownClients: {
    table: 'known_clients',
    row: () => ({ company_id, user_id, kind: 'network', digest: bytes() }),
    ...lapsing('known_until'),
  },
  usedChallenges: {
    table: 'used_passkey_challenges',
    row: () => ({ challenge_hash: bytes() }),
    ...lapsing('expires_at'),
  },
  mailboxCodes: {
    table: 'mailbox_codes',
    row: () => ({ company_id, digest: bytes() }),
    kept: [{ user_id, expires_at: at(1) }],
    gone: [{ user_id: member.userId, expires_at: at(-301) }],
  },
  unconfirmedFactors: {
    table: 'second_factors',
    row: () => ({ company_id, user_id, factor_id: randomUUID(), ...app }),
    kept: [
      { created_at: long, confirmed_at: long },
      { created_at: at(-7_100), confirmed_at: null },
    ],
    gone: [{ created_at: at(-7_300), confirmed_at: null }],
  },
}

const columnsOf = (row: object) => sql.join(Object.keys(row).map((column) => sql.ref(column)))

test.for(Object.entries(LAPSES))('only expired %s are deleted (ASVS 14.2.7)', async ([step, lapse]) => {
  const { table: name, row, kept, gone } = lapse
  const table = sql.table(name)
  const clear = async () => void (await sql`delete from ${table}`.execute(db))
  await clear()
  onTestFinished(clear)
  const rows = [...kept, ...gone].map((one) => ({ ...row(), ...one }))
  const columns = columnsOf({ ...rows[0] })
  await sql`insert into ${table} (${columns}) select ${columns}
      from json_populate_recordset(null::${table}, ${JSON.stringify(rows)})`.execute(db)
  expect(await prune()).toEqual({ ...nothing, [step]: gone.length })
  const { rows: left } = await sql`select ${columnsOf({ ...kept[0] })} from ${table}`.execute(db)
  expect(left).toHaveLength(kept.length)
  expect(left).toEqual(expect.arrayContaining(kept))
})

/** Half of these sessions have expired. */
async function addSessions(count: number): Promise<void> {
  await sql`
    insert into sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at, max_expires_at)
    select ${company_id}, gen_random_uuid(), ${user_id}, 'token', now(), now(),
      case when n % 2 = 0 then ${at(-31 * DAY)}::timestamptz else ${at(DAY)}::timestamptz end, now()
    from generate_series(1, ${count}) n`.execute(db)
}

test('concurrent runs share long work, and skip locked rows', async () => {
  await addSessions(12_000)
  const counters = times(1_500, (index) => ({ counter: `old ${index}`, hits: 1, window_ends_at: at(-DAY) }))
  await db.insertInto('rate_counters').values(counters).execute()
  expect(await prune(AbortSignal.abort())).toEqual(nothing)
  const runs = await db.transaction().execute(async (tx) => {
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
    await sql`select from rate_counters where counter = 'old 7' for update`.execute(tx)
    return await Promise.all([prune(), prune(), prune()])
  })
  const sumOf = (step: 'sessions' | 'counters') => runs.reduce((sum, run) => sum + (run[step] ?? 0), 0)
  expect([sumOf('sessions'), sumOf('counters')]).toEqual([6_000, 1_499])
  expect(await prune()).toEqual({ ...nothing, counters: 1 })
})

test('housekeeping continues after a failed step or company, and reports both', async () => {
  const [held, free] = [await service.addCompany(), await service.addCompany()]
  await sql`update companies set status = 'deleting', deletion_began_at = now() - interval '61 seconds'
    where company_id in (${held.companyId}, ${free.companyId})`.execute(db)
  await addSessions(2)
  await sql`alter table known_clients rename to known_clients_away`.execute(db)
  await sql
    .raw(`create function hold() returns trigger language plpgsql as $$ begin
    raise 'held' using errcode = 'lock_not_available'; end $$;
    create trigger hold before delete on users for each row
    when (old.company_id = '${held.companyId}') execute function hold()`)
    .execute(db)
  const report = /^Housekeeping failed in part: knownClients \(42P01\), companies \(55P03\)\. .*$/
  await expect(prune()).rejects.toThrow(report)
  const deleting = db.selectFrom('companies').select('company_id').where('status', '=', 'deleting')
  expect(await deleting.execute()).toEqual([{ company_id: held.companyId }])
  const expired = db.selectFrom('sessions').where('expires_at', '<', at(-30 * DAY))
  expect(await expired.execute()).toEqual([])
  expect(await commandLineOf(service).refusalOf('prune')).toMatch(report)
  await sql`alter table known_clients_away rename to known_clients`.execute(db)
  await sql`drop function hold cascade`.execute(db)
  expect(await prune()).toMatchObject({ companies: 1 })
})

test('counting continues when a counter is deleted concurrently', async () => {
  const person = await service.addCompany()
  await service.loginAs(person)
  // No request uses this counter, so it is always deleted.
  const unused = { counter: 'unused', hits: 1, window_ends_at: at(DAY) }
  await db.insertInto('rate_counters').values(unused).execute()
  const pruning = times(20, async () => {
    // Skips locked rows, because sign-ins lock several in a different order.
    await sql`
      with free as (select counter from rate_counters for update skip locked)
      update rate_counters c set window_ends_at = ${at(-DAY)}
      from free where c.counter = free.counter`.execute(db)
    return (await prune()).counters ?? 0
  })
  const answers = await Promise.all(times(20, () => service.login(person)))
  expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
  expect((await Promise.all(pruning)).reduce((sum, counters) => sum + counters, 0)).toBeGreaterThan(0)
})
