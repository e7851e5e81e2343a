import { createHmac, randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { setCompanyStatus } from '../../src/company/repository.ts'
import { type Answer, createClock, openTestService, type Person, times } from '../support/test-service.ts'

// A clock on a whole second, so that the tolerance can be met exactly.
const clock = createClock()
const second = Math.ceil(clock.now() / 1000)
const wholeSecond = { ...clock, now: () => second * 1000 }
const service = await openTestService({ instances: 2, clocks: [wholeSecond, wholeSecond] })
const admin = await service.addCompany()
const secret = await service.newSecret(admin)

interface Message {
  id?: string
  timestamp?: string
  body?: string | Buffer
}

const EVENT = '{"type":"payment.created","data":{"amount":10}}'
const EVENTS = `{"events":[${EVENT},${EVENT}]}`
const newId = () => `msg_${randomBytes(9).toString('hex')}`

/** A signature as the standard describes it, of anything. */
function tagOf(key: string, { id = '', timestamp = '', body = '' }: Message): string {
  const hmac = createHmac('sha256', Buffer.from(key.replace('whsec_', ''), 'base64'))
  return hmac.update(`${id}.${timestamp}.`).update(body).digest('base64')
}

/** Signs a message and sends it, with some headers replaced; those that are undefined are left out. */
function post(
  message: Message = {},
  {
    key = secret,
    companyId = admin.companyId,
    at = 0,
    headersOf = () => ({}),
    sentBody,
  }: {
    key?: string
    companyId?: string
    at?: number
    headersOf?: (tag: string) => Record<string, string | string[] | undefined>
    sentBody?: string | Buffer
  } = {},
): Promise<Answer> {
  const signed = { id: newId(), timestamp: `${second}`, body: EVENT, ...message }
  const tag = tagOf(key, signed)
  const headers = {
    'content-type': 'application/json',
    'x-company-id': companyId,
    'webhook-id': signed.id,
    'webhook-timestamp': signed.timestamp,
    'webhook-signature': `v1,${tag}`,
    ...headersOf(tag),
  }
  const given = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [{ [name]: value }],
  )
  return service.call('/events/ingest', {
    headers: Object.assign({}, ...given),
    body: sentBody ?? signed.body,
    at,
  })
}

async function countEvents({ companyId }: Person) {
  const rows = await service.db
    .selectFrom('events')
    .select('event_id')
    .where('company_id', '=', companyId)
    .execute()
  return rows.length
}

const invalidSignature = { status: 401, body: { code: 'invalid_signature', category: 'authentication' } }

describe('what the standardwebhooks package signs', () => {
  test('is accepted unchanged (ASVS 4.1.5)', async () => {
    const id = newId()
    const body = JSON.stringify({ type: 'payment.created', data: { note: 'Grüße, 世界 🌍 \\ "' } }, null, 2)
    const headers = {
      'content-type': 'application/json',
      'x-company-id': admin.companyId,
      'webhook-id': id,
      'webhook-timestamp': `${second}`,
      'webhook-signature': new Webhook(secret).sign(id, new Date(second * 1000), body),
    }
    const { status, body: answer } = await service.call('/events/ingest', { headers, body })
    expect([status, answer]).toEqual([202, { accepted: 1, duplicates: 0 }])
  })
})

test("Standard Webhooks' own example verifies: only its form, which is no event, is refused (ASVS 4.1.5)", async () => {
  const key = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const bytes = Buffer.from(key.slice(6), 'base64')
  const then = {
    ...createClock(),
    now: () => 1_614_265_330_000,
    randomBytes: (size: number) => (size === 32 ? bytes : randomBytes(size)),
  }
  const past = await openTestService({ clocks: [then] })
  const company = await past.addCompany()
  expect(await past.newSecret(company)).toBe(key)
  const send = (signature: string) =>
    past.call('/events/ingest', {
      headers: {
        'content-type': 'application/json',
        'x-company-id': company.companyId,
        'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'webhook-timestamp': '1614265330',
        'webhook-signature': signature,
      },
      body: '{"test": 2432232314}',
    })
  const published = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  expect(await send(published)).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
  expect(await send(published.replace('g0', 'g1'))).toMatchObject(invalidSignature)
})

