import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import { countWaiting, openTestService, times, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()

/** A new company. `store` stores an event as a previous release does. */
async function openSender({ addCompany, newSecret, send, db } = service) {
  const person = await addCompany()
  const { companyId } = person
  const key = await newSecret(person)
  const stored = (from = db) =>
    from
      .selectFrom('events')
      .select(['event_id', 'type', 'occurred_at', 'data'])
      .where('company_id', '=', companyId)
      .orderBy(sql`event_id collate "C"`)
      .execute()
  const store = (id: string, data: string, into = db) =>
    sql`insert into events (company_id, event_id, type, received_at, data)
      values (${companyId}, ${id}, 'a.b', now(), ${data})`.execute(into)
  return {
    companyId,
    send: (payload: unknown, options: Parameters<typeof send>[3] = {}) =>
      send(companyId, key, payload, options),
    stored,
    store,
  }
}

const { send: post } = await openSender()
/** Must never have a stored event. */
const refused = await openSender()

let count = 0
/** An ID that no other test uses. */
const newId = () => `event-${++count}`

const accepted = (accepted: number, duplicates = 0) => ({ status: 202, body: { accepted, duplicates } })
const invalid = { status: 400, body: { code: 'invalid_request' } }
const conflict = { status: 409, body: { code: 'event_id_conflict' } }
const event = (id?: string, data: object = {}) => ({ ...(id && { id }), type: 'a.b', data })

test('an event is stored as sent, and readable once acknowledged (ASVS 2.3.3)', async () => {
  const { send, stored } = await openSender()
  const elsewhere = connect({ url: service.url, poolSize: 1 })
  const payment = { type: 'payment.created', occurredAt: '2026-03-01T10:00:00+02:00', data: { amount: 5 } }
  const row = { type: 'payment.created', occurred_at: new Date('2026-03-01T08:00:00Z'), data: { amount: 5 } }
  expect(await send(payment, { id: 'msg_1' })).toMatchObject(accepted(1))
  expect(await stored(elsewhere.db)).toEqual([{ event_id: 'msg_1', ...row }])
  const ping = { type: 'ping', data: {} }
  const events = [{ ...payment, id: 'own.id' }, ping]
  expect(await send({ events }, { id: 'msg_2', at: 1 })).toMatchObject(accepted(2))
  expect(await stored(elsewhere.db)).toEqual([
    { event_id: 'msg_1', ...row },
    { event_id: 'msg_2.1', occurred_at: null, ...ping },
    { event_id: 'own.id', ...row },
  ])
  await elsewhere.close()
})

test('an event without an ID gets webhook-id, and in batches its index', async () => {
  const { send, stored } = await openSender()
  const id = 'x'.repeat(128)
  const unnamed = { ...event(), id: null, occurredAt: null }
  expect(await send({ events: [event(), event('own'), unnamed] }, { id })).toMatchObject(accepted(3))
  const ids = (await stored()).map(({ event_id }) => event_id)
  expect(ids).toEqual(['own', `${id}.0`, `${id}.2`])
  expect(await send({ events: ids.map((id) => event(id)) })).toMatchObject(accepted(0, 3))
  expect(await send({ events: [event(`${id}.0`), event()] }, { id })).toMatchObject(accepted(1, 1))
  expect(await send(unnamed, { id })).toMatchObject(accepted(1))
  expect(await send(event(id))).toMatchObject(accepted(0, 1))
})

test('the data of an event keeps unicode, escapes, nesting, and numbers (ASVS 1.2.3)', async () => {
  const { send, stored } = await openSender()
  const data = {
    text: 'Grüße 世界 🌍 \u202e\ufeff \\ " / \b\f\n\r\t \u0001 \u007f {}, NULL \'; drop table events; --',
    numbers: [0, -1, 0.1, 1e-7, 5e-324, 1.5e10, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
    'a.b': { '': null, ' ': [true, false, [], {}], $ref: 'x', toString: 1, hasOwnProperty: 2 },
    deep: times(24, String).reduce<object>((inner) => ({ inner }), {}),
  }
  const plain = JSON.stringify({ type: 'a', data })
  const escaped = plain.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  for (const [id, body] of Object.entries({ plain, escaped })) {
    expect(await send(body, { id })).toMatchObject(accepted(1))
    expect(await send(body, { id, at: 1 })).toMatchObject(accepted(0, 1))
  }
  expect((await stored()).map((row) => row.data)).toEqual([data, data])
})

test('an event ID can have 160 characters, and a type 128', async () => {
  const payload = { id: 'aZ0_-.'.padEnd(160, 'x'), type: `${'a_1.'.repeat(31)}abcd`, data: {} }
  expect(await post(payload)).toMatchObject(accepted(1))
  expect(await post({ events: [payload] })).toMatchObject(accepted(0, 1))
})

test.each<[name: string, bad: object]>([
  ['an ID of 161 characters', { id: 'x'.repeat(161) }],
  ['an ID with a line end', { id: 'a\n' }],
  ['a type of 129 characters', { type: 'a'.repeat(129) }],
  ['a type with an empty word', { type: 'a..b' }],
  ['a type that ends with a dot', { type: 'a.' }],
  ['an unknown field with data', { more: { data: {} } }],
])('an event with %s is refused, and its batch (ASVS 2.2.1)', async (_name, bad) => {
  expect(await refused.send({ ...event('x'), ...bad })).toMatchObject(invalid)
  const events = [event('good'), { ...event('x'), ...bad }, event('fine')]
  expect(await refused.send({ events })).toMatchObject(invalid)
  expect(await refused.stored()).toEqual([])
})

test('a batch can have 500 events, but not 501', async () => {
  const { send, stored } = await openSender()
  const events = times(500, (index) => event(`${index}`, { index }))
  expect(await send({ events: [...events, event()] })).toMatchObject(invalid)
  expect(await send({ events })).toMatchObject(accepted(500))
  expect(await send({ events }, { at: 1 })).toMatchObject(accepted(0, 500))
  expect(await stored()).toHaveLength(500)
})

test('an event of 512 KiB is stored, whatever its text and names (ASVS 2.4.1)', async () => {
  const filled = (text: string) => {
    const [before, after] = ['{"type":"a","data":{"text":"', '"}}']
    const room = 512 * 1024 - before.length - after.length
    return `${before}${text.repeat(Math.floor(room / text.length)).padEnd(room, 'x')}${after}`
  }
  const many = { type: 'a', data: Object.fromEntries(times(30_000, (index) => [`k${index}`, index])) }
  for (const payload of [filled('x'), filled('\\\\'), filled('\\"'), many])
    expect(await post(payload)).toMatchObject(accepted(1))
})

/** The times in a row are the same instant. */
test.each([
  [['2026-03-01T10:00:00Z', '2026-03-01t10:00:00z', '2026-03-01T12:00:00+02:00']],
  [['2026-03-01T10:00:00.5Z', '2026-03-01T10:00:00.500000Z', '2026-02-28T23:30:00.5-10:30']],
  [['2026-03-01T10:00:00.000001Z', '2026-03-01T10:00:00.0000010Z']],
  [['2016-12-31T23:59:60Z', '2017-01-01T00:00:00Z', '2016-12-31T15:59:60-08:00']],
  [['0001-01-01T00:00:00+14:00', '0001-01-01T01:59:00+15:59']],
])('occurredAt is one instant in each spelling: %j (RFC 3339)', async (spellings) => {
  const id = newId()
  const written = spellings.map((occurredAt) => ({ id, type: 'a', occurredAt, data: {} }))
  for (const [index, payload] of written.entries()) {
    expect(await post(payload)).toMatchObject(index === 0 ? accepted(1) : accepted(0, 1))
  }
  // The same holds in one request.
  const fresh = written.map((payload) => ({ ...payload, id: `${id}-once` }))
  expect(await post({ events: fresh })).toMatchObject(accepted(1, spellings.length - 1))
})

test.each([
  ['2026-03-01T10:00:00Z', '2026-03-01T10:00:00+01:00'],
  ['2026-03-01T10:00:00.000001Z', '2026-03-01T10:00:00.000002Z'],
  ['2026-03-01T10:00:00Z', undefined],
])('a different occurredAt conflicts: %s and %s', async (one, other) => {
  const id = newId()
  const [first, second] = [one, other].map((occurredAt) => ({ id, type: 'a', occurredAt, data: {} }))
  expect(await post({ events: [first, second] })).toMatchObject(conflict)
  expect(await post(first)).toMatchObject(accepted(1))
  expect(await post(second)).toMatchObject(conflict)
})

const noTimes =
  'infinity 2026-03-01 2026-03-01T10:00:00 2026-03-01\u00a010:00:00Z 2026-03-01T10:00:00+0200 ' +
  '2026-03-01T10:00:00+16:00 2026-03-01T10:00:00+02:60 2026-03-01T10:00:00.Z 2026-03-01T10:00:60Z ' +
  '2026-03-01T23:59:60.5Z 2026-03-01T24:00:00Z 2026-02-29T10:00:00Z 0000-01-01T00:00:00Z ' +
  `10000-01-01T00:00:00Z 2026-03-01T10:00:00.${'0'.repeat(60)}Z`
test.each(noTimes.split(' '))('occurredAt is refused as %j (RFC 3339, ASVS 2.2.1)', async (occurredAt) => {
  expect(await refused.send({ events: [event(), { ...event(), occurredAt }] })).toMatchObject(invalid)
  expect(await refused.stored()).toEqual([])
})

test('occurredAt at the limits of the calendar is stored or refused (ASVS 16.5.3)', async () => {
  const clocks = ['00:00:00', '23:59:59.9999999999', '23:59:60', '23:59:60.999999']
  const zones = ['Z', '-00:00', '+15:59', '-15:59', '+16:00']
  const all = ['0001-01-01', '1900-02-28', '9999-12-31'].flatMap((date) =>
    clocks.flatMap((clock) => zones.map((zone) => `${date}T${clock}${zone}`)),
  )
  const answers = await Promise.all(all.map((occurredAt) => post({ ...event(newId()), occurredAt })))
  expect([...new Set(answers.map(({ status }) => status))].toSorted()).toEqual([202, 400])
})

test('an equal event is counted as a duplicate, and changes nothing', async () => {
  const { send, stored } = await openSender()
  const payload = { ...event('once', { b: 1, a: [1, 2] }), occurredAt: '2026-01-01T00:00:00Z' }
  expect(await send(payload, { id: 'first' })).toMatchObject(accepted(1))
  const before = await stored()
  expect(await send(payload, { id: 'second', at: 1 })).toMatchObject(accepted(0, 1))
  const events = [payload, event('new'), event('new'), payload, event('new')]
  expect(await send({ events })).toMatchObject(accepted(1, 4))
  expect(await send({ events })).toMatchObject(accepted(0, 5))
  const [added, ...others] = await stored()
  expect([added?.event_id, others]).toEqual(['new', before])
})

test.each([
  [
    'white space, order, and escapes',
    '{"id":"ID","type":"a","data":{"a":["é/"],"b":{"c":2,"d":3},"2":{}}}',
    '{ "data":{"2":{}, "b":{"d":3,"c":2},"a":[ "\\u00e9\\/" ]},\n"type":"\\u0061","id":"ID"}',
  ],
  [
    'how a number is written',
    '{"id":"ID","type":"a","data":{"a":100,"b":0.5,"c":0e-20000,"d":1,"e":9007199254740993}}',
    '{"id":"ID","type":"a","data":{"a":1.00e2,"b":5E-1,"c":-0,"d":1.0,"e":9007199254740993.0}}',
  ],
])('an event that differs only in %s is a duplicate', async (_name, one, other) => {
  const id = newId()
  const [first, second] = [one.replace('ID', id), other.replace('ID', id)]
  expect(await post(first)).toMatchObject(accepted(1))
  expect(await post(second)).toMatchObject(accepted(0, 1))
  const [third, fourth] = [first, second].map((text) => text.replace(id, `${id}-once`))
  expect(await post(`{"events":[${third},${fourth}]}`)).toMatchObject(accepted(1, 1))
})

test.each([
  ['its type', '"type":"a","data":{}', '"type":"b","data":{}'],
  ['a value', '"type":"a","data":{"a":1}', '"type":"a","data":{"a":2}'],
  ['the order of a list', '"type":"a","data":{"a":[1,2]}', '"type":"a","data":{"a":[2,1]}'],
  ['types of values', '"type":"a","data":{"a":1,"b":"1"}', '"type":"a","data":{"b":1,"a":"1"}'],
  ['a name with null', '"type":"a","data":{"a":null}', '"type":"a","data":{}'],
  ['a large number', '"type":"a","data":{"a":9007199254740993}', '"type":"a","data":{"a":9007199254740992}'],
  ['its digits', '"type":"a","data":{"a":99.989999999999995}', '"type":"a","data":{"a":99.989999999999994}'],
])('an event that differs in %s conflicts, and nothing is stored', async (_name, one, other) => {
  const { send, stored } = await openSender()
  const of = (id: string, content: string) => `{"id":"${id}",${content}}`
  const batch = (...events: string[]) => send(`{"events":[${events.join()}]}`)
  expect(await send(of('taken', one))).toMatchObject(accepted(1))
  const before = await stored()
  for (const [id, answer] of [
    ['taken', await send(of('taken', other))],
    ['taken', await batch(of('new-1', one), of('taken', other), of('new-2', one))],
    ['twice', await batch(of('twice', one), of('new-3', one), of('twice', other))],
  ] as const) {
    expect(answer).toMatchObject(conflict)
    expect(answer.body.detail).toMatch(new RegExp(`\\b${id}\\b`))
    expect(answer.body.detail).not.toContain('new-')
  }
  expect(await stored()).toEqual(before)
})

test('an event from a previous release is a duplicate of equal values', async () => {
  const { send, stored, store } = await openSender()
  await store('former', '{"a":1,"b":[0,100,"é"]}')
  const sent = '{"id":"former","type":"a.b","data":{"b":[-0,1.00e2,"\\u00e9"],"a":1.0}}'
  expect(await send(sent)).toMatchObject(accepted(0, 1))
  expect(await send(`{"events":[${sent}]}`)).toMatchObject(accepted(0, 1))
  // A previous release compares with `data` what it would store, without `spellings`.
  expect(await send(sent.replace('former', 'later'))).toMatchObject(accepted(1))
  expect((await stored())[1]?.data).toEqual({ a: 1, b: [0, 100, 'é'] })
})

test('data of a different length conflicts before Postgres parses it', async () => {
  const { send, store } = await openSender()
  // Postgres stores this text as json, but cannot parse it.
  const texts = { larger: `{"a":"\\u0000${'x'.repeat(10_000)}"}`, smaller: '"\\u0000"' }
  for (const [id, text] of Object.entries(texts)) {
    await store(id, text)
    const sent = event(id, { a: 'of another length' })
    expect(await send(sent)).toMatchObject(conflict)
    expect(await send({ events: [sent, event('new')] })).toMatchObject(conflict)
  }
})

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

test('an event sent 50 times concurrently is stored once (ASVS 2.3.4, 15.4.2)', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { send, stored } = await openSender()
    const answers = await Promise.all(times(50, (index) => send(event('same'), { at: index % 2 })))
    expect(answers.map(({ status }) => status)).toEqual(times(50, () => 202))
    expect(sum(answers.map(({ body }) => body.accepted))).toBe(1)
    expect(sum(answers.map(({ body }) => body.duplicates))).toBe(49)
    expect(await stored()).toHaveLength(1)
  }
})

