import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { Registry } from 'prom-client'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { createSealer } from '../../src/crypto/sealing.ts'
import { buildOps } from '../../src/http/ops.ts'
import { storeEvents } from '../../src/ingest/repository.ts'
import { changeSubscription } from '../../src/operator/companies.ts'
import { deleteClient, settleRestored } from '../../src/operator/platform.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { createFeed } from '../../src/platform/feed.ts'
import { addClient, addReader, basic } from '../support/platform.ts'
import { expectProblem } from '../support/problem.ts'
import { openTestService, type Person, times } from '../support/test-service.ts'

/** The feed returns ingested events in one order. Each reader keeps its own cursor (section 12 of the interface). */

const service = await openTestService({ instances: 2, env: { EVENT_RETENTION_DAYS: '30' } })
const { db, clock } = service
const admin = await service.addCompany()
const secret = await service.newSecret(admin)
// On a trial, events are counted, so writers would wait for each other.
await changeSubscription(service.context, admin.companyId, { status: 'active' })
const reader = await addReader(service)

interface Query {
  after?: string | null
  limit?: number
  wait?: number
  at?: number
}

const askFeed = ({ at = 0, ...given }: Query = {}) => {
  const query = Object.entries(given).flatMap(([name, value]) => (value == null ? [] : `${name}=${value}`))
  return service.ask(`/events?${query.join('&')}`, { method: 'GET', headers: reader, at })
}

async function readPage(query: Query = {}) {
  const { status, body } = await askFeed(query)
  expect(status).toBe(200)
  return body as {
    events: { companyId: string; id: string; data: unknown }[]
    next: string | null
    isCaughtUp: boolean
  }
}

/** Reads until `count` events have come. Other tests share the cluster, so their transactions can delay the feed. */
async function readOn(after: string | null, count: number, limit = 100) {
  const ids: string[] = []
  let next = after
  while (ids.length < count) {
    const page = await readPage({ after: next, limit, wait: 1 })
    ids.push(...page.events.map(({ id }) => id))
    next = page.next
  }
  return { ids, next }
}

/** The cursor after all stored events. */
async function catchUp(): Promise<string | null> {
  const { rows } = await sql<{ count: number }>`select count(*)::int from events`.execute(db)
  return (await readOn(null, rows[0]?.count ?? 0, 1_000)).next
}

async function send(ids: string[], from: { person: Person; secret: string } = { person: admin, secret }) {
  const events = ids.map((id) => ({ id, type: 'payment.created', data: {} }))
  const { status } = await service.send(from.person.companyId, from.secret, { events })
  expect(status).toBe(202)
}

test('an empty page has no cursor if there is no event', async () => {
  expect(await readPage()).toEqual({ events: [], next: null, isCaughtUp: true })
})

test('events arrive as sent, in the order of acknowledgment (ASVS 1.2.3)', async () => {
  const data = { amount: 12.5, 'a name': ['ü', null, { deep: true }], text: '\u2028"\\' }
  const event = { id: 'first', type: 'payment.created', occurredAt: '2026-11-20T11:15:00.5+01:00', data }
  await service.send(admin.companyId, secret, event)
  await service.send(admin.companyId, secret, { id: 'second', type: 'a.b', data: {} }, { at: 1 })
  await readOn(null, 2)
  const page = await readPage({ at: 1 })
  const receivedAt = new Date(clock.now()).toISOString()
  expect(page.events).toEqual([
    { companyId: admin.companyId, ...event, occurredAt: '2026-11-20T10:15:00.500Z', receivedAt },
    { companyId: admin.companyId, id: 'second', type: 'a.b', occurredAt: null, receivedAt, data: {} },
  ])
  expect(page.isCaughtUp).toBe(true)
})

test('an event keeps the digits of its numbers', async () => {
  const start = await catchUp()
  const data =
    '{"amounts":[99.989999999999995,4094.1111111111115,1.0,9007199254740993,-0,1.50E+2],"ü1.0":"1.0","more":{"a":[1]}}'
  const spaced = data.replaceAll(',', ' , ').replace('"ü', '"\\u00fc')
  await service.send(admin.companyId, secret, `{"id":"digits","type":"a.b","data":${spaced}}`)
  await readOn(start, 1)
  const url = `${service.platformAddresses[0]}/events?after=${start}`
  expect(await (await fetch(url, { headers: reader })).text()).toContain(`"data":${data}}`)
})