test.each<[name: string, sent: string | Buffer]>([
  ['re-serialised', JSON.stringify(JSON.parse(EVENT), null, 1)],
  ['with its members in another order', '{"data":{"amount":10},"type":"payment.created"}'],
  ['with one byte changed', EVENT.replace('10', '11')],
  ['with one byte more', `${EVENT}\n`],
  ['with one byte less', EVENT.slice(0, -1)],
  ['escaped otherwise', EVENT.replace('payment', '\\u0070ayment')],
  ['with a byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(EVENT)])],
  ['in UTF-16', Buffer.from(EVENT, 'utf16le')],
  ['left out', ''],
])('a body %s on the way is refused (ASVS 4.1.5)', async (_name, sentBody) => {
  expect(await post({}, { sentBody })).toMatchObject(invalidSignature)
})

describe('the header webhook-signature', () => {
  const other = `v1,${Buffer.alloc(32, 1).toString('base64')}`

  test.each<[name: string, make: (tag: string) => string]>([
    ['one valid entry', (tag) => `v1,${tag}`],
    ['a valid entry after a wrong one', (tag) => `${other} v1,${tag}`],
    ['a valid entry before an empty one', (tag) => `v1,${tag} v1,`],
    ['a valid entry after ones of other versions', (tag) => `v2,${tag} v1a,${tag} v1,${tag}`],
    ['a valid entry after forty others', (tag) => [...times(40, () => other), `v1,${tag}`].join(' ')],
    ['a valid entry between double spaces', (tag) => `${other}  v1,${tag}  `],
  ])('passes with %s', async (_name, make) => {
    const { status } = await post({}, { headersOf: (tag) => ({ 'webhook-signature': make(tag) }) })
    expect(status).toBe(202)
  })

  test.each<[name: string, make: (tag: string) => string | string[]]>([
    ['an empty entry', () => 'v1,'],
    ['only an entry of version 2', (tag) => `v2,${tag}`],
    ['a tag without a version', (tag) => tag],
    ['a version in capitals', (tag) => `V1,${tag}`],
    ['a truncated tag', (tag) => `v1,${tag.slice(0, 20)}`],
    ['a tag truncated to whole bytes', (tag) => `v1,${tag.slice(0, 40)}`],
    ['a tag without padding', (tag) => `v1,${tag.replace('=', '')}`],
    ['a tag with more padding', (tag) => `v1,${tag}=`],
    ['a tag and something after it', (tag) => `v1,${tag},v1`],
    ['a tag in hex', (tag) => `v1,${Buffer.from(tag, 'base64').toString('hex')}`],
    ['a tag with a changed bit', (tag) => `v1,${flipBit(tag)}`],
    ['a tag of zeros', () => `v1,${Buffer.alloc(32).toString('base64')}`],
    ['entries separated by commas', (tag) => `${other},v1,${tag}`],
    ['itself twice, both valid', (tag) => [`v1,${tag}`, `v1,${tag}`]],
    ['itself twice, the second valid', (tag) => [other, `v1,${tag}`]],
    ['itself twice, the first valid', (tag) => [`v1,${tag}`, other]],
  ])('is refused with %s (ASVS 4.1.5)', async (_name, make) => {
    const answer = await post({}, { headersOf: (tag) => ({ 'webhook-signature': make(tag) }) })
    expect(answer).toMatchObject(invalidSignature)
  })

  function flipBit(tag: string) {
    const bytes = Buffer.from(tag, 'base64')
    bytes.writeUInt8(bytes.readUInt8(31) ^ 1, 31)
    return bytes.toString('base64')
  }
})

describe('the header webhook-timestamp', () => {
  test.each([-300, -299, 0, 299, 300])('passes %i s from the clock', async (offset) => {
    expect((await post({ timestamp: `${second + offset}` })).status).toBe(202)
  })

  test.each([
    `${second - 301}`,
    `${second + 301}`,
    `${second * 1000}`,
    'hello',
    'NaN',
    '-1',
    `-${second}`,
    `+${second}`,
    '1e20',
    `${second / 1e9}e9`,
    `${second}.0`,
    `0x${second.toString(16)}`,
    '100000000000000000000',
    '9'.repeat(400),
    new Date(second * 1000).toISOString(),
  ])('is refused as %s, with a signature that holds (ASVS 4.1.5)', async (timestamp) => {
    const answer = await post({ timestamp })
    expect(answer).toMatchObject(invalidSignature)
    expect(answer.body.detail).toContain('webhook-timestamp')
  })
})

describe('the header webhook-id', () => {
  test.each(['x', 'A-Za_z-09', 'x'.repeat(128)])('passes as %s', async (id) => {
    expect((await post({ id })).status).toBe(202)
  })

  test.each(['msg.1', 'a b', 'a/b', 'a,b', 'é', 'x'.repeat(129)])(
    'is refused as %s, with a signature that holds (ASVS 4.1.5)',
    async (id) => {
      const sent = Buffer.from(id).toString('latin1')
      expect(await post({ id }, { headersOf: () => ({ 'webhook-id': sent }) })).toMatchObject(
        invalidSignature,
      )
    },
  )
})

const HEADERS = ['x-company-id', 'webhook-id', 'webhook-timestamp', 'webhook-signature']

test.each(HEADERS)('a request without %s is told so (ASVS 4.1.5)', async (name) => {
  const answer = await post({}, { headersOf: () => ({ [name]: undefined }) })
  expect(answer).toMatchObject(invalidSignature)
  expect(answer.body.detail).toContain(name)
})

test.each(HEADERS)(
  'a request with %s twice is refused, though both are right (ASVS 15.3.7)',
  async (name) => {
    const id = newId()
    const right: Record<string, string> = {
      'x-company-id': admin.companyId,
      'webhook-id': id,
      'webhook-timestamp': `${second}`,
    }
    const headersOf = (tag: string) => {
      const value = right[name] ?? `v1,${tag}`
      return { [name]: [value, value] }
    }
    expect(await post({ id }, { headersOf })).toMatchObject(invalidSignature)
    expect((await post({ id })).status).toBe(202)
  },
)

test('the company is known by its id in either case, and by no other spelling', async () => {
  expect((await post({}, { companyId: admin.companyId.toUpperCase() })).status).toBe(202)
  const { companyId } = admin
  for (const spelling of [`{${companyId}}`, companyId.replaceAll('-', ''), `urn:uuid:${companyId}`, "'"]) {
    expect(await post({}, { companyId: spelling })).toMatchObject(invalidSignature)
  }
})

describe('which companies exist', () => {
  test('cannot be learned from a refusal: each is the same, byte for byte (ASVS 6.3.8, 8.4.1)', async () => {
    const other = await service.addCompany()
    const otherSecret = await service.newSecret(other)
    const bare = await service.addCompany()
    const refusals: Record<string, Parameters<typeof post>[1]> = {
      'wrong signature': { headersOf: () => ({ 'webhook-signature': 'v1,' }) },
      'wrong secret': { key: `whsec_${randomBytes(32).toString('base64')}` },
      "another company's secret": { key: otherSecret },
      "the other's company id": { companyId: other.companyId },
      'unknown company': { companyId: '01900000-0000-7000-8000-000000000000' },
      'no company id': { companyId: 'company' },
      'company without a secret': { companyId: bare.companyId },
      'company without a secret, key of zeros': {
        companyId: bare.companyId,
        key: Buffer.alloc(32).toString('base64'),
      },
    }
    const texts = new Set<string>()
    for (const [name, options] of Object.entries(refusals)) {
      for (const body of [EVENT, EVENTS, '{', '{"type":1}']) {
        const answer = await post({ body }, { ...options, at: texts.size % 2 })
        expect([name, answer.status]).toEqual([name, 401])
        const { requestId, ...rest } = answer.body
        const { date, 'x-request-id': id, ratelimit, ...headers } = answer.headers
        expect(ratelimit).toMatch(/^"bad-signatures"/)
        expect(id).toBe(requestId)
        texts.add(JSON.stringify([rest, headers]))
      }
    }
    expect([...texts]).toHaveLength(1)
    for (const person of [other, bare]) expect(await countEvents(person)).toBe(0)
  })
})

const BROKEN: [name: string, body: string | Buffer, code: string][] = [
  ['no JSON', '{"type":', 'malformed_body'],
  ['empty', '', 'malformed_body'],
  ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'malformed_body'],
  ['with a name twice', '{"type":"a","type":"a","data":{}}', 'malformed_body'],
  ['an array', '[]', 'invalid_request'],
  ['of another form', '{"type":1,"data":{}}', 'invalid_request'],
  ['with an unknown field', '{"type":"a","data":{},"more":1}', 'invalid_request'],
]