test('only one of 50 concurrent contents for an event ID is stored', async () => {
  const { send, stored } = await openSender()
  const answers = await Promise.all(
    times(50, (index) => {
      const mine = event('contested', { index })
      return send(index % 3 ? mine : { events: [event(`beside-${index}`), mine] }, { at: index % 2 })
    }),
  )
  const winners = answers.flatMap(({ status }, index) => (status === 202 ? [index] : []))
  expect(winners).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(49)
  const rows = await stored()
  expect(rows.find(({ event_id }) => event_id === 'contested')?.data).toEqual({ index: winners[0] })
  expect(rows).toHaveLength(winners.some((index) => index % 3 === 0) ? 2 : 1)
})

test('overlapping batches in opposite orders store each event once, without deadlock (ASVS 15.4.3)', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { send, stored } = await openSender()
    const events = times(60, (index) => event(`${index}`))
    const batches = [
      ...times(12, (index) => (index % 2 ? events : events.toReversed())),
      ...times(20, (index) => times(10, (offset) => event(`${(index * 6 + offset) % 60}`))),
    ]
    const [batched, single] = await Promise.all([
      Promise.all(batches.map((events, index) => send({ events }, { at: index % 2 }))),
      Promise.all(times(4, (index) => send(event(`${index * 12}`), { at: index % 2 }))),
    ])
    for (const [index, { status, body }] of batched.entries())
      expect([status, body.accepted + body.duplicates]).toEqual([202, batches[index]?.length])
    expect(single.map(({ status }) => status)).toEqual(times(4, () => 202))
    expect(sum([...batched, ...single].map(({ body }) => body.accepted))).toBe(60)
    expect(await stored()).toHaveLength(60)
  }
})

