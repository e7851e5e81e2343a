import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { countDaily } from '../../src/audit/repository.ts'
import { selectAudit } from '../support/audit.ts'
import { expectProblem } from '../support/problem.ts'
import { releaseTogether } from '../support/races.ts'
import { countWaiting, openTestService, times, useSharedService } from '../support/test-service.ts'

/** What a company sent a moment ago, shown to its members while they watch. */

const { service } = await useSharedService()
const { db, clock } = service

async function openWatched(role = 'developer', at = service) {
  const admin = await at.addCompany()
  const secret = await at.newSecret(admin)
  const cookie = await at.cookieOf(await at.addUser(admin, role))
  const { companyId } = admin
  return {
    admin,
    companyId,
    cookie,
    watch: (query = '', instance = 0) =>
      at.call(`/auth/events${query}`, { method: 'GET', cookie, at: instance }),
    send: (payload: unknown, options: Parameters<typeof at.send>[3] = {}) =>
      at.send(companyId, secret, payload, options),
  }
}

const event = (id: string, data: object = {}) => ({ id, type: 'a.b', data })
const idsOf = ({ body }: { body: { events: { id: string }[] } }) => body.events.map(({ id }) => id)

/** While requests for watched events wait. */
async function whileListLocked<Result>(at: typeof service, act: () => Promise<Result>): Promise<Result> {
  return await at.db.transaction().execute(async (tx) => {
    await sql`lock table watched_events in access exclusive mode`.execute(tx)
    return await act()
  })
}

const untilWaiting = (at: typeof service, count: number) =>
  expect.poll(() => countWaiting(at.db), { timeout: 50_000 }).toBe(count)

async function listStarts({ companyId }: { companyId: string }) {
  const entries = selectAudit(db).select(['actor', 'outcome']).where('action', '=', 'events_watch')
  return await entries.where('company_id', '=', companyId).execute()
}

