import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import {
  findingsHold,
  megabytesAnHourBelow,
  memoryBelow,
  rowsAtMost,
  succeed,
} from '../../scripts/flood-test/aims.ts'
import type { Figures } from '../../scripts/flood-test/figures.ts'
import { namesOf, TOGETHER } from '../../scripts/flood-test/floods/list.ts'
import { createAnswerReader } from '../../scripts/flood-test/generators/answers.ts'
import { holdConnections } from '../../scripts/flood-test/generators/held-connections.ts'
import { getText, postText } from '../../scripts/flood-test/generators/request-text.ts'
import { sendSteadily } from '../../scripts/flood-test/generators/steady-requests.ts'
import type { Seen } from '../../scripts/flood-test/honest/kinds.ts'
import { ipv4Networks, ipv6Networks, loopbackIpAddress } from '../../scripts/flood-test/networks.ts'
import { toText } from '../../scripts/flood-test/report/text.ts'
import { growthBetween, scaleGrowth } from '../../scripts/flood-test/target/tables.ts'

/** A server on loopback; returns its URL. */
async function listen(onConnection: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function seen(kind: Seen['kind'], values: Partial<Seen>): Seen {
  return { kind, sent: 100, succeeded: 100, share: 1, p50: 1, p99: 10, errors: {}, ...values }
}

function figuresOf(values: Partial<Figures>): Figures {
  return {
    flood: 'any',
    about: '',
    idleSeconds: 20,
    floodSeconds: 60,
    idle: [],
    flooded: [],
    attack: {},
    memoryMb: { idle: 100, flooded: 100 },
    tables: { flooded: [], honest: [] },
    findings: [],
    verdicts: [],
    ...values,
  }
}

test('so many networks come in turn, and no other', () => {
  const networks = ipv4Networks(5_000)
  const all = new Set(Array.from({ length: 20_000 }, (_, n) => networks(n)))
  expect(all.size).toBe(5_000)
  expect(networks(5_000)).toBe(networks(0))
  expect([...all].every((network) => /^198\.1[89]\.\d{1,3}\.\d{1,3}$/.test(network))).toBe(true)
})

test('an IPv6 /48 has 65,536 networks, and goes on with further addresses of them', () => {
  const network = ipv6Networks()
  expect(network(0)).toBe('2001:db8:7:0::1')
  expect(network(65_535)).toBe('2001:db8:7:ffff::1')
  expect(network(65_536)).toBe('2001:db8:7:0::2')
})

test('an address on loopback is never that of a network or of a broadcast', () => {
  expect(loopbackIpAddress(16, 0)).toBe('127.16.0.1')
  expect(loopbackIpAddress(16, 253)).toBe('127.16.0.254')
  expect(loopbackIpAddress(16, 254)).toBe('127.16.1.1')
  expect(loopbackIpAddress(16, 65_024)).toBe(loopbackIpAddress(16, 0))
})

test('answers are counted wherever their bytes are divided', () => {
  const text = 'HTTP/1.1 200 OK\r\n\r\n{}HTTP/1.1 429 Too Many\r\n\r\nHTTP/1.1 503 \r\n\r\n'
  for (let at = 0; at <= text.length; at += 1) {
    const reader = createAnswerReader()
    expect([...reader.read(text.slice(0, at)), ...reader.read(text.slice(at))]).toEqual(['200', '429', '503'])
  }
})

test('a request says how many bytes its body has', () => {
  expect(postText('/a', '{"name":"ä"}', { 'X-A': '1' })).toBe(
    'POST /a HTTP/1.1\r\nHost: flood.example\r\nContent-Type: application/json\r\nContent-Length: 13\r\nX-A: 1\r\n\r\n{"name":"ä"}',
  )
})

test('requests go on at their rate although none is answered, and stop at the depth', async () => {
  const url = await listen((socket) => socket.resume())
  const attack = sendSteadily({ url, rate: 1_000, connections: 4, depth: 5, requestOf: () => getText('/') })
  onTestFinished(() => attack.stop())
  await expect.poll(() => attack.counts()['not sent'] ?? 0).toBeGreaterThan(100)
  expect(attack.counts()['sent']).toBe(20)
})

test('connections that are closed are opened again, and their answers are counted', async () => {
  let opened = 0
  const url = await listen((socket) => {
    opened += 1
    socket.once('data', () => socket.end('HTTP/1.1 408 Request Timeout\r\n\r\n'))
  })
  const attack = holdConnections({ url, count: 3, onOpen: (socket) => socket.write('x') })
  onTestFinished(() => attack.stop())
  await expect.poll(() => attack.counts()['408'] ?? 0).toBeGreaterThan(9)
  expect(opened).toBeGreaterThan(9)
  expect(attack.counts()['held at most']).toBeLessThanOrEqual(3)
})

test('a share and memory are judged by what honest users saw', () => {
  const figures = figuresOf({
    idle: [seen('session check', { p99: 10 })],
    flooded: [seen('session check', { p99: 31 }), seen('refresh', { share: 0.97 })],
    memoryMb: { idle: 100, flooded: 351 },
  })
  const judge = (aim: (figures: Figures) => Figures['verdicts']) => aim(figures).map(({ isMet }) => isMet)
  expect(judge(succeed(0.98, 'session check', 'refresh'))).toEqual([true, false])
  expect(judge(memoryBelow(350))).toEqual([false])
})

test('rows that honest users write do not count for the flood', () => {
  const before = [{ table: 'a', rows: 10, bytes: 8192 }]
  const after = [
    { table: 'a', rows: 310, bytes: 8192 },
    { table: 'b', rows: 0, bytes: 0 },
  ]
  const flooded = growthBetween(before, after)
  expect(flooded).toEqual([{ table: 'a', rows: 300, bytes: 0 }])
  const honest = scaleGrowth([{ table: 'a', rows: 80, bytes: 0 }], 3)
  const figures = figuresOf({ tables: { flooded, honest } })
  expect(rowsAtMost(0, 60)(figures)[0]).toMatchObject({ isMet: true, measured: 'about 60' })
  expect(rowsAtMost(0, 59)(figures)[0]).toMatchObject({ isMet: false })
})

test('bytes are judged by what an hour at the same pace would write', () => {
  const tables = {
    flooded: [
      { table: 'a', rows: 300, bytes: 3 * 2 ** 20 },
      { table: 'b', rows: 90, bytes: 2 ** 20 },
    ],
    // A third of what was written to one table, and more than all that was written to the other.
    honest: [
      { table: 'a', rows: 100, bytes: 2 ** 30 },
      { table: 'b', rows: 100, bytes: 8 },
    ],
  }
  const judge = (most: number) => megabytesAnHourBelow(most)(figuresOf({ tables }))[0]
  expect(judge(121)).toMatchObject({ isMet: true })
  expect(judge(120)).toMatchObject({
    isMet: false,
    measured: '2.0 MB in 60 s, at that pace 120 MB an hour',
  })
})

test('a finding without an aim decides nothing', () => {
  const findings = [
    { what: 'time', value: 12.34, unit: 'ms', isMet: true },
    { what: 'mails', value: 3, unit: '' },
    { what: 'mail', value: 'lost', unit: '', isMet: false },
  ]
  expect(findingsHold(figuresOf({ findings }))).toEqual([
    { aim: 'time', measured: '12.3 ms', isMet: true },
    { aim: 'mail', measured: 'lost', isMet: false },
  ])
})

test('figures of a machine that has no time for the honest load alone are said not to count', () => {
  const text = (share: number) =>
    toText(figuresOf({ idle: [seen('refresh', { share })], flooded: [seen('refresh', {})] }))
  expect(text(0.97)).toContain('too busy for the figures to count')
  expect(text(0.98)).not.toContain('too busy')
  expect(text(1)).toMatch(/^refresh +100\/100 100\.0 %/m)
})

test('all together are floods that there are', () => {
  expect(TOGETHER.filter((name) => !namesOf(name).includes(name))).toEqual([])
})

test('a name stands for a flood or for its family', () => {
  expect(namesOf('sign-ins-1')).toEqual(['sign-ins-1'])
  expect(namesOf('sign-ins')).toContain('sign-ins-ipv6')
  expect(namesOf('sig')).toEqual([])
})

test('through the proxy, a connection names the client of its first request', async () => {
  const received: string[] = []
  const url = await listen((socket) => {
    socket.setEncoding('latin1').on('data', (text: string) => received.push(text))
  })
  const headers = { 'X-Forwarded-For': '2001:db8:7::1' }
  const attack = sendSteadily({
    url,
    rate: 1_000,
    connections: 1,
    depth: 2,
    isProxied: true,
    requestOf: () => getText('/', headers),
  })
  onTestFinished(() => attack.stop())
  await expect.poll(() => received.join('').split('GET / ').length).toBe(3)
  expect(received.join('')).toMatch(/^PROXY TCP6 2001:db8:7::1 ::1 1 1\r\nGET \/ /)
  expect(received.join('').split('PROXY').length).toBe(2)
})
