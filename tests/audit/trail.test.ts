import { randomBytes, randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { countDaily } from '../../src/audit/repository.ts'
import { connect } from '../../src/database/connect.ts'
import { buildIndexes } from '../../src/database/indexes.ts'
import { fillAuditDays } from '../../src/database/migrate.ts'
import { maintainAuditTrail } from '../../src/operator/deletion-repository.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { invite } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { whenDone } from '../support/cleanup.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { asRole } from '../support/postgres.ts'
import { openTestService, times } from '../support/test-service.ts'

/** This is not the shared service, because the tests change tables and functions. */
const service = await openTestService()
const { db } = service
const DAY_MS = 86_400_000
const ago = (days: number) => new Date(Date.now() - days * DAY_MS)

/** Inserts only the columns that earlier releases write. */
async function insertAsBefore(at: Date, { actor = 'operator', ip = '192.0.2.1', executor = db } = {}) {
  const companyId = randomUUID()
  const insert = sql`insert into audit_events
    (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id, ip_address)
    values (${companyId}, ${randomUUID()}, ${at}, 'sign_in', 'refused', ${actor}, null, null, ${ip})`
  await insert.execute(executor)
  return companyId
}

const entriesOf = (companyId: string) =>
  selectAudit(db).selectAll().where('company_id', '=', companyId).execute()

async function partitions(executor = db): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select inhrelid::regclass::text as name from pg_inherits
    where inhparent = 'audit_events'::regclass order by 1`.execute(executor)
  return rows.map(({ name }) => name)
}

const monthOf = (date: Date) => `audit_events_${date.toISOString().slice(0, 7).replace('-', '_')}`
const today = new Date()
const monthAhead = (n: number) =>
  monthOf(new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + n, 1)))

/** Creates the partition of an earlier month, as the service did in that month. */
const addPartition = (at: Date) =>
  sql`select add_audit_partition(date_trunc('month', ${at}::timestamptz, 'UTC'))`.execute(db)

test('IP addresses and emails are stored apart and deleted after 90 days (ASVS 14.2.7)', async () => {
  const actor = 'eve@x.example'
  const [old, young] = [await insertAsBefore(ago(91), { actor }), await insertAsBefore(ago(89), { actor })]
  const { companyId } = await service.addCompany()
  await invite(service.context, companyId, { email: 'bob@new.example', role: 'viewer' })
  const { rows } = await sql`select actor, subject, ip_address from audit_events e
    where company_id = ${young} or e::text like '%@%'`.execute(db)
  expect(rows).toEqual([{ actor: null, subject: null, ip_address: null }])
  const invitation = (await entriesOf(companyId)).find(({ action }) => action === 'invite')
  expect(invitation).toMatchObject({ subject: null, email: 'bob@new.example' })
  const { auditAddresses } = await pruneAcrossCompanies(service.context, Date.now())
  expect(auditAddresses).toBe(1)
  expect(await entriesOf(old)).toMatchObject([{ ip_address: null, email: null }])
  expect(await entriesOf(young)).toMatchObject([{ ip_address: '192.0.2.1', email: actor }])
})

test('audit partitions are created four months ahead, and dropped after the retention', async () => {
  const ahead = times(4, monthAhead)
  expect(await partitions()).toEqual(expect.arrayContaining(ahead))
  await sql`drop table ${sql.table(ahead[3] ?? '')}`.execute(db)
  expect(await maintainAuditTrail(db, 400)).toBe(0)
  expect(await partitions()).toEqual(expect.arrayContaining(ahead))

  const [old, edge] = [ago(500), ago(399)]
  await addPartition(old)
  await addPartition(edge)
  const [gone, kept] = [await insertAsBefore(old), await insertAsBefore(edge)]
  expect(await maintainAuditTrail(db, 400)).toBe(1)
  expect(await partitions()).not.toContain(monthOf(old))
  expect(await partitions()).toContain(monthOf(edge))
  expect([await entriesOf(gone), await entriesOf(kept)]).toMatchObject([[], [{}]])
})

test('audit partitions accept entries of any date, and delete old ones', async () => {
  const moments = ['1970-01-01', '2077-05-01', '9999-12-31'].map((date) => new Date(date))
  const [lapsed = '', ...later] = await Promise.all(moments.map((at) => insertAsBefore(at)))
  expect(await entriesOf(lapsed)).toHaveLength(1)
  // No partition is created: the default partition already has entries of this month.
  await addPartition(new Date('2077-05-01'))
  expect(await partitions()).not.toContain('audit_events_2077_05')
  await maintainAuditTrail(db, 400)
  expect(await entriesOf(lapsed)).toEqual([])
  for (const companyId of later) expect(await entriesOf(companyId)).toHaveLength(1)
  await expect(sql`delete from audit_events_other`.execute(db)).rejects.toThrow('append-only')
})

test('audit partitions are append-only, like the audit trail (ASVS 16.4.2)', async () => {
  for (const partition of await partitions()) {
    for (const change of ['update % set outcome = outcome', 'delete from %', 'truncate %'])
      await expect(sql.raw(change.replace('%', partition)).execute(db)).rejects.toThrow('append-only')
  }
})

test('audit partitions are created and dropped concurrently while entries are added', async () => {
  const last = monthAhead(3)
  // Maintenance skips what it cannot lock soon. With a long timeout, these calls wait for each other instead.
  await sql`alter function maintain_audit_trail set lock_timeout = '1min'`.execute(db)
  for (let round = 0; round < 3; round += 1) {
    await sql`drop table ${sql.table(last)}`.execute(db)
    await addPartition(ago(600))
    const writes = times(60, () => insertAsBefore(new Date()))
    const counts = await Promise.all(times(8, () => maintainAuditTrail(db, 400)))
    expect(counts.reduce((sum, count) => sum + count)).toBe(1)
    await Promise.all(writes)
    expect(await partitions()).toContain(last)
  }
})

test('a database role maintains the trail, but cannot change or shorten it (ASVS 13.2.2)', async () => {
  const open = (url: string) => {
    const connection = connect({ url, poolSize: 1 })
    onTestFinished(() => connection.close())
    return connection.db
  }
  const restricted = open(asRole(service.url, 'gatehouse'))
  await addPartition(ago(700))
  await insertAsBefore(new Date(), { executor: restricted })
  expect(await maintainAuditTrail(restricted, 400)).toBe(1)
  const before = await partitions()
  for (const [statement, error] of [
    [`drop table ${before[0]}`, 'must be owner'],
    ['create table anything ()', 'permission denied'],
    ['select add_audit_partition(now())', 'permission denied'],
    ...['-1', '89', 'null'].map((days) => [`select maintain_audit_trail(${days})`, 'at least 90 days']),
  ] as const)
    await expect(sql.raw(statement).execute(restricted)).rejects.toThrow(error)
  expect(await partitions()).toEqual(before)
  // Only roles that add entries can maintain them.
  const other = `other_${randomBytes(6).toString('hex')}`
  await sql.raw(`create role ${other} login password 'secret'`).execute(db)
  await sql.raw(`grant usage on schema public to ${other}`).execute(db)
  const url = Object.assign(new URL(service.url), { username: other, password: 'secret' }).href
  await expect(maintainAuditTrail(open(url), 400)).rejects.toThrow('permission denied')
})

const folder = new URL('../../migrations/', import.meta.url)
const files = (await readdir(folder)).toSorted()
const { db: before, close } = connect({ url: await createEmptyDatabase(), poolSize: 2 })
whenDone(close)

/** Migrates up to the migration under test. */
const migrateUntil = async (name: string) => {
  while (files[0] && files[0] < name) await migrate()
}
const migrate = async () => {
  const { up } = await import(new URL(files.shift() ?? '', folder).href)
  await before.transaction().execute(up)
}

test('the migration to daily sums counts earlier and concurrent entries once', async () => {
  await migrateUntil('0027')
  const companyId = randomUUID()
  const add = (at: Date, count: number) =>
    sql`insert into audit_events (company_id, audit_id, occurred_at, action, outcome)
      select ${companyId}::uuid, gen_random_uuid(), ${at}, 'sign_in', 'done'
      from generate_series(1, ${count}::int)`.execute(before)
  const refuse = (at: Date) =>
    sql`insert into refused_sign_ins as r (company_id, minute, network, kind, count, last_email, last_at)
      values (${companyId}, ${at}, '192.0.2.1', '', 5, '', ${at})
      on conflict (company_id, minute, network, kind) do update set count = r.count + 5`.execute(before)
  const [old, recent] = [ago(20), ago(1)]
  await add(old, 3)
  await add(recent, 2)
  await refuse(recent)
  await migrate()
  await add(recent, 10)
  await refuse(recent)
  await refuse(old)
  // Two instances run this at the same time.
  await Promise.all([fillAuditDays(before), fillAuditDays(before)])
  await fillAuditDays(before)
  await add(recent, 100)
  const days = await countDaily(before, companyId, { now: new Date(), days: 30 })
  expect(days.filter(({ signIns }) => signIns > 0)).toEqual([
    { date: old.toISOString().slice(0, 10), signIns: 3, refusals: 5, changes: 0 },
    { date: recent.toISOString().slice(0, 10), signIns: 112, refusals: 10, changes: 0 },
  ])
})

test('the migrations to audit indexes leave existing months to the running service', async () => {
  await migrateUntil('0029')
  await insertAsBefore(ago(10), { executor: before })
  for (const _ of ['0029', '0030']) await migrate()
  const stateOfIndexes = async () => {
    const { rows } = await sql`
      select x.indexrelid::regclass::text as name, indisvalid as is_valid,
        (select count(*)::int from pg_inherits where inhparent = x.indexrelid)
          = (select count(*) from pg_inherits where inhparent = 'audit_events'::regclass) as is_whole
      from pg_index x
      where x.indexrelid::regclass::text like 'audit_events_by_%' order by 1`.execute(before)
    return rows
  }
  const kinds = ['action', 'actor', 'actor_and_action', 'feed_position', 'outcome', 'subject']
  const names = kinds.map((columns) => `audit_events_by_${columns}`)
  const all = (are: boolean) => names.map((name) => ({ name, is_valid: are, is_whole: are }))
  expect(await stateOfIndexes()).toEqual(all(false))
  // An index build that was interrupted.
  await sql`create index audit_events_other_by_actor on audit_events_other (audit_id)`.execute(before)
  await sql`update pg_index set indisvalid = false
    where indexrelid = 'audit_events_other_by_actor'::regclass`.execute(before)
  await buildIndexes(before, () => {})
  expect(await stateOfIndexes()).toEqual(all(true))
  await sql`select add_audit_partition('2077-05-01T00:00:00Z')`.execute(before)
  expect(await stateOfIndexes()).toEqual(all(true))
})
