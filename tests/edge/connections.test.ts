import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { connectionLimit } from '../../src/edge/connection-limit.ts'
import { isUnread } from '../../src/edge/unread.ts'
import { open } from '../http/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** Strangers cannot use up the connections that the process can hold (ASVS 13.1.2, 15.1.3). */

const MAX = 16
const SHARE = MAX / 4
const PROXY = '127.0.9.9'
const service = await openTestService({ maxConnections: MAX, env: { TRUST_PROXY: PROXY } })
const [address = ''] = service.addresses
const [registry] = service.registries

const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
const KEY_SET = `GET /api/.well-known/jwks.json ${HEAD}\r\n`
/** The head of a request that is in progress as soon as the server says 100 Continue. */
const UNFINISHED = `POST /api/auth/login ${HEAD}Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n`

const isOpen = (socket: Socket) => !socket.closed && !socket.readableEnded

/** Sends a request and returns the status of its answer; undefined if the connection is closed instead. */
async function ask(socket: Socket, bytes = KEY_SET): Promise<string | undefined> {
  const answer = new Promise<string>((resolve) => {
    socket.once('data', (chunk) => resolve(String(chunk)))
    socket.once('close', () => resolve(''))
  })
  socket.write(bytes)
  return /^HTTP\/1\.1 (\d{3})/.exec(await answer)?.[1]
}

/** A connection that has been accepted, and answered once. */
async function opened(from: string): Promise<Socket> {
  const socket = open(address, from)
  expect(await ask(socket)).toBe('200')
  return socket
}

/** A connection with a request in progress. */
async function busy(from: string): Promise<Socket> {
  const socket = open(address, from)
  expect(await ask(socket, UNFINISHED)).toBe('100')
  return socket
}

async function closeAll(sockets: Socket[]): Promise<void> {
  for (const socket of sockets) socket.destroy()
  await expect.poll(connections).toBe(0)
}

const readMetric = async (name: string, labels = {}) => {
  const { values = [] } = (await registry?.getSingleMetric(name)?.get()) ?? {}
  return (
    values.find((one) => Object.entries(labels).every(([key, value]) => one.labels[key] === value))?.value ??
    0
  )
}
const connections = () => readMetric('gatehouse_connections')

describe('of silent connections', () => {
  test('one network holds a quarter: the next one takes the place of the longest idle', async () => {
    const sockets: Socket[] = []
    for (const _ of times(3 * SHARE, () => {})) sockets.push(await opened('127.0.1.1'))
    await expect.poll(() => sockets.filter(isOpen)).toEqual(sockets.slice(-SHARE))
    // A request makes a connection the one that was idle least long.
    const [first] = sockets.slice(-SHARE)
    if (first) expect(await ask(first)).toBe('200')
    sockets.push(await opened('127.0.1.1'))
    expect(first && isOpen(first)).toBe(true)
    await closeAll(sockets)
  })

  test('many networks hold what the process can hold, and new ones are accepted', async () => {
    const sockets: Socket[] = []
    for (const network of times(3 * MAX, (i) => i + 1)) sockets.push(await opened(`127.0.2.${network}`))
    await expect.poll(() => sockets.filter(isOpen)).toEqual(sockets.slice(-MAX))
    expect(await connections()).toBe(MAX)
    await closeAll(sockets)
  })

  test('those that are idle make room also while the clock is put back', async () => {
    const sockets = [await opened('127.0.10.1')]
    service.clock.advance(1)
    for (const network of times(MAX - 1, (i) => i + 2)) sockets.push(await busy(`127.0.10.${network}`))
    service.clock.advance(-3600)
    sockets.push(await opened('127.0.10.200'))
    await expect.poll(() => sockets.filter(isOpen)).toEqual(sockets.slice(1))
    await closeAll(sockets)
  })

  test('none displaces one that has a request in progress', async () => {
    const honest = await busy('127.0.3.1')
    const sockets: Socket[] = []
    for (const network of times(2 * MAX, (i) => i + 1)) sockets.push(await opened(`127.0.4.${network}`))
    expect(await ask(honest, '{}')).toBe('400')
    await closeAll([...sockets, honest])
  })
})

test('a network whose only connection made room for its next one has its share and no more', async () => {
  const own = '127.0.8.1'
  const first = await busy(own)
  const others: Socket[] = []
  for (const network of times(MAX - 1, (i) => i + 1)) others.push(await busy(`127.0.8.${network + 1}`))
  service.clock.advance(1)
  // All are busy and stall, and no network has more than another: the one that is busy longest goes.
  const sockets = [first, await opened(own)]
  await expect.poll(() => isOpen(first)).toBe(false)
  for (const socket of others) socket.destroy()
  await expect.poll(connections).toBe(1)
  for (const _ of times(2 * SHARE, () => {})) sockets.push(await opened(own))
  await expect.poll(() => sockets.filter(isOpen)).toEqual(sockets.slice(-SHARE))
  await closeAll(sockets)
})