describe('a body that is', () => {
  test.each(BROKEN)('%s is parsed only once its signature holds (ASVS 4.1.5)', async (_name, body, code) => {
    expect(await post({ body })).toMatchObject({ status: 400, body: { code } })
    expect(await post({ body }, { key: Buffer.alloc(32, 9).toString('base64') })).toMatchObject(
      invalidSignature,
    )
  })

  test.each(BROKEN)(
    '%s, under a secret replaced elsewhere, is refused for its signature',
    async (_name, body) => {
      const person = await service.addCompany()
      const { companyId } = person
      const key = await service.newSecret(person)
      expect((await post({}, { key, companyId, at: 1 })).status).toBe(202)
      await service.newSecret(person)
      expect(await post({ body }, { key, companyId, at: 1 })).toMatchObject(invalidSignature)
    },
  )
})

test('a replaced secret is refused from the next request on, on any instance (ASVS 4.1.5)', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const { accessToken: token } = await service.loginAs(person)
  const stored: string[] = []
  let previous = ''
  for (let round = 0; round < 30; round += 1) {
    const { body } = await service.call('/auth/webhook-secret/regenerate', { token, at: round % 2 })
    const [old, fresh] = [previous, body.secret]
    const [first, second] = [(round + 1) % 2, round % 2]
    // At once, on both instances, alone and in a batch; the other instance has the old one in memory.
    if (old) {
      const answers = await Promise.all(
        [first, second].flatMap((at) => [
          post({}, { key: old, companyId, at }),
          post({ body: EVENTS }, { key: old, companyId, at }),
          post({ body: '{}' }, { key: old, companyId, at }),
        ]),
      )
      expect(answers.map(({ body }) => body.code)).toEqual(times(6, () => 'invalid_signature'))
    }
    for (const at of [first, second]) {
      const id = newId()
      expect((await post({ id }, { key: fresh, companyId, at })).status).toBe(202)
      stored.push(id)
    }
    previous = fresh
  }
  expect(await countEvents(person)).toBe(stored.length)
})

