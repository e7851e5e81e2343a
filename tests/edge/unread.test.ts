import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { createUnreadAnswers } from '../../src/edge/unread.ts'
import { openTestService, times } from '../support/test-service.ts'

/** Responses that clients do not read are not kept for long (ASVS 13.1.2, 15.1.3). */

const service = await openTestService()
const [address = ''] = service.addresses
const [server] = service.apps.map((app) => app.server)

const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
const KEY_SET = `GET /api/.well-known/jwks.json ${HEAD}\r\n`
const OPENAPI = `GET /api/openapi.json ${HEAD}\r\n`

/** A connection that reads one byte on demand. */
function openReader(): Socket {
  const { hostname, port } = new URL(address)
  const onread = { buffer: Buffer.alloc(1), callback: () => false }
  return connect({ port: Number(port), host: hostname, onread }).on('error', () => {})
}

/** Sends requests until the responses fill the system's buffers. */
async function fill(socket: Socket): Promise<void> {
  for (let isFull = false; !isFull; ) {
    const [[, response]] = await Promise.all([once(server ?? socket, 'request'), socket.write(OPENAPI)])
    const { socket: peer } = response
    await expect.poll(() => response.writableFinished || peer.writableLength > 0).toBe(true)
    isFull = !response.writableFinished
  }
}

test('only unread responses that hold memory end after ten seconds', async () => {
  const honest = openReader()
  const [[, { socket: peer }]] = await Promise.all([once(server ?? honest, 'request'), honest.write(KEY_SET)])
  const slow = openReader()
  await fill(slow)
  let seconds = 0
  const trickle = () => {
    service.clock.advance(1)
    seconds += 1
    slow.resume()
    return service.metric('gatehouse_connections_closed_total')
  }
  await expect.poll(trickle, { interval: 300, timeout: 60_000 }).toBe(1)
  expect(seconds).toBeGreaterThanOrEqual(10)
  expect(await service.metric('gatehouse_connections')).toBe(1)
  expect(peer.destroyed).toBe(false)
  for (const socket of [honest, slow]) socket.destroy()
})

function openSender(writableLength: number) {
  const socket = {
    writableLength,
    bytesWritten: 1_000,
    isClosed: false,
    destroy() {
      socket.isClosed = true
      return socket as never
    },
  }
  return socket
}

test('each unread response has its own ten seconds', () => {
  const answers = createUnreadAnswers()
  const socket = openSender(100)
  answers.add(socket)
  answers.check(0)
  socket.writableLength = 1
  answers.check(9_999)
  Object.assign(socket, { writableLength: 100, bytesWritten: 2_000 })
  answers.check(10_001)
  answers.check(20_000)
  socket.writableLength = 0
  answers.check(20_001)
  socket.writableLength = 100
  answers.check(30_000)
  expect(answers.check(39_999)).toBe(0)
  expect(answers.check(40_000)).toBe(1)
  expect(socket.isClosed).toBe(true)
  expect(answers.connections).toBe(0)
})

test('the largest unread responses end first if the total is too large', () => {
  const answers = createUnreadAnswers(1_000)
  const sockets = [300, 500, 400, 0, 200].map(openSender)
  for (const socket of sockets) answers.add(socket)
  expect(answers.check(0)).toBe(1)
  expect(sockets.map(({ isClosed }) => isClosed)).toEqual([false, true, false, false, false])
  for (const socket of times(2, () => openSender(600))) answers.add(socket)
  expect(answers.check(1)).toBe(2)
  expect(answers.connections).toBe(4)
  expect(answers.check(2)).toBe(0)
})