describe('of connections with requests that do not end', () => {
  test('the wider network that has most gives up the one longest in progress', async () => {
    const sockets: Socket[] = []
    for (const network of [1, 2, 3]) {
      for (const _ of times(SHARE, () => {})) sockets.push(await busy(`127.0.5.${network}`))
    }
    for (const _ of times(SHARE - 1, () => {})) sockets.push(await busy('127.0.5.4'))
    const honest = [await opened('127.0.6.1')]
    for (const network of [2, 3]) honest.push(await busy(`127.0.6.${network}`))
    const [first] = sockets
    await expect.poll(() => first && isOpen(first)).toBe(false)
    await expect.poll(() => sockets.filter(isOpen).length).toBe(4 * SHARE - 3)
    expect(honest.every(isOpen)).toBe(true)
    await closeAll([...sockets, ...honest])
  })

  test('a network at its share gives up one that takes a second or longer, and no other', async () => {
    const sockets: Socket[] = []
    for (const _ of times(SHARE, () => {})) sockets.push(await busy('127.0.7.1'))
    expect(await ask(open(address, '127.0.7.1'))).toBe(undefined)
    expect(sockets.every(isOpen)).toBe(true)
    const refused = await readMetric('gatehouse_connections_closed_total', { reason: 'refused' })
    expect(refused).toBeGreaterThan(0)
    service.clock.advance(1)
    sockets.push(await opened('127.0.7.1'))
    const [first] = sockets
    await expect.poll(() => first && isOpen(first)).toBe(false)
    await closeAll(sockets)
  })
})

describe('of connections whose answers are not taken', () => {
  const [server] = service.apps.map((app) => app.server)
  const OPENAPI = `GET /api/openapi.json ${HEAD}\r\n`

  /** A connection that reads a byte when it is told to. */
  function openReader(from: string): Socket {
    const { hostname, port } = new URL(address)
    const onread = { buffer: Buffer.alloc(1), callback: () => false }
    return connect({ port: Number(port), host: hostname, localAddress: from, onread }).on('error', () => {})
  }

  /** Sends requests until the answers fill what the system buffers. */
  async function fill(socket: Socket): Promise<void> {
    for (let isFull = false; !isFull; ) {
      const [[, response]] = await Promise.all([once(server ?? socket, 'request'), socket.write(OPENAPI)])
      const { socket: peer } = response
      await expect.poll(() => response.writableFinished || peer.writableLength > 0).toBe(true)
      isFull = !response.writableFinished
    }
  }

  test('those end after ten seconds, whatever trickles, that hold memory; small answers do not', async () => {
    const honest = openReader('127.0.11.1')
    const [[, { socket: peer }]] = await Promise.all([
      once(server ?? honest, 'request'),
      honest.write(KEY_SET),
    ])
    const slow = openReader('127.0.11.2')
    await fill(slow)
    let seconds = 0
    const trickle = () => {
      service.clock.advance(1)
      seconds += 1
      slow.resume()
      return readMetric('gatehouse_connections_closed_total', { reason: 'unread' })
    }
    await expect.poll(trickle).toBe(1)
    expect(seconds).toBeGreaterThanOrEqual(10)
    expect(await connections()).toBe(1)
    expect(peer.destroyed).toBe(false)
    await closeAll([honest, slow])
  })

  test('each answer has its own ten seconds', () => {
    const socket = { writableLength: 100, bytesWritten: 1_000 }
    const sending = { socket }
    expect(isUnread(sending, 0)).toBe(false)
    socket.writableLength = 1
    expect(isUnread(sending, 9_999)).toBe(false)
    expect(isUnread(sending, 10_000)).toBe(true)
    Object.assign(socket, { writableLength: 100, bytesWritten: 2_000 })
    expect(isUnread(sending, 10_001)).toBe(false)
    expect(isUnread(sending, 20_000)).toBe(false)
    socket.writableLength = 0
    expect(isUnread(sending, 20_001)).toBe(false)
    socket.writableLength = 100
    expect(isUnread(sending, 30_000)).toBe(false)
    expect(isUnread(sending, 40_000)).toBe(true)
  })
})

test('a trusted proxy has no share: its connections are those of many clients', async () => {
  const sockets: Socket[] = []
  for (const _ of times(3 * SHARE, () => {})) sockets.push(await opened(PROXY))
  expect(sockets.every(isOpen)).toBe(true)
  expect(await connections()).toBe(3 * SHARE)
  await closeAll(sockets)
})

test('the maximum follows from the limit of open files, with some left for the rest of the process', () => {
  expect(connectionLimit(10, 1024)).toBe(914)
  expect(connectionLimit(1000, 1024)).toBe(16)
  expect(connectionLimit(10, 1_048_576)).toBe(10_000)
  expect(connectionLimit(10, Number.POSITIVE_INFINITY)).toBe(10_000)
  expect(connectionLimit(10)).toBeGreaterThanOrEqual(16)
})