test('a suspended company is refused at once on instances that know its secret, until it is resumed', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const key = await service.newSecret(person)
  const everywhere = (body: string) =>
    Promise.all([0, 1].map(async (at) => (await post({ body }, { key, companyId, at })).status))
  expect(await everywhere(EVENT)).toEqual([202, 202])
  await setCompanyStatus(service.db, companyId, 'suspended')
  for (const body of [EVENT, EVENTS, '{', '{}']) expect(await everywhere(body)).toEqual([401, 401])
  const [suspended, unknown] = await Promise.all([
    post({}, { key, companyId }),
    post({}, { companyId: newId() }),
  ])
  expect({ ...suspended.body, requestId: '' }).toEqual({ ...unknown.body, requestId: '' })
  expect(await countEvents(person)).toBe(2)
  await setCompanyStatus(service.db, companyId, 'active')
  expect(await everywhere(EVENT)).toEqual([202, 202])
})

test('what is not sent as JSON, or is compressed, is refused as such', async () => {
  for (const headers of [
    { 'content-type': 'text/plain' },
    { 'content-type': undefined },
    { 'content-type': 'application/json; charset=utf-16' },
    { 'content-encoding': 'gzip' },
  ]) {
    expect(await post({}, { headersOf: () => headers })).toMatchObject({
      status: 415,
      body: { code: 'unsupported_media_type' },
    })
  }
})