test('pages of any size return events once, and again for older cursors', async () => {
  const start = await catchUp()
  const other = await service.addCompany()
  const from = { person: other, secret: await service.newSecret(other) }
  const sent = times(70, (index) => `page-${index}`)
  await Promise.all([send(sent.slice(0, 30)), send(sent.slice(30, 60), from), send(sent.slice(60))])
  const all = await readOn(start, 70)
  expect([...all.ids].sort()).toEqual([...sent].sort())
  for (const limit of [1, 7, 1_000]) {
    let [next, ids, at] = [start, [] as string[], 0]
    while (ids.length < 70) {
      const page = await readPage({ after: next, limit, at })
      expect(page.events.length).toBeLessThanOrEqual(limit)
      ids = [...ids, ...page.events.map(({ id }) => id)]
      next = page.next
      at = 1 - at
    }
    expect(ids).toEqual(all.ids)
    expect(next).toBe(all.next)
  }
})

test('a page has at most 8 MiB and at least one event', async () => {
  const start = await catchUp()
  const ids = times(18, (index) => `large-${index + 10}`)
  await sql`
    insert into events (company_id, event_id, type, received_at, data)
    select ${admin.companyId}, 'large-' || n, 'a.b', now(), json_build_object('text', repeat('x', 500000))
    from generate_series(10, 27) n`.execute(db)
  await readOn(start, 18, 1_000)
  const page = await readPage({ after: start, limit: 1_000 })
  expect(page.events.length).toBe(16)
  expect(page.isCaughtUp).toBe(false)
  const rest = await readPage({ after: page.next, limit: 1_000 })
  expect([...page.events, ...rest.events].map(({ id }) => id)).toEqual(ids)
  expect(rest.isCaughtUp).toBe(true)
})

