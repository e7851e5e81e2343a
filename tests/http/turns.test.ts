import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { createTurns, type Turns } from '../../src/http/turns.ts'
import { openTestService, times } from '../support/test-service.ts'
import { answersOn, exchange, open } from './raw.ts'

/** How requests share the event loop (ASVS 15.1.3, 15.2.2). */

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

function spin(ms: number): void {
  const endsAt = performance.now() + ms
  while (performance.now() < endsAt);
}

/** Longer than requests are begun in a turn, so that a turn begins one at a time. */
const ONE_MS = 1.5
/** So long that fewer requests of strangers are begun in the next. */
const LONG_MS = 6

describe('a turn of the event loop', () => {
  /** Each entry takes `ms`. Resolves with the networks in the order in which they began. */
  function runAll(entries: string[], ms: number, turns: Turns = createTurns()): Promise<string> {
    const begun: string[] = []
    const { promise, resolve } = Promise.withResolvers<string>()
    for (const network of entries) {
      turns.enter(
        { network, isKnown: network === network.toUpperCase() },
        {
          begin() {
            begun.push(network)
            if (begun.length === entries.length) resolve(begun.join(''))
            spin(ms)
          },
          refuse: () => expect.unreachable(),
        },
      )
    }
    return promise
  }

  test('begins a request of each network before the second of one network', async () => {
    // The first request finds nobody waiting, unless this process was held up just then.
    expect(await runAll([...'aaaaaaaaabcbc'], ONE_MS)).toMatch(/^a?abcabca{6,7}$/)
  })

  test('begins a request of those who are known and one of a stranger, whoever came first', async () => {
    const begun = await runAll([...'abcdefghijklmXXXYYY'], ONE_MS)
    expect(begun.slice(1, 13)).toMatch(/^(?:[XY][a-z]|[a-z][XY]){6}$/)
  })

  test('leaves time for other work between requests', async () => {
    let begun = 0
    const turns = createTurns()
    const entry = {
      begin() {
        begun += 1
        spin(ONE_MS)
      },
      refuse: () => expect.unreachable(),
    }
    for (const _ of times(100, () => {})) turns.enter({ network: 'a', isKnown: false }, entry)
    await nextTurn()
    expect(begun).toBeLessThan(5)
  })

  test('begins one stranger, and all who are known, while the turns are long', async () => {
    const turns = createTurns()
    const seen: string[] = []
    const enter = (network: string, isKnown: boolean) =>
      turns.enter(
        { network, isKnown },
        { begin: () => seen.push(isKnown ? 'known' : 'stranger'), refuse: () => expect.unreachable() },
      )
    // Other work makes ten turns long. The strangers do next to nothing, and are held back nevertheless.
    for (const _ of times(800, () => {})) enter('a', false)
    for (const _ of times(10, () => {})) {
      await nextTurn()
      spin(LONG_MS)
    }
    await nextTurn()
    seen.length = 0
    for (const _ of times(20, () => {})) enter('b', true)
    await nextTurn()
    expect(seen.filter((who) => who === 'known')).toHaveLength(20)
    expect(seen.filter((who) => who === 'stranger').length).toBeLessThanOrEqual(2)
    expect(seen).toContain('stranger')
  })

  test('refuses a network whose requests wait by the thousand, and no other', () => {
    const turns = createTurns()
    const refused: string[] = []
    const enter = (network: string) =>
      turns.enter(
        { network, isKnown: false },
        { begin: () => spin(ONE_MS), refuse: () => refused.push(network) },
      )
    for (const _ of times(1_001, () => {})) enter('a')
    enter('b')
    expect(refused).toEqual([])
    enter('a')
    expect(refused).toEqual(['a'])
  })
})

describe('requests', () => {
  const PROXY = '127.0.0.7'
  const KNOWN = '198.51.100.7'
  const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
  const from = (ipAddress: string) => `X-Forwarded-For: ${ipAddress}\r\n`
  const nothing = (headers: string) => `GET /api/nothing ${HEAD}${headers}\r\n`

  test('from a network where a credential held do not wait for those of 400 strangers', async () => {
    const service = await openTestService({ env: { TRUST_PROXY: PROXY } })
    const { accessToken } = await service.loginAs(await service.addCompany())
    const check = `GET /api/auth/session ${HEAD}${from(KNOWN)}Authorization: Bearer ${accessToken}\r\n\r\n`
    const address = service.addresses[0] ?? ''
    const connectOne = async () => {
      const socket = open(address, PROXY)
      await once(socket, 'connect')
      return socket
    }
    const strangers = await Promise.all(times(400, connectOne))
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
      ...strangers.map((socket, n) => ask(socket, 'stranger', nothing(from(`198.18.${n >> 8}.${n & 255}`)))),
      ask(member, 'member', nothing(from(KNOWN))),
    ])
    // It was sent last, and strangers take turns by network: otherwise it would be answered last.
    expect(order.indexOf('member')).toBeLessThan(350)
    for (const socket of [...strangers, member]) socket.destroy()
  })

  test('of which thousands wait are refused on arrival: 503, when to come again, and the connection closed', async () => {
    const service = await openTestService()
    const address = service.addresses[0] ?? ''
    const sockets = times(300, () => open(address))
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    // A turn accepts one connection. When the last is served, all are accepted.
    await exchange(address, nothing('Connection: close\r\n'))
    const all = sockets.map((socket) => answersOn(socket))
    for (const socket of sockets) socket.write(nothing('').repeat(7) + nothing('Connection: close\r\n'))
    const answers = (await Promise.all(all)).flat()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404, 503]))
    const shed = answers.filter(({ status }) => status === 503)
    for (const { headers, body } of shed) {
      expect(JSON.parse(body)).toMatchObject({ code: 'overloaded', status: 503 })
      expect(headers).toMatchObject({ 'retry-after': expect.stringMatching(/^\d+$/), connection: 'close' })
      expect(headers['x-request-id']).toBe(JSON.parse(body).requestId)
    }
    const metrics = (await service.registries[0]?.metrics()) ?? ''
    const [, counted] = /^gatehouse_requests_shed_total (\d+)$/m.exec(metrics) ?? []
    expect(Number(counted)).toBeGreaterThanOrEqual(shed.length)
  })

  test('that wait with long bodies are bounded by what is read of these', async () => {
    const service = await openTestService()
    const address = service.addresses[0] ?? ''
    const sockets = times(200, () => open(address))
    await exchange(address, nothing('Connection: close\r\n'))
    const all = sockets.map((socket) => once(socket, 'data'))
    const head = `POST /api/nothing ${HEAD}Content-Type: application/json\r\nContent-Length: 300000\r\n\r\n`
    for (const socket of sockets) socket.write(head + ' '.repeat(1_000))
    const answers = (await Promise.all(all)).map(String)
    for (const socket of sockets) socket.destroy()
    const refused = answers.filter((answer) => answer.startsWith('HTTP/1.1 503 '))
    expect(refused.length).toBeGreaterThan(10)
    for (const answer of refused) expect(answer).toContain('Too many bodies are being sent at once')
  })
})
