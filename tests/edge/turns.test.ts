import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { createTurns, type Turns } from '../../src/edge/turns.ts'
import { answersOn, exchange, open } from '../http/raw.ts'
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
            return true
          },
          refuse: () => expect.unreachable(),
        },
      )
    }
    return promise
  }

  test('begins a request of each network before the second of one network', async () => {
    // The first request begins at once, unless this process was held up just then.
    expect(await runAll([...'aaaaaaaaabcbc'], SHORT_MS)).toMatch(/^a?abcabca{6,7}$/)
  })

  test('begins a request of those who are known and one of a stranger, whoever came first', async () => {
    const begun = await runAll([...'abcdefghijklmXXXYYY'], SHORT_MS)
    // Here too, the first may begin at once.
    expect(begun).toMatch(/^[a-z]?(?:[XY][a-z]|[a-z][XY]){6}/)
  })

  test('leaves time for other work between requests', async () => {
    let begun = 0
    const turns = createTurns()
    const entry = {
      begin() {
        begun += 1
        spin(SHORT_MS)
        return true
      },
      refuse: () => expect.unreachable(),
    }
    for (const _ of times(100, () => {})) turns.enter({ network: 'a', isKnown: false }, entry)
    await nextTurn()
    expect(begun).toBeLessThan(5)
  })

  test('begins one stranger, and those who are known, while the turns are long', async () => {
    const turns = createTurns()
    const begun = { known: 0, stranger: 0 }
    const enter = (network: string, isKnown: boolean) =>
      turns.enter(
        { network, isKnown },
        {
          begin() {
            begun[isKnown ? 'known' : 'stranger'] += 1
            return true
          },
          refuse: () => expect.unreachable(),
        },
      )
    /** A turn that other work makes long. */
    const longTurn = async () => {
      await nextTurn()
      spin(LONG_MS)
    }
    for (const _ of times(800, () => {})) enter('a', false)
    for (const _ of times(10, () => {})) await longTurn()
    // From here on they are held back, although they do next to nothing.
    begun.stranger = 0
    for (const _ of times(20, () => {})) enter('b', true)
    let turnsPassed = 0
    while (begun.known < 20) {
      await longTurn()
      turnsPassed += 1
    }
    expect(begun.stranger).toBeGreaterThanOrEqual(1)
    expect(begun.stranger).toBeLessThanOrEqual(turnsPassed + 1)
  })

  test('does not count a request of which nothing is left to begin', async () => {
    const turns = createTurns()
    let asked = 0
    const gone = {
      begin() {
        asked += 1
        return false
      },
      refuse: () => expect.unreachable(),
    }
    const busy = {
      begin() {
        spin(SHORT_MS)
        return true
      },
      refuse: () => expect.unreachable(),
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    const present = {
      begin() {
        resolve()
        return true
      },
      refuse: () => expect.unreachable(),
    }
    turns.enter({ network: 'b', isKnown: false }, busy)
    for (const _ of times(500, () => {})) turns.enter({ network: 'a', isKnown: false }, gone)
    turns.enter({ network: 'a', isKnown: false }, present)
    await promise
    expect(asked).toBe(500)
  })

  test('refuses a network whose requests wait by the thousand, and no other', () => {
    const turns = createTurns()
    const refused: string[] = []
    const enter = (network: string) =>
      turns.enter(
        { network, isKnown: false },
        {
          begin() {
            spin(SHORT_MS)
            return true
          },
          refuse: () => refused.push(network),
        },
      )
    for (const _ of times(1_000, () => {})) enter('a')
    enter('b')
    expect(refused).toEqual([])
    // One more waits if the first has begun at once.
    for (const _ of times(2, () => {})) enter('a')
    enter('b')
    expect(new Set(refused)).toEqual(new Set(['a']))
  })
})

