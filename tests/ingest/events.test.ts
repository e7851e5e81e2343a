import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import { changeSubscription } from '../../src/operator/companies.ts'
import {
  countWaiting,
  openTestService,
  type Person,
  times,
  useSharedService,
} from '../support/test-service.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()
const secret = await service.newSecret(admin)

/** A company of its own, for tests that count what is stored. */
async function openSender() {
  const person = await service.addCompany()
  const key = await service.newSecret(person)
  const send = (payload: unknown, options: Parameters<typeof service.send>[3] = {}) =>
    service.send(person.companyId, key, payload, options)
  return { person, send, stored: () => storedBy(person) }
}

function storedBy({ companyId }: Pick<Person, 'companyId'>, db = service.db) {
  return db
    .selectFrom('events')
    .select(['event_id', 'type', 'occurred_at', 'data'])
    .where('company_id', '=', companyId)
    .orderBy(sql`event_id collate "C"`)
    .execute()
}

/** Of whom nothing is ever stored. */
const refused = await openSender()

const post = (payload: unknown, options: Parameters<typeof service.send>[3] = {}) =>
  service.send(admin.companyId, secret, payload, options)

let count = 0
/** An id that no other test uses. */
const newId = () => `event-${++count}`

const accepted = (accepted: number, duplicates = 0) => ({ status: 202, body: { accepted, duplicates } })
const invalid = { status: 400, body: { code: 'invalid_request' } }
const conflict = { status: 409, body: { code: 'event_id_conflict' } }
const event = (id?: string, data: object = {}) => ({ ...(id && { id }), type: 'a.b', data })

