import { once } from 'node:events'
import { expect, test } from 'vitest'
import { answersOn, open } from '../support/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** Refusals before the body, and whom bad signatures count against. */

const service = await openTestService({
  instances: 2,
  env: { TRUST_PROXY: '127.0.0.1/32', RATE_LIMIT_SCALE: '1', LIMIT_BAD_SIGNATURES: '5/60' },
})
const [address = ''] = service.addresses
const addSender = async () => {
  const company = await service.addCompany()
  return { ...company, secret: await service.newSecret(company) }
}
const sender = await addSender()
const other = await addSender()
const payload = { type: 'payment.created', data: {} }
const FORGED = `whsec_${Buffer.alloc(32).toString('base64')}`

const send = ({ companyId, secret }: { companyId: string; secret: string }, from: string) =>
  service.send(companyId, secret, payload, { headers: { 'x-forwarded-for': from } })
const forge = (companyId: string, from: string) => send({ companyId, secret: FORGED }, from)
const forgeAll = async (companyId: string, from: string) => {
  for (const _ of times(5, () => {})) expect((await forge(companyId, from)).status).toBe(401)
}

/** The head of a request without its body. */
function headOf({ companyId }: { companyId: string }, from: string, headers: Record<string, string> = {}) {
  const all = {
    host: 'gatehouse.example',
    'content-type': 'application/json',
    'content-length': '100',
    'x-forwarded-for': from,
    'x-company-id': companyId,
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(service.clock.now() / 1000)),
    'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}`,
    connection: 'close',
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST /api/events/ingest HTTP/1.1\r\n${lines.join('')}\r\n`
}

async function askWithoutBody(head: string) {
  const socket = open(address)
  socket.write(head)
  const [answer] = await answersOn(socket)
  return [answer?.status, JSON.parse(answer?.body ?? '{}').code]
}

test('invalid headers and too many bad signatures are refused before the body', async () => {
  const invalid = headOf(sender, '192.0.2.1', { 'x-company-id': 'x' })
  expect(await askWithoutBody(invalid)).toEqual([401, 'invalid_signature'])
  await forgeAll(crypto.randomUUID(), '192.0.2.2')
  expect(await askWithoutBody(headOf(sender, '192.0.2.2'))).toEqual([429, 'rate_limited'])
})

test('unknown and known companies get their response only after the body', async () => {
  for (const companyId of [sender.companyId, crypto.randomUUID()]) {
    const socket = open(address)
    let text = ''
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
    })
    socket.write(headOf({ companyId }, '192.0.2.3'))
    expect((await send(sender, '192.0.2.4')).status).toBe(202)
    expect(text).toBe('')
    socket.write('x'.repeat(100))
    await once(socket, 'end')
    expect(text).toMatch(/^HTTP\/1\.1 401 /)
    socket.destroy()
  }
})

test('bad signatures of strangers do not block a known sender', async () => {
  const from = '192.0.2.10'
  expect((await send(sender, from)).status).toBe(202)
  await forgeAll(other.companyId, from)
  expect((await forge(other.companyId, from)).status).toBe(429)
  expect((await send(other, from)).status).toBe(429)
  expect((await send(sender, from)).status).toBe(202)
  service.clock.advance(60)
  expect((await send(other, from)).status).toBe(202)
})

test('a known sender beyond the limit has 20 verifications per second', async () => {
  const from = '192.0.2.11'
  for (const each of [sender, other]) expect((await send(each, from)).status).toBe(202)
  await forgeAll(sender.companyId, from)
  // Neither valid signatures nor stale timestamps use this budget.
  for (const _ of times(20, () => {})) {
    const stale = headOf(sender, from, { 'webhook-timestamp': '1' })
    expect(await askWithoutBody(stale)).toEqual([401, 'invalid_signature'])
    expect((await send(sender, from)).status).toBe(202)
    expect((await forge(sender.companyId, from)).status).toBe(401)
  }
  expect(await askWithoutBody(headOf(sender, from))).toEqual([429, 'rate_limited'])
  const headers = { 'ratelimit-policy': '"signature-checks";q=20;w=1', 'retry-after': '1' }
  expect(await send(sender, from)).toMatchObject({ status: 429, headers })
  // Checks count for that company only.
  expect((await send(other, from)).status).toBe(202)
  expect((await forge(crypto.randomUUID(), from)).status).toBe(401)
  service.clock.advance(1)
  expect((await send(sender, from)).status).toBe(202)
})

test('a known sender is accepted while ten forgeries per second name it', async () => {
  const from = '192.0.2.15'
  expect((await send(sender, from)).status).toBe(202)
  await forgeAll(sender.companyId, from)
  // Several seconds in one window of the limit, and in the next one.
  for (const seconds of [1, 1, 1, 1, 58, 1, 1, 1]) {
    const bad = times(10, () => forge(sender.companyId, from))
    const good = times(5, () => send(sender, from))
    expect((await Promise.all(good)).map(({ status }) => status)).toEqual(times(5, () => 202))
    expect((await Promise.all(bad)).map(({ status }) => status)).toEqual(times(10, () => 401))
    service.clock.advance(seconds)
  }
})

test('concurrent bad signatures are limited like sequential ones', async () => {
  const from = '192.0.2.17'
  expect((await send(sender, from)).status).toBe(202)
  const answers = await Promise.all(times(40, () => forge(sender.companyId, from)))
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(25)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(15)
})

test('a sender is unknown to a network after one day', async () => {
  const from = '192.0.2.12'
  expect((await send(sender, from)).status).toBe(202)
  service.clock.advance(24 * 3600)
  await forgeAll(crypto.randomUUID(), from)
  expect((await send(sender, from)).status).toBe(429)
})

test('a replaced secret does not make its sender known', async () => {
  const from = '192.0.2.13'
  const replaced = await addSender()
  // The first instance caches the secret that the second one replaces.
  expect((await send(replaced, '192.0.2.14')).status).toBe(202)
  const { accessToken } = await service.loginAs(replaced)
  const answer = await service.call('/auth/webhook-secret/regenerate', { token: accessToken, at: 1 })
  expect(answer.status).toBe(200)
  for (const _ of times(5, () => {})) expect((await send(replaced, from)).status).toBe(401)
  expect((await forge(crypto.randomUUID(), from)).status).toBe(429)
})

test('a /48 can send four times the bad signatures of a /64', async () => {
  for (const network of [1, 2, 3, 4]) await forgeAll(crypto.randomUUID(), `2001:db8:1:${network}::1`)
  expect((await forge(crypto.randomUUID(), '2001:db8:1:5::1')).status).toBe(429)
  expect((await forge(crypto.randomUUID(), '2001:db8:2:5::1')).status).toBe(401)
})
