import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createBodyBudget } from '../../src/edge/body-budget.ts'
import { openBody } from '../../src/edge/read-body.ts'
import { open } from '../support/raw.ts'
import { times } from '../support/test-service.ts'

/** What becomes of the bytes of a body (ASVS 15.1.3, 15.2.2). */

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

/** The chunks that somebody else listens for, as they arrive. A chunk whose memory was freed has no bytes left. */
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
])('a body %s is freed with all that arrived of it', async (_, limit, taken, code) => {
  const budget = createBodyBudget(new Registry())
  budget.open('192.0.2.1', 0).take(taken)
  const { promise, resolve } = Promise.withResolvers<{ refused: unknown; chunks: Buffer[] }>()
  const address = await listen(async (message, response) => {
    const read = openBody(message, response, limit, budget, '192.0.2.1')
    const refused = read().catch((error: unknown) => error)
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
  const budget = createBodyBudget(new Registry())
  const { promise, resolve } = Promise.withResolvers<Buffer>()
  const address = await listen(async (message, response) => {
    const body = await openBody(message, response, MEGABYTE, budget, '192.0.2.1')()
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
