import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { createBodyBudget, openBody } from '../../src/edge/bodies.ts'
import { answersOn, open } from '../support/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** Bodies take limited memory until their requests get a response (ASVS 15.1.3, 15.2.2). */

test('the body budget limits each /48 and keeps room for small bodies', () => {
  const budget = createBodyBudget()
  const megabyte = 1024 * 1024
  const overloaded = expect.objectContaining({ code: 'overloaded' })
  const openLarge = (network: string, announced = 0) => budget.open(network, announced, megabyte)
  const first = openLarge('2001:db8:1:1::')
  first.take(16 * megabyte)
  expect(() => openLarge('2001:db8:1:2::', 1)).toThrow(overloaded)
  for (const network of ['192.0.2.1', '192.0.2.2']) openLarge(network).take(16 * megabyte)
  openLarge('192.0.2.3').take(8 * megabyte)
  expect(openLarge('192.0.2.4').take(1)).toBe(false)
  expect(budget.open('192.0.2.4', 0, 1_000).take(8 * megabyte)).toBe(true)
  expect(budget.open('192.0.2.5', 0, 1_000).take(1)).toBe(false)
  first.release()
  // This request has finished.
  expect(first.take(10)).toBe(false)
  expect(openLarge('2001:db8:1:2::', megabyte).take(megabyte)).toBe(true)
})

const service = await openTestService({ env: { TRUST_PROXY: '127.0.0.1/32' } })
const [address = ''] = service.addresses
const admin = await service.addCompany()
const secret = await service.newSecret(admin)
const bytesHeld = () => service.metric('gatehouse_body_bytes')
const head = (from: string, length: string) =>
  [
    'POST /api/events/ingest HTTP/1.1',
    'Host: gatehouse.example',
    'Content-Type: application/json',
    length,
    `X-Forwarded-For: ${from}`,
    `X-Company-Id: ${admin.companyId}`,
    'webhook-id: msg_1',
    `webhook-timestamp: ${Math.floor(service.clock.now() / 1000)}`,
    `webhook-signature: v1,${Buffer.alloc(32).toString('base64')}`,
    '',
    '',
  ].join('\r\n')
const KEPT = Buffer.alloc(500_000, ' ')
const payload = JSON.stringify({ type: 'payment.created', data: { text: 'x'.repeat(400_000) } })
const send = (from: string) =>
  service.send(admin.companyId, secret, payload, { headers: { 'x-forwarded-for': from } })

test("a network's bodies are kept up to its share, then freed", async () => {
  const from = '192.0.2.1'
  const sockets = times(40, () => open(address))
  for (const socket of sockets) {
    socket.resume()
    socket.write(head(from, 'Content-Length: 520000'))
    socket.write(KEPT)
  }
  await expect.poll(bytesHeld).toBeGreaterThan(15 * 1024 * 1024)
  expect(await bytesHeld()).toBeLessThanOrEqual(16 * 1024 * 1024)

  const socket = open(address)
  socket.write(head(from, 'Content-Length: 520000\r\nConnection: close'))
  const [refused] = await answersOn(socket)
  expect([refused?.status, refused?.headers['retry-after']]).toEqual([503, '1'])
  expect(JSON.parse(refused?.body ?? '{}').code).toBe('overloaded')
  expect((await send('192.0.2.2')).status).toBe(202)

  for (const each of sockets) each.destroy()
  await expect.poll(bytesHeld).toBe(0)
  expect((await send(from)).status).toBe(202)
})

test('chunked bodies count as they arrive, and get 503 without room', async () => {
  const from = '192.0.2.3'
  // One byte per chunk takes more memory than the bytes.
  const bytes = '1\r\n \r\n'.repeat(20_000)
  const sockets = times(4, () => open(address))
  const answers = sockets.map(answersOn)
  for (const socket of sockets)
    socket.write(`${head(from, 'Transfer-Encoding: chunked\r\nConnection: close')}${bytes}`)
  await expect.poll(bytesHeld).toBeGreaterThan(10 * 1024 * 1024)
  for (const socket of sockets) socket.write('0\r\n\r\n')
  const statuses = (await Promise.all(answers)).map(([answer]) => answer?.status)
  expect(new Set(statuses)).toEqual(new Set([401, 503]))
  await expect.poll(bytesHeld).toBe(0)
})

