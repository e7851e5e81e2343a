import { once } from 'node:events'
import { expect, test } from 'vitest'
import { createTurns, type Turns } from '../../src/edge/turns.ts'
import { answersOn, exchange, open } from '../support/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** How requests share the event loop (ASVS 15.1.3, 15.2.2). */

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

function spin(ms: number): void {
  const endsAt = performance.now() + ms
  while (performance.now() < endsAt);
}

/** Longer than requests are begun in a turn, so that a turn begins one at a time. */
const SHORT_MS = 1.5
/** So long that fewer requests of strangers are begun in the next. */
const LONG_MS = 6

/** Networks in upper case are known. `begin` returns whether anything was left to begin. */
function enter(turns: Turns, network: string, begin: () => boolean): void {
  const isKnown = network === network.toUpperCase()
  turns.enter({ network, isKnown }, { begin, refuse: () => expect.unreachable() })
}

/** Returns the networks in the order in which their requests began, which take long. */
function runAll(networks: string[]): Promise<string> {
  const turns = createTurns()
  const begun: string[] = []
  const { promise, resolve } = Promise.withResolvers<string>()
  for (const network of networks) {
    enter(turns, network, () => {
      begun.push(network)
      if (begun.length === networks.length) resolve(begun.join(''))
      spin(SHORT_MS)
      return true
    })
  }
  return promise
}

test('a turn begins a request of each network before the second of one network', async () => {
  // The first request begins immediately, unless this process was held up just then.
  expect(await runAll([...'aaaaaaaaabcbc'])).toMatch(/^a?abcabca{6,7}$/)
})

test('a turn begins requests of known networks and strangers in alternation', async () => {
  // Here too, the first can begin immediately.
  expect(await runAll([...'abcdefghijklmXXXYYY'])).toMatch(/^[a-z]?(?:[XY][a-z]|[a-z][XY]){6}/)
})

test('a long turn begins one stranger, and all known networks', async () => {
  const turns = createTurns()
  const begun = { known: 0, stranger: 0 }
  const counting = (kind: keyof typeof begun) => () => {
    begun[kind] += 1
    return true
  }
  /** A turn that other work makes long. */
  const longTurn = async () => {
    await nextTurn()
    spin(LONG_MS)
  }
  for (const _ of times(800, () => {})) enter(turns, 'a', counting('stranger'))
  for (const _ of times(10, () => {})) await longTurn()
  // From here on they are held back, although they do next to nothing.
  begun.stranger = 0
  for (const _ of times(20, () => {})) enter(turns, 'B', counting('known'))
  let turnsPassed = 0
  while (begun.known < 20) {
    await longTurn()
    turnsPassed += 1
  }
  expect(begun.stranger).toBeGreaterThanOrEqual(1)
  expect(begun.stranger).toBeLessThanOrEqual(turnsPassed + 1)
})

test('a turn does not count a request with nothing left to begin', async () => {
  const turns = createTurns()
  let asked = 0
  const { promise, resolve } = Promise.withResolvers<void>()
  enter(turns, 'b', () => {
    spin(SHORT_MS)
    return true
  })
  for (const _ of times(500, () => {}))
    enter(turns, 'a', () => {
      asked += 1
      return false
    })
  enter(turns, 'a', () => {
    resolve()
    return true
  })
  await promise
  expect(asked).toBe(500)
})

const PROXY = '127.0.0.7'
const ORIGIN = 'https://app.example.com'
const service = await openTestService({ env: { TRUST_PROXY: PROXY, DASHBOARD_ORIGINS: ORIGIN } })
const [address = ''] = service.addresses
const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
const from = (ipAddress: string) => `X-Forwarded-For: ${ipAddress}\r\n`
const longRequest = (headers: string) =>
  `POST /api/nothing ${HEAD}${headers}Content-Type: application/json\r\nContent-Length: 300000\r\n\r\n`
const nothing = (headers: string) => `GET /api/nothing ${HEAD}${headers}\r\n`

test('a known network overtakes the requests of 200 strangers', async () => {
  const { accessToken } = await service.loginAs(await service.addCompany())
  const own = from('198.51.100.7')
  const check = `GET /api/auth/session ${HEAD}${own}Authorization: Bearer ${accessToken}\r\n\r\n`
  const connectOne = async () => {
    const socket = open(address, PROXY)
    await once(socket, 'connect')
    return socket
  }
  const strangers = await Promise.all(times(200, connectOne))
  const member = await connectOne()
  const order: string[] = []
  const ask = async (socket: typeof member, who: string, bytes: string) => {
    socket.write(bytes)
    await once(socket, 'data')
    order.push(who)
  }
  await ask(member, 'member', check)
  order.length = 0
  await Promise.all([
    ...strangers.map((socket, n) => ask(socket, 'stranger', nothing(from(`198.18.0.${n}`)))),
    ask(member, 'member', nothing(own)),
  ])
  // It was sent last, and strangers take turns by network.
  expect(order.indexOf('member')).toBeLessThan(150)
  for (const socket of [...strangers, member]) socket.destroy()
})

