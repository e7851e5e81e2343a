import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import { newEntry } from '../../src/audit/entry.ts'
import { appendAudit } from '../../src/audit/repository.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { settleRestored } from '../../src/operator/platform.ts'
import { settleLapsedAcrossCompanies } from '../../src/sign-in/lapsed.ts'
import { expectProblem } from '../support/problem.ts'
import { openFactorService } from '../support/second-factors.ts'
import { createClock, type Person, times } from '../support/test-service.ts'

/** Collectors poll the audit feed with the password of a service account. Each keeps its own cursor. */

const [clock, behind] = [createClock(), createClock()]
behind.advance(-5 * 60)
const service = await openFactorService({ instances: 2, clocks: [clock, behind] })
const { db } = service

interface Entry {
  id: string
  occurredAt: string
  action: string
  outcome: string
  actor: string | null
  reason?: string
  count?: number
}

interface Query {
  after?: string | null
  limit?: number
}

interface Reader {
  companyId: string
  userId: string
  token: string
}

async function openCompany() {
  const admin = await service.addCompany()
  return { admin, reader: await addReader(admin) }
}

async function addReader(admin: Person, role = 'auditor'): Promise<Reader & { email: string }> {
  const { accessToken } = await service.loginAs(admin)
  const { status, body } = await service.call('/auth/members', {
    token: accessToken,
    json: { name: 'SIEM', role },
  })
  expect(status).toBe(201)
  return { companyId: admin.companyId, userId: body.id, email: body.email, token: body.password }
}

function ask(token: string, query: Query = {}, at = randomInt(2)) {
  const given = Object.entries(query).flatMap(([name, value]) => (value == null ? [] : `${name}=${value}`))
  return service.call(`/auth/audit/feed?${given.join('&')}`, { method: 'GET', token, at })
}

async function readPage({ token }: Pick<Reader, 'token'>, query: Query = {}) {
  const { status, body } = await ask(token, query)
  expect(status).toBe(200)
  return body as { entries: Entry[]; next: string | null; isCaughtUp: boolean }
}

/** Reads until `count` entries have come. Other tests share the cluster, so their transactions can delay the feed. */
async function readOn(reader: Pick<Reader, 'token'>, after: string | null, count: number, limit = 100) {
  const entries: Entry[] = []
  let [next, waits] = [after, 0]
  while (entries.length < count) {
    const page = await readPage(reader, { after: next, limit })
    expect(page.entries.length).toBeLessThanOrEqual(limit)
    entries.push(...page.entries)
    next = page.next
    if (page.entries.length > 0) continue
    waits += 1
    if (waits > 500) throw new Error(`only ${entries.length} of ${count} entries came`)
    await sleep(20)
  }
  return { entries, next }
}