async function countListed({ companyId }: { companyId: string }) {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int from watched_events where company_id = ${companyId}`.execute(db)
  return rows[0]?.count
}

test('concurrent first requests start one watch and write one audit entry (ASVS 15.4.2)', async () => {
  const { admin, watch } = await openWatched()
  const acts = times(4, (index) => () => watch('', index % 2))
  const answers = await releaseTogether(db, { table: 'subscriptions', companyId: admin.companyId }, acts)
  const since = new Set(answers.map(({ status, body }) => `${status} ${body.watchedSince}`))
  expect(since).toEqual(new Set([`200 ${new Date(clock.now()).toISOString()}`]))
  expect(await listStarts(admin)).toHaveLength(1)
})

test('the start of a watch does not count as a change', async () => {
  const { companyId, watch } = await openWatched()
  const count = () => countDaily(db, companyId, { now: new Date(clock.now()), days: 2 })
  const before = await count()
  await watch()
  expect(await count()).toEqual(before)
})

test('events are shown newest first, from every instance, and duplicates only once', async () => {
  const { watch, send } = await openWatched()
  await send(event('before'))
  expect((await watch()).body).toEqual({ events: [], watchedSince: new Date(clock.now()).toISOString() })
  await send({ ...event('one', { amount: 5 }), occurredAt: '2026-03-01T10:00:00+02:00' })
  await send({ events: [event('two'), event('before'), event('three')] }, { at: 1 })
  const conflicting = { events: [event('four'), event('two', { amount: 5 })] }
  expect((await send(conflicting)).status).toBe(409)
  await send(event('two'))
  const answer = await watch('', 1)
  expect(idsOf(answer)).toEqual(['three', 'two', 'one'])
  expect(answer.body.events[2]).toEqual({
    id: 'one',
    type: 'a.b',
    occurredAt: '2026-03-01T08:00:00.000Z',
    receivedAt: new Date(clock.now()).toISOString(),
    data: { amount: 5 },
    isTruncated: false,
  })
  expect(answer.body.events[0]).toMatchObject({ id: 'three', occurredAt: null })
  expect(idsOf(await watch('?limit=1'))).toEqual(['three'])
})

test('an event that several requests send at the same time is listed once', async () => {
  const { watch, send } = await openWatched()
  await watch()
  for (const id of ['one', 'two', 'three']) {
    const batch = { events: [event(id), event(`${id}-too`)] }
    await Promise.all(times(8, (index) => send(index < 4 ? event(id) : batch, { at: index % 2 })))
  }
  expect(idsOf(await watch()).toSorted()).toEqual(['one', 'one-too', 'three', 'three-too', 'two', 'two-too'])
})

test('data keep the digits that were sent, and are left out above 8 KiB', async () => {
  const { cookie, watch, send } = await openWatched()
  await watch()
  const largest = { text: 'x'.repeat(8_192 - '{"text":""}'.length) }
  await send(event('largest', largest))
  await send({ events: [event('larger', { text: `${largest.text}x` })] })
  // Short as a number, but long as sent.
  const zeros = `[${times(60, () => `1.${'0'.repeat(200)}`)}]`
  await send(`{"id":"zeros","type":"a.b","data":{"n":${zeros}}}`)
  await send('{"id":"digits","type":"a.b","data":{ "n": [1.0, 99.989999999999995] }}')
  const { body } = await watch()
  expect(body.events.map(({ id, isTruncated }: Record<string, unknown>) => [id, isTruncated])).toEqual([
    ['digits', false],
    ['zeros', true],
    ['larger', true],
    ['largest', false],
  ])
  expect(body.events.map((each: object) => 'data' in each)).toEqual([true, false, false, true])
  const response = await fetch(`${service.addresses[0]}/api/auth/events?limit=1`, {
    headers: { cookie: `__Host-session=${cookie}` },
  })
  expect(await response.text()).toContain('"data":{"n":[1.0,99.989999999999995]}')
})

test('the latest 50 events of a company are kept, whatever the size of its requests', async () => {
  const { admin, watch, send } = await openWatched()
  await watch()
  const ids = times(120, (index) => `e${index}`)
  await send({ events: ids.map((id) => event(id)) })
  expect(await countListed(admin)).toBe(50)
  expect(idsOf(await watch('?limit=50'))).toEqual(ids.slice(-50).reverse())
  expect(idsOf(await watch())).toEqual(ids.slice(-20).reverse())
  await send({ events: [event('last'), event('e0')] })
  expect(await countListed(admin)).toBe(50)
  await Promise.all(times(60, (index) => send(event(`single-${index}`), { at: index % 2 })))
  await send(event('end'))
  expect(await countListed(admin)).toBe(50)
  expect(idsOf(await watch('?limit=50'))).toEqual([
    'end',
    ...times(49, () => expect.stringMatching(/^single/)),
  ])
})

test('a watch ends 15 to 16 minutes after its last request, and nothing is listed without one', async () => {
  const { admin, watch, send } = await openWatched()
  await send(event('unwatched'))
  expect(await countListed(admin)).toBe(0)
  const start = async () => (await watch()).body.watchedSince
  const first = await start()
  await send(event('first'))
  clock.advance(899)
  expect(await start()).toBe(first)
  clock.advance(2)
  // Older than 15 minutes.
  const { body } = await watch()
  expect(body).toEqual({ events: [], watchedSince: first })
  clock.advance(899)
  await send(event('second'))
  expect(await countListed(admin)).toBe(2)
  clock.advance(61)
  await send(event('too-late'))
  expect(await countListed(admin)).toBe(2)
  const next = await watch()
  expect(next.body).toEqual({ events: [], watchedSince: new Date(clock.now()).toISOString() })
  expect(await countListed(admin)).toBe(0)
  expect(await listStarts(admin)).toHaveLength(2)
})

test('looks of a minute write at most once', async () => {
  const { companyId, watch } = await openWatched()
  const look = async () => {
    await watch()
    const { rows } = await sql`select ctid from subscriptions where company_id = ${companyId}`.execute(db)
    return rows
  }
  const first = await look()
  clock.advance(60)
  expect(await look()).toEqual(first)
  clock.advance(1)
  expect(await look()).not.toEqual(first)
})

test('an event of an instance whose clock is behind is shown', async () => {
  const { companyId, watch, send } = await openWatched()
  await watch()
  await send(event('late'))
  await sql`update watched_events set received_at = received_at - interval '1 minute'
    where company_id = ${companyId}`.execute(db)
  expect(idsOf(await watch())).toEqual(['late'])
})

test('events of a watched company do not delay events of others', async () => {
  const [one, other] = [await openWatched(), await openWatched()]
  await one.watch()
  const watched = await whileListLocked(service, async () => {
    const waiting = []
    for (const count of [1, 2]) {
      waiting.push(one.send(event(`e${count}`)))
      await untilWaiting(service, count)
    }
    expect((await other.send(event('other'))).status).toBe(202)
    return waiting
  })
  expect((await Promise.all(watched)).map(({ status }) => status)).toEqual([202, 202])
})

test('two looks of a company run, eight wait, and more get 429 (ASVS 15.2.2)', async () => {
  const service = await openTestService({ env: { RATE_LIMIT_SCALE: '1', LIMIT_AUDIT_READS: '2/60' } })
  const [one, other] = [await openWatched('admin', service), await openWatched('admin', service)]
  const looks = await whileListLocked(service, async () => {
    const looks = times(11, () => one.watch())
    expectProblem(await Promise.race(looks), [429, 'rate_limited'])
    await untilWaiting(service, 2)
    looks.push(other.watch())
    await untilWaiting(service, 3)
    return looks
  })
  const statuses = (await Promise.all(looks)).map(({ status }) => status)
  expect(statuses.toSorted()).toEqual([...times(11, () => 200), 429])
})

test('a company sees only its own events, and starts only its own watch (ASVS 8.4.1)', async () => {
  const [one, other] = [await openWatched(), await openWatched()]
  await one.watch()
  await Promise.all([one.send(event('mine')), other.send(event('theirs'))])
  expect(idsOf(await one.watch())).toEqual(['mine'])
  expect(await countListed(other)).toBe(0)
  expect(idsOf(await other.watch())).toEqual([])
})

test.for([
  ['admin', 200],
  ['developer', 200],
  ['analyst', 403],
  ['viewer', 403],
] as const)('a session with role %s gets %i (ASVS 8.2.1)', async ([role, status]) => {
  const { admin, watch } = await openWatched(role)
  const refused = { status, body: { code: 'permission_denied' } }
  expect(await watch()).toMatchObject(status === 403 ? refused : { status })
  const member = await service.addUser(admin, role)
  const { accessToken: token } = await service.loginAs(member)
  expect((await service.call('/auth/events', { method: 'GET', token })).status).toBe(status)
  expect(await listStarts(admin)).toHaveLength(status === 200 ? 1 : 0)
})

test('a member who must enroll a second factor sees no events', async () => {
  const { admin, watch } = await openWatched()
  const policy = { second_factor_policy: 'everyone' } as const
  await db.updateTable('companies').set(policy).where('company_id', '=', admin.companyId).execute()
  const refused = { status: 403, body: { code: 'second_factor_enrolment_required' } }
  expect(await watch()).toMatchObject(refused)
})

test.for(['?limit=0', '?limit=51', '?limit=', '?after=x'])('the query %s is refused', async (query) => {
  const { watch } = await openWatched()
  expect(await watch(query)).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
})