test('one of two contradicting batches is stored as a whole (ASVS 2.3.3)', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { send, stored } = await openSender()
    const batchOf = (side: string) => [
      event(`a-${side}`),
      ...times(30, (index) => event(`shared-${index}`, { side })),
      event(`z-${side}`),
    ]
    const answers = await Promise.all([
      send({ events: batchOf('left') }, { at: 0 }),
      send({ events: batchOf('right').toReversed() }, { at: 1 }),
    ])
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409])
    const winner = answers[0]?.status === 202 ? 'left' : 'right'
    const expected = batchOf(winner).map(({ id, data }) => [id, data])
    expect((await stored()).map(({ event_id, data }) => [event_id, data]).sort()).toEqual(expected.sort())
  }
})

test.each<[name: string, payload: unknown, answer: object]>([
  ['an event', event('held'), accepted(0, 1)],
  ['an event of a batch', { events: [event('held'), event('beside')] }, accepted(1, 1)],
])('%s is a duplicate if a concurrent transaction stores it (ASVS 2.3.4)', async (_name, payload, answer) => {
  const { send, store } = await openSender()
  const holder = await service.db.startTransaction().execute()
  await store('held', '{}', holder)
  const sending = send(payload)
  await expect.poll(() => countWaiting(service.db), { timeout: 50_000 }).toBe(1)
  await holder.commit().execute()
  expect(await sending).toMatchObject(answer)
})

test('a locked event ID does not block other companies', async () => {
  const service = await openTestService({ timeoutScale: 1 })
  const [slow, busy] = [await openSender(service), await openSender(service)]
  const holder = await service.db.startTransaction().execute()
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(holder)
  await slow.store('held', '{}', holder)
  const blocked = slow.send(event('held'))
  const others = await Promise.all(times(20, () => busy.send(event())))
  expect(others.map(({ status }) => status)).toEqual(times(20, () => 202))
  expect((await blocked).status).toBe(503)
  await holder.rollback().execute()
})