test('events that commit late are not skipped', async () => {
  const start = await catchUp()
  const { rows } = await sql<{ version: number }>`
    select version from signing_secrets where company_id = ${admin.companyId}`.execute(db)
  const item = { companyId: admin.companyId, secretVersion: rows[0]?.version ?? 0, type: 'a.b' }
  const content = { receivedAt: new Date(clock.now()), data: { text: '{}', spellings: null } }
  const committed: string[] = []
  let writing = 8
  const writers = times(8, async (writer) => {
    for (let turn = 0; turn < 15; turn += 1) {
      const ids = times(randomInt(1, 5), (n) => `late-${writer}-${turn}-${n}`)
      const keeps = randomInt(4) > 0
      const work = db.transaction().execute(async (tx) => {
        const items = ids.map((eventId) => ({ ...item, ...content, eventId, occurredAt: null }))
        await storeEvents(tx, items, { trialLimit: service.config.limits.trialBytes, isListing: false })
        await sleep(randomInt(30))
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
    const page = await readPage({ after: next, limit: randomInt(1, 20), at: randomInt(2) })
    seen.push(...page.events.map(({ id }) => id))
    next = page.next
  }
  await Promise.all(writers)
  expect(seen.length).toBe(new Set(seen).size)
  expect([...seen].sort()).toEqual([...committed].sort())
})

test('events without a position come first, by key, in any collation', async () => {
  const service = await openTestService()
  // This collation mixes upper and lower case, unlike the cursors' collation.
  await sql`alter table events alter event_id type text collate "und-x-icu"`.execute(service.db)
  const reader = await addReader(service)
  const { companyId, ...person } = await service.addCompany()
  const secret = await service.newSecret({ companyId, ...person })
  await sql`
    insert into events (company_id, event_id, type, received_at, data, feed_position)
    select ${companyId}, case when n % 2 = 1 then 'OLD-' else 'old-' end || lpad(n::text, 3, '0'), 'a.b', now(), '{}', 0
    from generate_series(1, 25) n`.execute(service.db)
  const byKey = service.db.selectFrom('events').select('event_id as id').orderBy(sql`event_id collate "C"`)
  const old = await byKey.execute()
  // More keys between old events than a statement reads.
  await sql`
    insert into events (company_id, event_id, type, received_at, data, feed_position)
    select ${companyId}, 'old-010.' || n, 'a.b', now(), '{}', 1 from generate_series(1, 11000) n`.execute(
    service.db,
  )
  for (const id of ['new-1', 'old-005.new']) {
    const { status } = await service.send(companyId, secret, { id, type: 'a.b', data: {} })
    expect(status).toBe(202)
  }
  const ids: string[] = []
  for (let next: string | undefined; ids.length < 11_027; ) {
    const query = new URLSearchParams({ limit: ids.length < 25 ? '4' : '1000', ...(next && { after: next }) })
    const { body } = await service.ask(`/events?${query}`, { method: 'GET', headers: reader })
    ids.push(...body.events.map(({ id }: { id: string }) => id))
    next = body.next
  }
  expect(ids.slice(0, 25)).toEqual(old.map(({ id }) => id))
  expect(ids.slice(-2)).toEqual(['new-1', 'old-005.new'])
  expect([ids.length, new Set(ids).size]).toEqual([11_027, 11_027])
})

test('a year outside RFC 3339 is returned as the nearest valid one', async () => {
  const start = await catchUp()
  const times = ['9999-12-31T23:59:59-01:00', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59.9999999Z']
  const events = times.map((occurredAt, n) => ({ id: `edge-${n}`, type: 'a.b', occurredAt, data: {} }))
  expect((await service.send(admin.companyId, secret, { events })).status).toBe(202)
  const { body } = await askFeed({ after: start, limit: 3, wait: 25 })
  const [late, early] = ['9999-12-31T23:59:59.999Z', '0001-01-01T00:00:00.000Z']
  expect(body.events.map(({ occurredAt }: { occurredAt: string }) => occurredAt)).toEqual([late, early, late])
})

/** The feed looks for new events only while a reader waits. */
async function untilWaiting() {
  const query = vi.spyOn(pg.Client.prototype, 'query')
  const texts = () => query.mock.calls.map(([one]) => String(Object(one).text))
  await expect.poll(texts).toContainEqual(expect.stringContaining('max("feed_position")'))
  query.mockRestore()
}

test('with wait, an empty page waits until the first event is committed', async () => {
  const page = readPage({ after: await catchUp(), wait: 25 })
  await untilWaiting()
  await send(['awaited'])
  expect((await page).events.map(({ id }) => id)).toEqual(['awaited'])
})

test('100 readers can wait, and others get their empty page immediately', async () => {
  const start = await catchUp()
  let waiting = 130
  const pages = times(130, () => readPage({ after: start, wait: 25 }).finally(() => (waiting -= 1)))
  await expect.poll(() => waiting, { timeout: 20_000 }).toBe(100)
  await send(['for-all'])
  const counts = (await Promise.all(pages)).map(({ events }) => events.length)
  expect(counts.filter((count) => count === 1)).toHaveLength(100)
})

test('a client that is deleted while it waits gets nothing more', async () => {
  const after = await catchUp()
  const other = await addClient(service, ['events:read'])
  const headers = { authorization: basic(other) }
  const waiting = service.ask(`/events?wait=25&after=${after}`, { method: 'GET', headers })
  await untilWaiting()
  await deleteClient(service.context, other.id)
  clock.advance(2)
  await send(['too-late'])
  expectProblem(await waiting, [401, 'invalid_client'])
  // It gets no empty page either.
  const confirm = () => Promise.reject(new Error('deleted'))
  const { signal } = new AbortController()
  const asked = { after: (await catchUp()) ?? undefined, limit: 1, waitSeconds: 0.001, signal, confirm }
  await expect(createFeed({ db }).read(asked)).rejects.toThrow('deleted')
})

test('a cursor of the longest event ID leads to the next page', async () => {
  const start = await catchUp()
  const ids = ['a', 'b'].map((end) => 'i'.repeat(159) + end)
  await send(ids)
  expect((await readOn(start, 2, 1)).ids).toEqual(ids)
})

const INVALID = ['after=', 'limit=0', 'limit=1001', 'limit=x', 'wait=26', 'after=a&after=b', 'from=x']
const cursor = (...parts: string[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')

test.each([
  ['a cursor of a different deployment', `after=${cursor(randomUUID(), '1', randomUUID(), 'a')}`],
  ['a cursor of a different form', 'after=bm90IGEgY3Vyc29y'],
  ['a cursor of too large a number', `after=${cursor(randomUUID(), '9'.repeat(30), randomUUID(), 'a')}`],
  ...INVALID.map((query) => [query, query]),
])('a page with %s is refused (ASVS 2.2.1)', async (_, query) => {
  const refused = await service.ask(`/events?${query}`, { method: 'GET', headers: reader })
  expectProblem(refused, [400, 'invalid_request'])
})

describe('retention (ASVS 14.2.7)', () => {
  beforeEach(() => sql`delete from events`.execute(db).then(() => {}))
  const prune = () => pruneAcrossCompanies(service.context, clock.now())

  test('readers of deleted events get a new cursor, and IDs are freed', async () => {
    const start = await catchUp()
    await send(['a-1', 'a-2'])
    const early = await readOn(start, 1, 1)
    clock.advance(20 * 86_400)
    await send(['b-1'])
    clock.advance(11 * 86_400)
    expect(await prune()).toMatchObject({ events: 2 })
    const { status, body } = await askFeed({ after: early.next })
    expect([status, body.code, body.oldest]).toEqual([410, 'cursor_expired', expect.any(String)])
    expect((await readOn(body.oldest, 1)).ids).toEqual(['b-1'])
    expect((await readOn(null, 1)).ids).toEqual(['b-1'])
    await send(['a-1'])
    expect((await readOn(body.oldest, 2)).ids).toEqual(['b-1', 'a-1'])
  })

  test('a reader who has seen all deleted events continues', async () => {
    await send(['c-1', 'c-2'])
    const { next } = await readOn(null, 2)
    clock.advance(31 * 86_400)
    expect(await prune()).toMatchObject({ events: 2 })
    expect(await readPage({ after: next })).toEqual({ events: [], next, isCaughtUp: true })
    expect(await readPage()).toEqual({ events: [], next, isCaughtUp: true })
  })

  test('retention deletes no event that comes after a newer one', async () => {
    await send(['d-1'])
    clock.advance(-86_400)
    await send(['d-2'])
    clock.advance(30 * 86_400 + 3_600)
    expect(await prune()).toMatchObject({ events: 0 })
    clock.advance(86_400)
    expect(await prune()).toMatchObject({ events: 2 })
  })
})

test('on a new timeline, positions continue after all that readers have seen', async () => {
  await send(['before'])
  const before = await catchUp()
  // A standby that takes over does not know which numbers its leader issued last.
  await sql`update event_feed set timeline = '00000000', position_offset = position_offset - 1000000`.execute(
    db,
  )
  await Promise.all(times(20, (n) => send([`after-${n}`])))
  const { ids } = await readOn(before, 20)
  expect(ids.sort()).toEqual(times(20, (n) => `after-${n}`).sort())
})

test('after a restore, nothing is served until the operator settles it', async () => {
  const [connection] = service.connections
  if (!connection) throw new Error('a service has an instance')
  const ops = buildOps({ connection, registry: new Registry(), metrics: async () => '' })
  ops.serve(() => true)
  const probe = () => ops.inject('/readyz')
  const sealer = createSealer(service.config.masterKeys, clock.randomBytes)
  expect((await probe()).statusCode).toBe(200)
  // Within one cluster, a template copy is a new database, and a restored dump has new tables.
  for (const place of [{ system_identifier: '1' }, { database_oid: 1 }, { table_oid: 1 }]) {
    await db.updateTable('event_feed').set(place).execute()
    const { statusCode, body } = await probe()
    expect([statusCode, body]).toEqual([503, expect.stringContaining('restored')])
    const event = { id: 'lost', type: 'a.b', data: {} }
    for (const { status, headers } of [await service.send(admin.companyId, secret, event), await askFeed()])
      expect([status, headers['retry-after']]).toEqual([503, expect.any(String)])
    await settleRestored({ ...service.context, sealer })
    // Tables rewritten in place stay settled.
    await sql`vacuum full event_feed`.execute(db)
    expect((await probe()).statusCode).toBe(200)
    expect((await askFeed()).status).toBe(200)
    await send([`settled-${Object.keys(place)}`])
  }
})