test('bodies behind an open request are freed when their connection resets', async () => {
  const socket = open(address)
  socket.resume()
  // The first request waits for its session's row, and the second response waits for the first.
  const { accessToken, session } = await service.loginAs(admin)
  await service.db.transaction().execute(async (tx) => {
    await sql`select from sessions where session_id = ${session.id} for update`.execute(tx)
    socket.write(
      `POST /api/auth/logout HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${accessToken}\r\nContent-Length: 0\r\n\r\n`,
    )
    socket.write(`${head('192.0.2.4', `Content-Length: ${payload.length}`)}${payload}`)
    await expect.poll(bytesHeld).toBeGreaterThan(400_000)
    socket.resetAndDestroy()
    await expect.poll(bytesHeld).toBe(0)
  })
})

/** Bodies are freed once refused, and kept while they are read (ASVS 15.1.3, 15.2.2). */

const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
const MEGABYTE = 1024 * 1024

async function listen(handle: RequestListener): Promise<string> {
  const server = createServer(handle).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('the server has no port')
  return `http://127.0.0.1:${address.port}`
}

/** Chunks that other listeners get, as they arrive. Once its memory is freed, a chunk has no bytes left. */
function chunksOf(message: IncomingMessage): Buffer[] {
  const chunks: Buffer[] = []
  message.prependListener('data', (chunk) => {
    if (message.listenerCount('data') > 1) chunks.push(chunk)
  })
  return chunks
}

const lengthsOf = (chunks: Buffer[]) => new Set(chunks.map(({ byteLength }) => byteLength))

test.each([
  ['beyond the limit of its route', 100_000, 0, 'payload_too_large'],
  ['without room for it', MEGABYTE, 16 * MEGABYTE - 100_000, 'overloaded'],
])('a body %s is freed, with every chunk that arrived', async (_, limit, taken, code) => {
  const budget = createBodyBudget()
  budget.open('192.0.2.1', 0, 1_000).take(taken)
  const { promise, resolve } = Promise.withResolvers<{ refused: unknown; chunks: Buffer[] }>()
  const address = await listen(async (message, response) => {
    const arriving = { message, answer: response, network: '192.0.2.1', budget }
    const refused = openBody(arriving, limit)().catch((error: unknown) => error)
    const chunks = chunksOf(message)
    resolve({ refused: await refused, chunks })
  })
  const socket = open(address)
  const chunk = `61a8\r\n${' '.repeat(25_000)}\r\n`
  socket.write(`POST / ${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(12)}0\r\n\r\n`)
  const { refused, chunks } = await promise
  expect(refused).toMatchObject({ code })
  expect(chunks.length).toBeGreaterThan(3)
  expect(lengthsOf(chunks)).toEqual(new Set([0]))
  socket.destroy()
})

test.each([1, 12])('a body read in %i chunks stays, even if the connection fails', async (count) => {
  const budget = createBodyBudget()
  const { promise, resolve } = Promise.withResolvers<Buffer>()
  const address = await listen(async (message, response) => {
    const body = await openBody({ message, answer: response, network: '192.0.2.1', budget }, MEGABYTE)()
    message.emit('error', new Error('the connection was lost'))
    resolve(body)
  })
  const socket = open(address)
  const text = times(count, (index) => String(index % 10).repeat(25_000))
  const chunks = text.map((part) => `61a8\r\n${part}\r\n`).join('')
  socket.write(`POST / ${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`)
  expect((await promise).toString()).toBe(text.join(''))
  socket.destroy()
})