test('only an active credential makes a network known', async () => {
  const own = `${from('198.51.100.8')}Connection: close\r\n`
  const headersOf = async (headers: string, path: string) => {
    const socket = open(address, PROXY)
    socket.write(`GET /api${path} ${HEAD}${headers}\r\n`)
    return (await answersOn(socket))[0]?.headers
  }
  const { accessToken } = await service.loginAs(await service.addCompany())
  const credential = `Authorization: Bearer ${accessToken}\r\n`
  expect(await headersOf(own, '/.well-known/jwks.json')).not.toHaveProperty('x-network-proven')
  expect(await headersOf(own + credential, '/auth/session')).toHaveProperty('x-network-proven', '1')
})

test('requests are answered 503, and end their connection, when a thousand wait (RFC 9112, 9.6)', async () => {
  const { accessToken } = await service.loginAs(await service.addCompany())
  const [full, other] = [from('198.51.100.9'), from('198.51.100.10')]
  const credential = `Authorization: Bearer ${accessToken}\r\n`
  // On a connection of the proxy, between two requests of a network that has room.
  const refusedBetween = [
    `GET /api/auth/session ${HEAD}${other}${credential}\r\n`,
    nothing(`${full}Origin: ${ORIGIN}\r\n`),
    `POST /api/auth/logout ${HEAD}${other}${credential}Content-Length: 0\r\n\r\n`,
  ].join('')
  const openAll = (count: number) => times(count, () => open(address, PROXY))
  const [crowd, late] = [openAll(150), openAll(20)]
  await Promise.all([...crowd, ...late].map((socket) => once(socket, 'connect')))
  // A turn accepts one connection. When the last is served, all are accepted.
  await exchange(address, nothing('Connection: close\r\n'))
  const answersOfLate = late.map((socket) => answersOn(socket))
  const served = Promise.race(crowd.map((socket) => once(socket, 'data')))
  for (const socket of crowd) socket.write(nothing(full).repeat(8))
  for (const socket of late) socket.write(refusedBetween)
  for (const answers of await Promise.all(answersOfLate)) {
    expect(answers.map(({ status }) => status)).toEqual([200, 503])
    const [, refused] = answers
    const { code, status, requestId } = JSON.parse(refused?.body ?? '{}')
    expect([status, code]).toEqual([503, 'overloaded'])
    expect(refused?.headers).toMatchObject({
      'retry-after': expect.stringMatching(/^\d+$/),
      connection: 'close',
      'x-request-id': requestId,
      'access-control-allow-origin': ORIGIN,
    })
  }
  expect(String(await served)).toMatch(/^HTTP\/1\.1 404 /)
  for (const socket of crowd) socket.destroy()
  const shed = await service.metric('gatehouse_requests_shed_total{reason="turn"}')
  expect(shed).toBeGreaterThanOrEqual(late.length)
  expect((await service.getSession({ token: accessToken })).status).toBe(200)
})

test('waiting requests are bounded by what is read of their bodies', async () => {
  const sockets = times(400, () => open(address))
  await exchange(address, nothing('Connection: close\r\n'))
  const all = sockets.map((socket) => once(socket, 'data'))
  for (const socket of sockets) socket.write(longRequest('') + ' '.repeat(1_000))
  const answers = (await Promise.all(all)).map(String)
  for (const socket of sockets) socket.destroy()
  const refused = answers.filter((answer) => answer.startsWith('HTTP/1.1 503 '))
  expect(refused.length).toBeGreaterThan(10)
  for (const answer of refused) expect(answer).toContain('Too many bodies are being sent at once')
})

test('requests that only announce long bodies leave room for others', async () => {
  // As much as is there for all: 64 MiB, from many networks.
  const sockets = times(300, () => open(address, PROXY))
  await exchange(address, nothing('Connection: close\r\n'))
  sockets.forEach((socket, n) => {
    socket.write(longRequest(from(`198.18.${n >> 8}.${n & 255}`)))
  })
  const { status } = await service.call('/auth/login', { json: { companyId: 'x'.repeat(6_000) } })
  expect(status).toBe(400)
  for (const socket of sockets) socket.destroy()
})
