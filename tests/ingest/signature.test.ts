import { createHmac, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { updateCompany } from '../../src/company/repository.ts'
import { verifySignature } from '../../src/ingest/signature.ts'
import { type Answer, createClock, openTestService, type Person, times } from '../support/test-service.ts'

// On a whole second, so that tests can meet the tolerance exactly.
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

/** Signs as the standard describes, with any values. */
function tagOf(key: string, { id = '', timestamp = '', body = '' }: Message): string {
  const hmac = createHmac('sha256', Buffer.from(key.replace('whsec_', ''), 'base64'))
  return hmac.update(`${id}.${timestamp}.`).update(body).digest('base64')
}

interface Sending {
  key?: string
  companyId?: string
  at?: number
  /** Replaces some headers. */
  headersOf?: (tag: string) => Answer['headers']
  /** Replaces the body after signing. */
  sentBody?: string | Buffer
}

function post(message: Message = {}, { at = 0, ...sending }: Sending = {}): Promise<Answer> {
  const { key = secret, companyId = admin.companyId, headersOf, sentBody } = sending
  const signed = { id: newId(), timestamp: `${second}`, body: EVENT, ...message }
  const tag = tagOf(key, signed)
  const headers = {
    'content-type': 'application/json',
    'x-company-id': companyId,
    'webhook-id': signed.id,
    'webhook-timestamp': signed.timestamp,
    'webhook-signature': `v1,${tag}`,
    ...headersOf?.(tag),
  }
  return service.call('/events/ingest', { headers, body: sentBody ?? signed.body, at })
}

async function addSender() {
  const company = await service.addCompany()
  return { company, companyId: company.companyId, key: await service.newSecret(company) }
}

async function countEvents({ companyId }: Person) {
  const events = service.db.selectFrom('events').select('event_id').where('company_id', '=', companyId)
  return (await events.execute()).length
}

const ZEROS = Buffer.alloc(32).toString('base64')
const refusal = { code: 'invalid_signature', category: 'authentication' }
const invalidSignature = { status: 401, body: refusal }

test('the example of Standard Webhooks is a valid signature (ASVS 4.1.5)', () => {
  const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
  const message = {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: '1614265330',
    body: Buffer.from('{"test": 2432232314}'),
  }
  expect(verifySignature(key, message, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')).toBe(true)
})

test.each<[name: string, sentBody: string | Buffer]>([
  ['serialized again', JSON.stringify(JSON.parse(EVENT), null, 1)],
  ['with one byte changed', EVENT.replace('10', '11')],
  ['with a byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(EVENT)])],
  ['left out', ''],
])('a body that is %s after signing is refused (ASVS 4.1.5)', async (_name, sentBody) => {
  expect(await post({}, { sentBody })).toMatchObject(invalidSignature)
})

const other = `v1,${Buffer.alloc(32, 1).toString('base64')}`

test.each<[name: string, make: (tag: string) => string]>([
  ['a valid entry before an empty one', (tag) => `v1,${tag} v1,`],
  ['a valid entry after ones of other versions', (tag) => `v2,${tag} v1a,${tag} v1,${tag}`],
  ['a valid entry after forty wrong ones', (tag) => [...times(40, () => other), `v1,${tag}`].join(' ')],
  ['a valid entry between double spaces', (tag) => `${other}  v1,${tag}  `],
])('webhook-signature is accepted with %s', async (_name, make) => {
  const { status } = await post({}, { headersOf: (tag) => ({ 'webhook-signature': make(tag) }) })
  expect(status).toBe(202)
})

test.each<[name: string, make: (tag: string) => string]>([
  ['only an entry of version 2', (tag) => `v2,${tag}`],
  ['a version in capitals', (tag) => `V1,${tag}`],
  ['a tag truncated to whole bytes', (tag) => `v1,${tag.slice(0, 40)}`],
  ['a tag without padding', (tag) => `v1,${tag.replace('=', '')}`],
  ['a tag with more padding', (tag) => `v1,${tag}=`],
  ['a tag with a changed bit', (tag) => `v1,${flipBit(tag)}`],
  ['entries separated by commas', (tag) => `${other},v1,${tag}`],
])('webhook-signature is refused with %s (ASVS 4.1.5)', async (_name, make) => {
  const answer = await post({}, { headersOf: (tag) => ({ 'webhook-signature': make(tag) }) })
  expect(answer).toMatchObject(invalidSignature)
})

function flipBit(tag: string) {
  const bytes = Buffer.from(tag, 'base64')
  bytes.writeUInt8(bytes.readUInt8(31) ^ 1, 31)
  return bytes.toString('base64')
}

test.each([-300, 300])('webhook-timestamp is accepted %i s from the clock', async (offset) => {
  expect((await post({ timestamp: `${second + offset}` })).status).toBe(202)
})

const wrong = [second - 301, second + 301, 'hello', `+${second}`, `${second}.0`, `0x${second.toString(16)}`]

test.each(wrong)('webhook-timestamp is refused as %s, though signed (ASVS 4.1.5)', async (time) => {
  const answer = await post({ timestamp: `${time}` })
  expect(answer).toMatchObject(invalidSignature)
  expect(answer.body.detail).toContain('webhook-timestamp')
})

test.each(['A-Za_z-09', 'x'.repeat(128)])('webhook-id is accepted as %s', async (id) => {
  expect((await post({ id })).status).toBe(202)
})

const invalidIds = ['msg.1', 'a b', 'é', 'x'.repeat(129)]

test.each(invalidIds)('webhook-id is refused as %s, though signed (ASVS 4.1.5)', async (id) => {
  const sent = Buffer.from(id).toString('latin1')
  expect(await post({ id }, { headersOf: () => ({ 'webhook-id': sent }) })).toMatchObject(invalidSignature)
})

const id = newId()
test.each<[name: string, right: (tag: string) => string]>([
  ['x-company-id', () => admin.companyId],
  ['webhook-id', () => id],
  ['webhook-timestamp', () => `${second}`],
  ['webhook-signature', (tag) => `v1,${tag}`],
])('a request without %s, or with it twice, is refused (ASVS 4.1.5, 15.3.7)', async (name, right) => {
  for (const [count, detail] of [
    [0, `The header ${name} is missing.`],
    [2, `The header ${name} was sent more than once.`],
  ] as const) {
    const headersOf = (tag: string) => ({ [name]: count ? times(count, () => right(tag)) : undefined })
    expect(await post({ id }, { headersOf })).toMatchObject({ status: 401, body: { ...refusal, detail } })
  }
  expect((await post({ id })).status).toBe(202)
})

test('a company ID can have capitals, but no other spelling', async () => {
  expect((await post({}, { companyId: admin.companyId.toUpperCase() })).status).toBe(202)
  expect(await post({}, { companyId: `{${admin.companyId}}` })).toMatchObject(invalidSignature)
})

test('refusals do not reveal which companies exist (ASVS 6.3.8, 8.4.1)', async () => {
  const [other, suspended] = [await addSender(), await addSender()]
  const bare = await service.addCompany()
  // Both instances cache its secret.
  for (const at of [0, 1]) expect((await post({}, { ...suspended, at })).status).toBe(202)
  await updateCompany(service.db, suspended.companyId, { status: 'suspended' })
  const refusals: Record<string, Parameters<typeof post>[1]> = {
    'wrong signature': { headersOf: () => ({ 'webhook-signature': 'v1,' }) },
    "another company's secret": { key: other.key },
    "the other's company id": { companyId: other.companyId },
    'unknown company': { companyId: '01900000-0000-7000-8000-000000000000' },
    'no company id': { companyId: 'company' },
    'suspended company': suspended,
    'company without a secret': { companyId: bare.companyId },
    'company without a secret, key of zeros': { companyId: bare.companyId, key: ZEROS },
  }
  const texts = new Set<string>()
  for (const [name, options] of Object.entries(refusals)) {
    for (const [at, body] of [EVENT, EVENTS, '{', '{"type":1}'].entries()) {
      const answer = await post({ body }, { ...options, at: at % 2 })
      expect([name, answer.status]).toEqual([name, 401])
      const { requestId, ...rest } = answer.body
      const { date, 'x-request-id': id, ratelimit, ...headers } = answer.headers
      expect(ratelimit).toMatch(/^"bad-signatures"/)
      texts.add(JSON.stringify([rest, headers]))
    }
  }
  expect([...texts]).toHaveLength(1)
  expect(await Promise.all([other.company, bare, suspended.company].map(countEvents))).toEqual([0, 0, 2])
  await updateCompany(service.db, suspended.companyId, { status: 'active' })
  expect((await post({}, suspended)).status).toBe(202)
})

test.each<[name: string, body: string, judged: object]>([
  ['not JSON', '{"type":', { status: 400, body: { code: 'malformed_body' } }],
  ['empty', '', { status: 400, body: { code: 'malformed_body' } }],
  ['not an event', '{"type":1,"data":{}}', { status: 400, body: { code: 'invalid_request' } }],
  ['an event', EVENT, { status: 202 }],
  ['a batch', EVENTS, { status: 202 }],
])('a body that is %s is judged only after its signature (ASVS 4.1.5)', async (_name, body, judged) => {
  const { company, ...sender } = await addSender()
  const sending = { ...sender, at: 1 }
  expect(await post({ body }, sending)).toMatchObject(judged)
  expect(await post({ body }, { ...sending, key: ZEROS })).toMatchObject(invalidSignature)
  // The second instance caches the secret that is replaced on the first.
  await service.newSecret(company)
  expect(await post({ body }, sending)).toMatchObject(invalidSignature)
})