describe('requests', () => {
  const PROXY = '127.0.0.7'
  const KNOWN = '198.51.100.7'
  const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
  const from = (ipAddress: string) => `X-Forwarded-For: ${ipAddress}\r\n`
  const longRequest = (headers: string) =>
    `POST /api/nothing ${HEAD}${headers}Content-Type: application/json\r\nContent-Length: 300000\r\n\r\n`
  const nothing = (headers: string) => `GET /api/nothing ${HEAD}${headers}\r\n`

  const KEY_SET = `GET /api/.well-known/jwks.json ${HEAD}${from(KNOWN)}\r\n`

  test.each([
    ['where a credential held do not wait for', true],
    ['that only read what is public wait among', false],
  ])('from a network %s those of 400 strangers', async (_, isProven) => {
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
    await ask(member, 'member', isProven ? check : KEY_SET)
    order.length = 0
    await Promise.all([
      ...strangers.map((socket, n) => ask(socket, 'stranger', nothing(from(`198.18.${n >> 8}.${n & 255}`)))),
      ask(member, 'member', nothing(from(KNOWN))),
    ])
    // It was sent last, and strangers take turns by network.
    if (isProven) expect(order.indexOf('member')).toBeLessThan(350)
    else expect(order.indexOf('member')).toBeGreaterThan(350)
    for (const socket of [...strangers, member]) socket.destroy()
  })

  test('of which thousands wait are refused on arrival: 503, when to come again, and the connection closed', async () => {
    const origin = 'https://app.example.com'
    const service = await openTestService({ env: { DASHBOARD_ORIGINS: origin } })
    const address = service.addresses[0] ?? ''
    const sockets = times(300, () => open(address))
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    // A turn accepts one connection. When the last is served, all are accepted.
    await exchange(address, nothing('Connection: close\r\n'))
    const all = sockets.map((socket) => answersOn(socket))
    const ofPage = `Origin: ${origin}\r\n`
    for (const socket of sockets)
      socket.write(nothing(ofPage).repeat(7) + nothing(`${ofPage}Connection: close\r\n`))
    const answers = (await Promise.all(all)).flat()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404, 503]))
    const shed = answers.filter(({ status }) => status === 503)
    for (const { headers, body } of shed) {
      expect(JSON.parse(body)).toMatchObject({ code: 'overloaded', status: 503 })
      expect(headers).toMatchObject({ 'retry-after': expect.stringMatching(/^\d+$/), connection: 'close' })
      expect(headers['x-request-id']).toBe(JSON.parse(body).requestId)
      expect(headers['access-control-allow-origin']).toBe(origin)
    }
    const metrics = (await service.registries[0]?.metrics()) ?? ''
    const [, counted] = /^gatehouse_requests_shed_total\{reason="turn"\} (\d+)$/m.exec(metrics) ?? []
    expect(Number(counted)).toBeGreaterThanOrEqual(shed.length)
  })

  test('that wait with long bodies are bounded by what is read of these', async () => {
    const service = await openTestService()
    const address = service.addresses[0] ?? ''
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

  test('that only announce long bodies leave room for those of others', async () => {
    const service = await openTestService({ env: { TRUST_PROXY: PROXY } })
    const address = service.addresses[0] ?? ''
    // As much as is there for all: 64 MiB, from many networks.
    const sockets = times(600, () => open(address, PROXY))
    await exchange(address, nothing('Connection: close\r\n'))
    sockets.forEach((socket, n) => {
      socket.write(longRequest(from(`198.18.${n >> 8}.${n & 255}`)))
    })
    const { status } = await service.call('/auth/login', { json: { companyId: 'x'.repeat(6_000) } })
    expect(status).toBe(400)
    for (const socket of sockets) socket.destroy()
  })

  test('that come on a connection after a refused one are not processed (RFC 9112, 9.6)', async () => {
    const service = await openTestService()
    const address = service.addresses[0] ?? ''
    const { accessToken } = await service.loginAs(await service.addCompany())
    const sockets = times(300, () => open(address))
    await exchange(address, nothing('Connection: close\r\n'))
    const logout = `POST /api/auth/logout ${HEAD}Authorization: Bearer ${accessToken}\r\nContent-Length: 0\r\n\r\n`
    const all = sockets.map((socket) => answersOn(socket))
    for (const socket of sockets.slice(0, 280))
      socket.write(nothing('').repeat(7) + nothing('Connection: close\r\n'))
    // These come when too many wait.
    for (const socket of sockets.slice(280)) socket.write(nothing('') + logout)
    const answers = await Promise.all(all.slice(280))
    expect(answers.map((some) => some.map(({ status }) => status))).toEqual(times(20, () => [503]))
    expect((await service.getSession({ token: accessToken })).status).toBe(200)
  })
})