describe('an event', () => {
  test('is stored as sent, under the webhook-id when it has no id', async () => {
    const { send, stored } = await openSender()
    const payment = { type: 'payment.created', occurredAt: '2026-03-01T10:00:00+02:00', data: { amount: 5 } }
    expect(await send(payment, { id: 'msg_1' })).toMatchObject(accepted(1))
    expect(await send({ ...payment, id: 'own.id' }, { id: 'msg_2' })).toMatchObject(accepted(1))
    expect(await send({ type: 'ping', data: {} }, { id: 'msg_3' })).toMatchObject(accepted(1))
    const row = {
      type: 'payment.created',
      occurred_at: new Date('2026-03-01T08:00:00Z'),
      data: { amount: 5 },
    }
    expect(await stored()).toEqual([
      { event_id: 'msg_1', ...row },
      { event_id: 'msg_3', type: 'ping', occurred_at: null, data: {} },
      { event_id: 'own.id', ...row },
    ])
  })

  test('of a batch without an id is stored under webhook-id and index', async () => {
    const { send, stored } = await openSender()
    const events = [event(), event('own'), event(), event()]
    expect(await send({ events }, { id: 'msg' })).toMatchObject(accepted(4))
    expect((await stored()).map(({ event_id }) => event_id)).toEqual(['msg.0', 'msg.2', 'msg.3', 'own'])
    expect(await send({ events: [event('msg.0'), event()] }, { id: 'msg' })).toMatchObject(accepted(1, 1))
  })

  test('whose id is null is a duplicate of its generated id', async () => {
    const { send, stored } = await openSender()
    const id = 'x'.repeat(128)
    const unnamed = { ...event(), id: null, occurredAt: null }
    expect(await send({ events: [event(), unnamed] }, { id })).toMatchObject(accepted(2))
    const ids = (await stored()).map(({ event_id }) => event_id)
    expect(ids).toEqual([`${id}.0`, `${id}.1`])
    expect(await send({ events: ids.map((id) => event(id)) })).toMatchObject(accepted(0, 2))
    expect(await send(unnamed, { id })).toMatchObject(accepted(1))
    expect(await send(event(id))).toMatchObject(accepted(0, 1))
  })

  test('is readable on another connection once it is acknowledged (ASVS 2.3.3)', async () => {
    const { person, send } = await openSender()
    const elsewhere = connect({ url: service.url, poolSize: 1 })
    for (let index = 0; index < 4; index += 1) {
      const batch = { events: [event(`${index}-a`), event(`${index}-b`)] }
      expect((await send(index % 2 ? batch : event(`${index}`), { at: index % 2 })).status).toBe(202)
      const found = await storedBy(person, elsewhere.db)
      expect(found.map(({ event_id }) => event_id)).toContain(index % 2 ? `${index}-b` : `${index}`)
    }
    await elsewhere.close()
  })

  test('keeps unicode, escapes, nesting, and numbers in its data', async () => {
    const { send, stored } = await openSender()
    const data = {
      text: 'Grüße 世界 🌍 \u202e\ufeff \\ " / \b\f\n\r\t \u0001 \u007f {}, NULL \'; drop table events; --',
      numbers: [0, -1, 0.1, 1e-7, 5e-324, 1.5e10, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
      'a.b': { '': null, ' ': [true, false, [], {}], $ref: 'x', toString: 1, hasOwnProperty: 2 },
      deep: times(24, String).reduce<object>((inner) => ({ inner }), {}),
    }
    for (const [id, body] of [
      ['plain', JSON.stringify({ type: 'a', data })],
      ['escaped', escapeAll(JSON.stringify({ type: 'a', data }))],
    ] as const) {
      expect(await send(body, { id })).toMatchObject(accepted(1))
      expect(await send(body, { id, at: 1 })).toMatchObject(accepted(0, 1))
    }
    expect((await stored()).map((row) => row.data)).toEqual([data, data])

    function escapeAll(text: string) {
      return text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    }
  })
})

describe('the schema of events', () => {
  const good = { id: 'x', type: 'a.b', data: {} }

  test.each<[name: string, event: object]>([
    ['an id of one character', { ...event(), id: '.' }],
    ['an id of 160', { ...event(), id: 'aZ0_-.'.padEnd(160, 'x') }],
    ['null as id', { ...event(), id: null }],
    ['null as occurredAt', { ...event(newId()), occurredAt: null }],
    ['a type of one character', { type: 'a', data: {} }],
    ['a type of 128', { type: `${'a_1.'.repeat(31)}abcd`, data: {} }],
  ])('an event may have %s', async (_name, payload) => {
    expect(await post(payload)).toMatchObject(accepted(1))
    expect((await post({ events: [payload] })).status).toBe(202)
  })

  test.each<[name: string, event: unknown]>([
    ['an empty id', { ...good, id: '' }],
    ['an id of 161', { ...good, id: 'x'.repeat(161) }],
    ['an id with a space', { ...good, id: 'a b' }],
    ['an id with a line end', { ...good, id: 'a\n' }],
    ['an id beyond ASCII', { ...good, id: 'é' }],
    ['a number as id', { ...good, id: 1 }],
    ['no type', { data: {} }],
    ['an empty type', { ...good, type: '' }],
    ['a type of 129', { ...good, type: 'a'.repeat(129) }],
    ['a type in capitals', { ...good, type: 'A' }],
    ['a type with an empty word', { ...good, type: 'a..b' }],
    ['a type that begins with a dot', { ...good, type: '.a' }],
    ['a type that ends with a dot', { ...good, type: 'a.' }],
    ['a type with a line end', { ...good, type: 'a\n' }],
    ['no data', { type: 'a' }],
    ['null as data', { ...good, data: null }],
    ['an array as data', { ...good, data: [] }],
    ['text as data', { ...good, data: '{}' }],
    ['a number as occurredAt', { ...good, occurredAt: 1_700_000_000 }],
    ['an unknown field', { ...good, more: 1 }],
    ['an unknown object called data', { ...good, more: { data: {} } }],
  ])('a batch whose event has %s is refused whole (ASVS 2.2.1)', async (_name, bad) => {
    expect(await refused.send({ events: [event('good'), bad, event('fine')] })).toMatchObject(invalid)
    expect(await refused.stored()).toEqual([])
  })

  test('a single invalid event is refused and not stored (ASVS 2.2.1)', async () => {
    for (const bad of [
      { ...good, id: '' },
      { ...good, occurredAt: 'now' },
      { ...good, more: 1 },
    ]) {
      expect(await refused.send(bad)).toMatchObject(invalid)
    }
    expect(await refused.stored()).toEqual([])
  })

  test.each<[name: string, body: unknown]>([
    ['no events', { events: [] }],
    ['501 events', { events: times(501, (index) => event(`${index}`)) }],
    ['events and an event', { events: [good], ...good }],
    ['an unknown field beside events', { events: [good], more: 1 }],
    ['an object as events', { events: { 0: good } }],
    ['a batch in a batch', { events: [{ events: [good] }] }],
    ['an array of events', [good]],
    ['nothing', {}],
  ])('a body of %s is refused and stores nothing (ASVS 2.2.1)', async (_name, body) => {
    expect(await refused.send(body)).toMatchObject(invalid)
    expect(await refused.stored()).toEqual([])
  })

  test('a batch may have 500 events', async () => {
    const { send, stored } = await openSender()
    const events = times(500, (index) => event(`${index}`, { index }))
    expect(await send({ events })).toMatchObject(accepted(500))
    expect(await send({ events }, { at: 1 })).toMatchObject(accepted(0, 500))
    expect(await stored()).toHaveLength(500)
  })

  test('a body larger than 512 KiB returns 413 (ASVS 2.4.1)', async () => {
    const { send, stored } = await openSender()
    const limit = 512 * 1024
    const filled = (size: number, text: string) => {
      const [before, after] = ['{"type":"a","data":{"text":"', '"}}']
      const room = size - before.length - after.length
      return `${before}${text.repeat(Math.floor(room / text.length)).padEnd(room, 'x')}${after}`
    }
    for (const text of ['x', '\\\\', '\\"']) {
      expect(await send(filled(limit, text))).toMatchObject(accepted(1))
      expect(await send(filled(limit + 1, text))).toMatchObject({
        status: 413,
        body: { code: 'payload_too_large' },
      })
    }
    const many = { type: 'a', data: Object.fromEntries(times(30_000, (index) => [`k${index}`, index])) }
    expect(await send(many)).toMatchObject(accepted(1))
    expect(await stored()).toHaveLength(4)
  })
})

describe('occurredAt', () => {
  /** Each row's times are one instant. */
  test.each([
    [
      [
        '2026-03-01T10:00:00Z',
        '2026-03-01t10:00:00z',
        '2026-03-01T12:00:00+02:00',
        '2026-03-01T10:00:00.000Z',
      ],
    ],
    [['2026-03-01T10:00:00.5Z', '2026-03-01T10:00:00.500000Z', '2026-02-28T23:30:00.5-10:30']],
    [['2026-03-01T10:00:00.000001Z', '2026-03-01T10:00:00.0000010Z', '2026-03-01T10:00:00.000001-00:00']],
    [['2016-12-31T23:59:60Z', '2017-01-01T00:00:00Z', '2016-12-31T15:59:60-08:00']],
    [['2024-02-29T00:00:00+14:00', '2024-02-28T10:00:00Z', '2024-02-29T01:59:00+15:59']],
    [['0001-01-01T00:00:00+14:00', '0001-01-01T01:59:00+15:59']],
    [['9999-12-31T23:59:59.999999-15:59']],
    [['9999-12-31T23:59:59.9999999Z']],
  ])('is one instant in every spelling: %j (RFC 3339)', async (spellings) => {
    const id = newId()
    const written = spellings.map((occurredAt) => ({ id, type: 'a', occurredAt, data: {} }))
    for (const [index, payload] of written.entries()) {
      expect(await post(payload)).toMatchObject(index === 0 ? accepted(1) : accepted(0, 1))
    }
    // And in one request.
    const fresh = written.map((payload) => ({ ...payload, id: `${id}-once` }))
    expect(await post({ events: fresh })).toMatchObject(accepted(1, spellings.length - 1))
  })

  test.each([
    ['2026-03-01T10:00:00Z', '2026-03-01T10:00:01Z'],
    ['2026-03-01T10:00:00Z', '2026-03-01T10:00:00+01:00'],
    ['2026-03-01T10:00:00.000001Z', '2026-03-01T10:00:00.000002Z'],
    ['2026-03-01T10:00:00Z', undefined],
  ])('of a different instant conflicts: %s and %s', async (one, other) => {
    const id = newId()
    const [first, second] = [one, other].map((occurredAt) => ({ id, type: 'a', occurredAt, data: {} }))
    expect(await post({ events: [first, second] })).toMatchObject(conflict)
    expect(await post(first)).toMatchObject(accepted(1))
    expect(await post(second)).toMatchObject(conflict)
  })

  test.each([
    '',
    'now',
    'infinity',
    'epoch',
    '2026-03-01',
    '10:00:00Z',
    '2026-03-01T10:00:00',
    '2026-03-01T10:00Z',
    '2026-03-01 10:00:00Z',
    '2026-03-01\n10:00:00Z',
    '2026-03-01\u00a010:00:00Z',
    '2026-03-01\u202810:00:00Z',
    '2026-03-01T10:00:00Z\n',
    '2026-03-01T10:00:00+02',
    '2026-03-01T10:00:00+0200',
    '2026-03-01T10:00:00+16:00',
    '2026-03-01T10:00:00-23:59',
    '2026-03-01T10:00:00+02:60',
    '2026-03-01T10:00:00,5Z',
    '2026-03-01T10:00:00.Z',
    '2026-03-01T10:00:00 UTC',
    '2026-03-01T10:00:60Z',
    '2026-03-01T23:59:60.5Z',
    '2026-03-01T23:59:61Z',
    '2026-03-01T24:00:00Z',
    '2026-02-29T10:00:00Z',
    '2026-13-01T10:00:00Z',
    '2026-00-01T10:00:00Z',
    '2026-01-00T10:00:00Z',
    '0000-01-01T00:00:00Z',
    '-0001-01-01T00:00:00Z',
    '10000-01-01T00:00:00Z',
    '+002026-03-01T10:00:00Z',
    '２０２６-03-01T10:00:00Z',
    `2026-03-01T10:00:00.${'0'.repeat(60)}Z`,
  ])('%j is refused and stores nothing (RFC 3339, ASVS 2.2.1)', async (occurredAt) => {
    expect(await refused.send({ events: [event(), { ...event(), occurredAt }] })).toMatchObject(invalid)
    expect(await refused.stored()).toEqual([])
  })

  test('at the limits of the calendar is stored or refused (ASVS 16.5.3)', async () => {
    const dates = ['0001-01-01', '1582-10-10', '1883-11-18', '1900-02-28', '2400-02-29', '9999-12-31']
    const clocks = ['00:00:00', '23:59:59.9999999999', '23:59:60', '23:59:60.999999']
    const zones = ['Z', '-00:00', '+15:59', '-15:59', '+16:00']
    const all = dates.flatMap((date) =>
      clocks.flatMap((clock) => zones.map((zone) => `${date}T${clock}${zone}`)),
    )
    const answers = await Promise.all(all.map((occurredAt) => post({ ...event(newId()), occurredAt })))
    const strange = all.filter((_, index) => ![202, 400].includes(answers[index]?.status ?? 0))
    expect(strange).toEqual([])
    expect(new Set(answers.map(({ status }) => status)).size).toBe(2)
  })
})

describe('an event whose id is already stored', () => {
  test('with the same content is a duplicate and changes nothing', async () => {
    const { send, stored } = await openSender()
    const payload = { ...event('once', { b: 1, a: [1, 2] }), occurredAt: '2026-01-01T00:00:00Z' }
    expect(await send(payload, { id: 'first' })).toMatchObject(accepted(1))
    const before = await stored()
    expect(await send(payload, { id: 'second', at: 1 })).toMatchObject(accepted(0, 1))
    expect(await send({ events: [payload, event('new')] }, { id: 'third' })).toMatchObject(accepted(1, 1))
    expect((await stored()).filter(({ event_id }) => event_id === 'once')).toEqual(before)
  })

  test.each([
    [
      'white space',
      '{"id":"ID","type":"a","data":{"a":1,"b":[1,2]}}',
      '{ "id":"ID",\n"type":"a", "data":{ "a" : 1 ,"b":[ 1,2 ]}}',
    ],
    [
      'the order of members',
      '{"id":"ID","type":"a","data":{"a":1,"b":{"c":2,"d":3}}}',
      '{"data":{"b":{"d":3,"c":2},"a":1},"type":"a","id":"ID"}',
    ],
    [
      'escapes',
      '{"id":"ID","type":"a","data":{"a":"é/"}}',
      '{"id":"ID","type":"\\u0061","data":{"a":"\\u00e9\\/"}}',
    ],
    [
      'how a number is written',
      '{"id":"ID","type":"a","data":{"a":100,"b":0.5,"c":0,"d":1,"e":9007199254740993}}',
      '{"id":"ID","type":"a","data":{"a":1.00e2,"b":5E-1,"c":-0,"d":1.0,"e":9007199254740993.0}}',
    ],
    [
      'all of these',
      '{"id":"ID","type":"a","data":{"a":[1.0,"é"],"b":0e-20000,"2":{}}}',
      '{"id":"ID","type":"a","data":{"2":{},"b":-0.0, "a":[1,"\\u00e9"]}}',
    ],
  ])('is a duplicate when only %s differs', async (_name, one, other) => {
    const id = newId()
    const [first, second] = [one.replace('ID', id), other.replace('ID', id)]
    expect(await post(first)).toMatchObject(accepted(1))
    expect(await post(second)).toMatchObject(accepted(0, 1))
    const [third, fourth] = [first, second].map((text) => text.replace(id, `${id}-once`))
    expect(await post(`{"events":[${third},${fourth}]}`)).toMatchObject(accepted(1, 1))
  })

  test.each<[name: string, one: object, other: object]>([
    ['type', { type: 'a', data: {} }, { type: 'b', data: {} }],
    ['a value', event('', { a: 1 }), event('', { a: 2 })],
    ['the type of a value', event('', { a: 1 }), event('', { a: '1' })],
    ['null for nothing', event('', { a: null }), event('', {})],
    ['the order of a list', event('', { a: [1, 2] }), event('', { a: [2, 1] })],
    ['the form of a letter', event('', { a: 'é' }), event('', { a: 'e\u0301' })],
  ])('with different content (%s) conflicts and stores nothing', async (_name, one, other) => {
    const { send, stored } = await openSender()
    expect(await send({ ...one, id: 'taken' })).toMatchObject(accepted(1))
    const before = await stored()
    const alone = await send({ ...other, id: 'taken' })
    const among = await send({ events: [event('new-1'), { ...other, id: 'taken' }, event('new-2')] })
    for (const answer of [alone, among]) {
      expect(answer).toMatchObject(conflict)
      expect(answer.body.detail).toMatch(/\btaken\b/)
      expect(answer.body.detail).not.toContain('new-')
    }
    const twice = [{ ...one, id: 'twice' }, event('new-3'), { ...other, id: 'twice' }]
    const within = await send({ events: twice })
    expect(within).toMatchObject(conflict)
    expect(within.body.detail).toMatch(/\btwice\b/)
    expect(await stored()).toEqual(before)
  })

  test.each([
    ['{"a":9007199254740993}', '{"a":9007199254740992}'],
    ['{"a":99.989999999999995}', '{"a":99.989999999999994}'],
    ['{"a":1,"b":99.989999999999995}', '{"b":99.989999999999994,"a":1}'],
    ['{"a":1,"b":"1"}', '{"b":1,"a":"1"}'],
  ])('with different numbers conflicts: %s and %s', async (one, other) => {
    const { send } = await openSender()
    const of = (id: string, data: string) => `{"id":"${id}","type":"a","data":${data}}`
    expect(await send(of('taken', one))).toMatchObject(accepted(1))
    expect(await send(of('taken', other))).toMatchObject(conflict)
    expect(await send(`{"events":[${of('twice', one)},${of('twice', other)}]}`)).toMatchObject(conflict)
    expect(await send(`{"events":[${of('twice', one)},${of('twice', one)}]}`)).toMatchObject(accepted(1, 1))
  })

  test('is a duplicate across releases when its values are the same', async () => {
    const { person, send, stored } = await openSender()
    await sql`insert into events (company_id, event_id, type, received_at, data)
      values (${person.companyId}, 'former', 'a.b', now(), '{"a":1,"b":[0,100,"é"]}')`.execute(service.db)
    const sent = '{"id":"former","type":"a.b","data":{"b":[-0,1.00e2,"\\u00e9"],"a":1.0}}'
    expect(await send(sent)).toMatchObject(accepted(0, 1))
    expect(await send(`{"events":[${sent}]}`)).toMatchObject(accepted(0, 1))
    // A previous release compares what it would store with `data`, without `spellings`.
    expect(await send(sent.replace('former', 'later'))).toMatchObject(accepted(1))
    expect((await stored()).find(({ event_id }) => event_id === 'later')?.data).toEqual({
      a: 1,
      b: [0, 100, 'é'],
    })
  })

  test('with data of a different length conflicts before Postgres parses it', async () => {
    const { person, send } = await openSender()
    // Postgres takes such a text as json, and fails to parse it.
    for (const [id, stored] of Object.entries({
      larger: `{"a":"\\u0000${'x'.repeat(10_000)}"}`,
      smaller: '"\\u0000"',
    })) {
      await sql`
        insert into events (company_id, event_id, type, received_at, data)
        values (${person.companyId}, ${id}, 'a.b', now(), ${stored})`.execute(service.db)
      const sent = event(id, { a: 'of another length' })
      expect(await send(sent)).toMatchObject(conflict)
      expect(await send({ events: [sent, event('new')] })).toMatchObject(conflict)
    }
  })

  test('twice in one request is stored once and counted as a duplicate', async () => {
    const { send, stored } = await openSender()
    const events = [event('x'), event('y'), event('x'), event('x')]
    expect(await send({ events })).toMatchObject(accepted(2, 2))
    expect(await send({ events })).toMatchObject(accepted(0, 4))
    expect(await stored()).toHaveLength(2)
  })

  test('belongs to one company, so two companies can use it (ASVS 8.4.1)', async () => {
    const [one, other] = [await openSender(), await openSender()]
    expect(await one.send(event('shared', { of: 'one' }))).toMatchObject(accepted(1))
    expect(await other.send(event('shared', { of: 'other' }))).toMatchObject(accepted(1))
    expect((await one.stored()).map(({ data }) => data)).toEqual([{ of: 'one' }])
    expect((await other.stored()).map(({ data }) => data)).toEqual([{ of: 'other' }])
  })
})

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

describe('at the same time on two instances (ASVS 2.3.4, 15.4.2)', () => {
  test('one event sent 50 times is stored once', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { send, stored } = await openSender()
      const answers = await Promise.all(times(50, (index) => send(event('same'), { at: index % 2 })))
      expect(answers.map(({ status }) => status)).toEqual(times(50, () => 202))
      expect(sum(answers.map(({ body }) => body.accepted))).toBe(1)
      expect(sum(answers.map(({ body }) => body.duplicates))).toBe(49)
      expect(await stored()).toHaveLength(1)
    }
  })

  test('one of 50 different contents for one id is stored', async () => {
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

  test('batches of the same events in opposite orders never deadlock (ASVS 15.4.3)', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { send, stored } = await openSender()
      const events = times(60, (index) => event(`${index}`))
      const answers = await Promise.all(
        times(12, (index) =>
          index % 4 === 3
            ? send(event(`${index * 4}`), { at: index % 2 })
            : send({ events: index % 2 ? events : events.toReversed() }, { at: index % 2 }),
        ),
      )
      expect(answers.map(({ status }) => status)).toEqual(times(12, () => 202))
      expect(sum(answers.map(({ body }) => body.accepted))).toBe(60)
      expect(await stored()).toHaveLength(60)
    }
  })

  test('one of two contradicting batches is stored, whole (ASVS 2.3.3)', async () => {
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

  test('overlapping batches store each id once', async () => {
    const { send, stored } = await openSender()
    const requests = times(40, (index) => times(10, (offset) => event(`${(index * 3 + offset) % 60}`)))
    const answers = await Promise.all(requests.map((events, index) => send({ events }, { at: index % 2 })))
    for (const { status, body } of answers) {
      expect([status, body.accepted + body.duplicates]).toEqual([202, 10])
    }
    const ids = new Set(requests.flat().map(({ id }) => id))
    expect(sum(answers.map(({ body }) => body.accepted))).toBe(ids.size)
    expect(await stored()).toHaveLength(ids.size)
  })
})

describe('the subscription', () => {
  test('every change of status and plan takes effect on the next request (ASVS 8.3.2)', async () => {
    const { person, send, stored } = await openSender()
    const cases = [
      ['trialing', 'growth', 202],
      ['canceled', 'growth', 'subscription_inactive'],
      ['active', 'growth', 202],
      ['suspended', 'enterprise', 'subscription_inactive'],
      ['past_due', 'enterprise', 202],
      ['active', 'starter', 'feature_not_in_plan'],
      ['canceled', 'starter', 'subscription_inactive'],
      ['active', 'enterprise', 202],
    ] as const
    let rows = 0
    for (const [status, plan, expected] of cases) {
      await changeSubscription(service.context, person.companyId, { status, plan })
      for (const payload of [event(), { events: [event(), event()] }]) {
        const answer = await send(payload, { at: 'events' in payload ? 1 : 0 })
        const outcome = answer.status === 402 ? answer.body.code : answer.status
        expect([status, plan, outcome]).toEqual([status, plan, expected])
        if (expected === 202) rows += 'events' in payload ? 2 : 1
      }
    }
    expect(await stored()).toHaveLength(rows)
  })
})

test('an event that a concurrent transaction stores is a duplicate (ASVS 2.3.4)', async () => {
  const { person, send, stored } = await openSender()
  const sends: [payload: unknown, answer: object][] = [
    [event('alone'), accepted(0, 1)],
    [{ events: [event('among'), event('beside')] }, accepted(1, 1)],
  ]
  for (const [payload, answer] of sends) {
    const sending = await service.db.transaction().execute(async (tx) => {
      await sql`insert into events (company_id, event_id, type, received_at, data)
        select ${person.companyId}, id, 'a.b', now(), '{}' from unnest(array['alone', 'among']) as id
        on conflict do nothing`.execute(tx)
      const sending = send(payload)
      await expect.poll(() => countWaiting(service.db), { timeout: 50_000 }).toBe(1)
      return { sending }
    })
    expect(await sending.sending).toMatchObject(answer)
    await service.db
      .deleteFrom('events')
      .where('company_id', '=', person.companyId)
      .where('event_id', '<>', 'beside')
      .execute()
  }
  expect(await stored()).toHaveLength(1)
})

test('an event id held by a transaction does not block other companies', async () => {
  const service = await openTestService({ timeoutScale: 1 })
  const [slow, busy] = [await service.addCompany(), await service.addCompany()]
  const [slowSecret, busySecret] = [await service.newSecret(slow), await service.newSecret(busy)]
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
  const { promise: isHeld, resolve: held } = Promise.withResolvers<void>()
  const holder = service.db.transaction().execute(async (tx) => {
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
    await sql`insert into events (company_id, event_id, type, received_at, data)
      values (${slow.companyId}, 'held', 'a.b', now(), '{}')`.execute(tx)
    held()
    await mayEnd
  })
  await isHeld
  const event = { type: 'a.b', data: {} }
  const blocked = service.send(slow.companyId, slowSecret, { ...event, id: 'held' })
  const others = await Promise.all(times(20, () => service.send(busy.companyId, busySecret, event)))
  expect(others.map(({ status }) => status)).toEqual(times(20, () => 202))
  expect((await blocked).status).toBe(503)
  end()
  await holder
})