/** The cursor after everything that is stored and complete. */
async function catchUp(reader: Reader): Promise<string | null> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int from audit_events where company_id = ${reader.companyId} and feed_position is not null`.execute(
    db,
  )
  return (await readOn(reader, null, rows[0]?.count ?? 0)).next
}

const append = (companyId: string, at = clock.now(), executor: Parameters<typeof appendAudit>[0] = db) => {
  const entry = newEntry(clock, new Date(at), { action: 'name_change', outcome: 'done', actor: null })
  return appendAudit(executor, companyId, entry).then(() => entry.auditId)
}

/** Makes sums older, because nothing can move the clock of the database. */
async function age({ companyId }: { companyId: string }, minutes: number): Promise<void> {
  for (const table of ['refused_sign_ins', 'service_sign_ins'])
    await sql`update ${sql.table(table)} set minute = minute - make_interval(mins => ${minutes})
      where company_id = ${companyId}`.execute(db)
}

/** The feed has also the sums of minutes before the migration, which was just now. */
await sql`update event_feed set audit_from = audit_from - interval '1 day'`.execute(db)

test('pages of any size return each entry once, oldest first, and again for older cursors', async () => {
  const { admin, reader } = await openCompany()
  const start = await catchUp(reader)
  const ids = []
  for (const n of times(12, (n) => n)) ids.push(await append(admin.companyId, clock.now() - n * 1000))
  const all = await readOn(reader, start, 12)
  expect(all.entries.map(({ id }) => id)).toEqual(ids)
  for (const limit of [1, 5, 1_000]) {
    const { entries, next } = await readOn(reader, start, 12, limit)
    expect(entries).toEqual(all.entries)
    expect(await readPage(reader, { after: next })).toMatchObject({ entries: [], isCaughtUp: true })
  }
})

test('an entry in the feed is the one in the list', async () => {
  const { admin, reader } = await openCompany()
  const start = await catchUp(reader)
  const pass = () => {
    for (const one of [clock, service.clock]) one.advance(1)
  }
  pass()
  const { accessToken: token } = await service.loginAs(admin)
  pass()
  await service.call('/auth/webhook-secret/regenerate', { token })
  const { entries } = await readOn(reader, start, 2)
  const { body } = await service.call('/auth/audit?limit=2', { method: 'GET', token })
  expect(entries).toEqual(body.entries.toReversed())
  expect(entries.map(({ action }) => action)).toEqual(['sign_in', 'signing_secret_regenerate'])
})

test('a company has no cursor until it has an entry', async () => {
  const { reader } = await openCompany()
  await sql`update event_feed set audit_from = now() + interval '1 day'`.execute(db)
  await sql`alter table audit_events disable trigger append_only`.execute(db)
  const partitions = await sql<{ name: string }>`
    select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass`.execute(
    db,
  )
  for (const { name } of partitions.rows)
    await sql`alter table ${sql.table(name)} disable trigger append_only`.execute(db)
  // As if all of its entries were from before the migration.
  await sql`update audit_events set feed_position = null where company_id = ${reader.companyId}`.execute(db)
  for (const { name } of partitions.rows)
    await sql`alter table ${sql.table(name)} enable trigger append_only`.execute(db)
  await sql`alter table audit_events enable trigger append_only`.execute(db)
  expect(await readPage(reader)).toEqual({ entries: [], next: null, isCaughtUp: true })
  await sql`update event_feed set audit_from = now() - interval '1 day'`.execute(db)
  const id = await append(reader.companyId)
  const { entries, next } = await readOn(reader, null, 1)
  expect(entries).toMatchObject([{ id }])
  expect(next).not.toBeNull()
})

test('entries that commit late are not skipped, and none comes twice', async () => {
  const { admin, reader } = await openCompany()
  const other = await service.addCompany()
  const start = await catchUp(reader)
  const committed: string[] = []
  let writing = 8
  const writers = times(8, async () => {
    for (let turn = 0; turn < 12; turn += 1) {
      const keeps = randomInt(4) > 0
      let ids: string[] = []
      const work = db.transaction().execute(async (tx) => {
        // In two months, whose partitions are read one after the other.
        const at = () => clock.now() + randomInt(2) * 31 * 86_400_000
        ids = [await append(admin.companyId, at(), tx)]
        await append(other.companyId, clock.now(), tx)
        await sleep(randomInt(30))
        ids.push(await append(admin.companyId, at(), tx))
        if (!keeps) throw new Error('given up')
      })
      await work.then(
        () => committed.push(...ids),
        () => {},
      )
    }
    writing -= 1
  })
  const seen: string[] = []
  let next = start
  while (writing > 0 || seen.length < committed.length) {
    const page = await readPage(reader, { after: next, limit: randomInt(1, 20) })
    seen.push(...page.entries.map(({ id }) => id))
    next = page.next
  }
  await Promise.all(writers)
  expect(seen.length).toBe(new Set(seen).size)
  expect([...seen].sort()).toEqual([...committed].sort())
})

/** The sums of a company, after those of its reader's sign-ins. */
async function readSums(reader: Reader, count: number) {
  const isSum = (entry: Entry) => entry.count !== undefined
  return await vi.waitFor(
    async () => {
      const sums = (await readPage(reader, { limit: 1_000 })).entries.filter(isSum)
      expect(sums.length).toBe(count)
      return sums
    },
    { timeout: 60_000 },
  )
}

const fail = (person: Person, at: number) =>
  service.login({ ...person, password: 'not the password' }, { at })

test('a sum comes once it can no longer grow', async () => {
  const { admin, reader } = await openCompany()
  await service.loginAs({ ...admin, email: reader.email, password: reader.token })
  await Promise.all([fail(admin, 0), fail(admin, 0)])
  await readSums(reader, 0)
  await age(admin, 3)
  const sums = await readSums(reader, 2)
  expect(sums).toContainEqual(expect.objectContaining({ outcome: 'done', actor: reader.userId, count: 1 }))
  expect(sums).toContainEqual(expect.objectContaining({ outcome: 'refused', count: 2 }))
  const { next } = await readOn(reader, null, 4)
  expect((await readPage(reader, { after: next })).entries).toEqual([])
})

test('an instance whose clock is behind adds to no sum that readers may have', async () => {
  const { admin } = await openCompany()
  // Of a reader just before.
  const { rows: ends } = await sql<{ end: Date }>`select now() - interval '2 minutes' as end`.execute(db)
  await fail(admin, 1)
  const { rows } = await sql<{ isOpen: boolean }>`
    select minute > ${ends[0]?.end} as "isOpen" from refused_sign_ins where company_id = ${admin.companyId}`.execute(
    db,
  )
  expect(rows).toEqual([{ isOpen: true }])
})

test('a sign-in whose second factor never came is in a sum after 17 minutes', async () => {
  const { admin, reader } = await openCompany()
  await service.begin(await service.personWithTotp(admin))
  await settleLapsedAcrossCompanies(service.context, clock.now() + 14 * 60_000)
  await age(admin, 10)
  await readSums(reader, 0)
  await age(admin, 8)
  expect(await readSums(reader, 1)).toMatchObject([{ reason: 'factor_missing', count: 1 }])
})

test('an open transaction that can add to a sum holds it back', async () => {
  const { admin, reader } = await openCompany()
  await fail(admin, 0)
  await age(admin, 3)
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const transaction = db.transaction().execute(async (tx) => {
    await sql`update refused_sign_ins set count = count + 1 where company_id = ${admin.companyId}`.execute(tx)
    begun.resolve()
    await ended.promise
  })
  await begun.promise
  for (const at of [0, 1])
    expect((await ask(reader.token, {}, at)).body.entries.every(({ count }: Entry) => !count)).toBe(true)
  ended.resolve()
  await transaction
  expect(await readSums(reader, 1)).toMatchObject([{ count: 2 }])
})

test('on a new timeline, entries follow all that readers have seen', async () => {
  const { admin, reader } = await openCompany()
  const before = await catchUp(reader)
  // A standby that takes over does not know which numbers its leader issued last.
  await sql`update event_feed set timeline = '00000000', position_offset = position_offset - 1000000`.execute(
    db,
  )
  const ids = await Promise.all(times(20, () => append(admin.companyId)))
  const { entries } = await readOn(reader, before, 20)
  expect(entries.map(({ id }) => id).sort()).toEqual([...ids].sort())
})

test.for<[string, string]>([
  ['text', 'abc'],
  ['a cursor of events', Buffer.from('["a","0","b","c"]').toString('base64url')],
])('%s is not a cursor', async ([, after]) => {
  const { reader } = await openCompany()
  expectProblem(await ask(reader.token, { after }), [400, 'invalid_request'])
})

test('a cursor with positions that do not exist is refused or reads nothing', async () => {
  const { reader } = await openCompany()
  const next = await catchUp(reader)
  const parts: string[] = JSON.parse(Buffer.from(next ?? '', 'base64url').toString())
  for (const index of [2, 4, 6]) {
    const forged = Buffer.from(JSON.stringify(parts.with(index, '999999999999999999'))).toString('base64url')
    expect((await ask(reader.token, { after: forged })).status).toBe(index === 2 ? 200 : 400)
  }
})

test('sums of the first minute come once they are complete', async () => {
  const { admin, reader } = await openCompany()
  await sql`update event_feed set audit_from = date_trunc('minute', now())`.execute(db)
  const { audit_from: first } = await db
    .selectFrom('event_feed')
    .select('audit_from')
    .executeTakeFirstOrThrow()
  await fail(admin, 0)
  const next = await catchUp(reader)
  const [, , , , sums] = JSON.parse(Buffer.from(next ?? '', 'base64url').toString())
  expect(Number(sums)).toBeLessThan(first.getTime())
  await sql`update event_feed set audit_from = now() - interval '1 day'`.execute(db)
})

test("a different company's cursor is refused", async () => {
  const [ours, theirs] = [await openCompany(), await openCompany()]
  const after = await catchUp(theirs.reader)
  expectProblem(await ask(ours.reader.token, { after }), [400, 'invalid_request'])
})

test('a service password is accepted here alone, while it works, and its use is noted', async () => {
  const { admin, reader } = await openCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const lastUse = async () => {
    const { body } = await service.call(`/auth/members/${reader.userId}`, { method: 'GET', token })
    return body.passwords[0].lastUsedAt
  }
  expect(await lastUse()).toBeNull()
  await readPage(reader)
  expect(await lastUse()).toEqual(expect.any(String))
  const elsewhere = await service.call('/auth/audit', { method: 'GET', token: reader.token })
  expectProblem(elsewhere, [401, 'invalid_token'])
  const wrong = `${reader.token.slice(0, -1)}${reader.token.endsWith('A') ? 'B' : 'A'}`
  expectProblem(await ask(wrong), [401, 'invalid_token'])
  await service.call(`/auth/members/${reader.userId}/password`, { token, json: {} })
  expectProblem(await ask(reader.token), [401, 'invalid_token'])
})

test('the service password of a suspended company is refused', async () => {
  const { admin, reader } = await openCompany()
  await changeCompanyStatus(service.context, admin.companyId, 'suspended')
  expectProblem(await ask(reader.token), [401, 'invalid_token'])
})

test('the feed requires the permission, with a password, a token, and a cookie', async () => {
  const { admin, reader } = await openCompany()
  const { token } = await addReader(admin, 'developer')
  expectProblem(await ask(token), [403, 'permission_denied'])
  const viewer = await service.addUser(admin, 'viewer')
  expectProblem(await ask((await service.loginAs(viewer)).accessToken, {}, 0), [403, 'permission_denied'])
  const auditor = await service.addUser(admin, 'auditor')
  expect((await ask((await service.loginAs(auditor)).accessToken, {}, 0)).status).toBe(200)
  const cookie = await service.cookieOf(auditor)
  expect((await service.call('/auth/audit/feed', { method: 'GET', cookie })).status).toBe(200)
  expect((await ask(reader.token)).status).toBe(200)
})

test('after a restore, the feed is unavailable until the operator settles it, then continues', async () => {
  const { admin, reader } = await openCompany()
  const before = await catchUp(reader)
  const sealer = createSealer(service.config.masterKeys, clock.randomBytes)
  for (const place of [{ system_identifier: '1' }, { database_oid: 1 }]) {
    await db.updateTable('event_feed').set(place).execute()
    const { status, headers } = await ask(reader.token, { after: before })
    expect([status, headers['retry-after']]).toEqual([503, expect.any(String)])
    expect((await service.login(admin, { at: 0 })).status).toBe(503)
    await settleRestored({ ...service.context, sealer })
  }
  const id = await append(admin.companyId)
  const { entries } = await readOn(reader, before, 1)
  expect(entries.at(-1)).toMatchObject({ id })
})
