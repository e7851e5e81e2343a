import { spawnSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import type { Socket } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { signedRequest } from '../../scripts/kit/events.ts'
import { clientLine, startProxy } from '../../scripts/kit/haproxy.ts'
import { expectProblem } from '../http/problem.ts'
import { answersOn, exchange, open } from '../http/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** The reverse proxy that is shipped: HAProxy with deploy/haproxy.cfg, and only its variables changed. */

const HOST = '127.0.0.1'
const service = await openTestService({ env: { TRUST_PROXY: HOST } })
const [address = ''] = service.addresses
const [platformAddress = ''] = service.platformAddresses
const admin = await service.addCompany()
const hostOf = (url: string) => new URL(url).host

const shared = new AsyncDisposableStack()
afterAll(() => shared.disposeAsync())

/** A server on loopback until the end of the tests; returns its URL. */
async function listen(server: Server): Promise<string> {
  await once(server.listen(0, HOST), 'listening')
  shared.defer(() => void server.close())
  const bound = server.address()
  return `http://${HOST}:${typeof bound === 'object' ? bound?.port : ''}`
}

/** An instance that is no gatehouse, for what gatehouse never does. */
const instance = (handle: RequestListener) => listen(createServer(handle))
/** Says of an instance whether it is ready. */
let readyStatus = 200
const ready = await instance((_, answer) => answer.writeHead(200).end())
const asSaid = await instance((_, answer) => answer.writeHead(readyStatus).end())

/** The proxy before two instances; by default before the service, and a second one that nobody started. */
async function openProxy(
  variables: Record<string, string> = {},
  instances = [address],
  how: Omit<Parameters<typeof startProxy>[0], 'variables'> = {},
  platform = platformAddress,
) {
  const cleanup = new AsyncDisposableStack()
  onTestFinished(() => cleanup.disposeAsync())
  const [first = address, second] = instances.map(hostOf)
  return await startProxy(
    {
      variables: {
        INSTANCE_1: first,
        INSTANCE_1_OPS: hostOf(ready),
        INSTANCE_2: second ?? first,
        INSTANCE_1_PLATFORM: hostOf(platform),
        INSTANCE_2_PLATFORM: hostOf(platform),
        INSTANCE_2_OPS: second === undefined ? `${HOST}:1` : hostOf(ready),
        ...variables,
      },
      ...how,
    },
    cleanup,
  )
}

const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
/** What an instance of the tests answers when it is told to. */
const HELD = `GET /held ${HEAD}Connection: close\r\n\r\n`
const KEY_SET = `GET /api/.well-known/jwks.json ${HEAD}Connection: close\r\n\r\n`
/** A request that takes a place and does not end: nothing of its body is sent. */
function unfinished(path: string, headers: Record<string, string> = {}): string {
  const all = {
    'content-type': 'application/json',
    'content-length': '2',
    expect: '100-continue',
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} ${HEAD}${lines.join('')}\r\n`
}

/** Sends a request from an IP address of loopback; `as` is a client that a balancer names. */
async function ask(url: string, { bytes = KEY_SET, from = '127.0.1.1', as = '' } = {}) {
  const socket = open(url, as ? HOST : from)
  socket.write((as && clientLine(as)) + bytes)
  const [answer] = await answersOn(socket)
  return answer
}
const statusOf = async (...asked: Parameters<typeof ask>) => (await ask(...asked))?.status

/** A connection that has a place: its request is in progress, and does not end. */
async function hold(url: string, from: string, bytes = unfinished('/api/auth/login')): Promise<Socket> {
  const socket = open(url, from)
  onTestFinished(() => void socket.destroy())
  socket.write(bytes)
  expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 100 /)
  return socket
}

describe('a client', () => {
  test('is the peer, whatever X-Forwarded-For says (ASVS 4.1.3, 15.3.4)', async () => {
    const { url } = await openProxy()
    const forged = 'X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 198.51.100.10\r\n'
    const answer = await ask(url, {
      bytes: KEY_SET.replace('\r\n\r\n', `\r\n${forged}\r\n`),
      from: '127.0.1.7',
    })
    expect(answer?.status).toBe(200)
    const line = () => service.logs.find((text) => text.includes(answer?.headers['x-request-id'] ?? '?'))
    await expect.poll(line).toContain('"ipAddress":"127.0.1.7"')
  })

  test('is named by a balancer that is listed, and by nobody else', async () => {
    const { url } = await openProxy({ BALANCERS: HOST })
    const answer = await ask(url, { as: '192.0.2.77' })
    const line = () => service.logs.find((text) => text.includes(answer?.headers['x-request-id'] ?? '?'))
    await expect.poll(line).toContain('"ipAddress":"192.0.2.77"')
    expect(await statusOf(url, { bytes: clientLine('192.0.2.77') + KEY_SET, from: '127.0.1.2' })).toBe(400)
  })

  test('is told nothing of what the service tells the proxy about its network', async () => {
    const { url } = await openProxy()
    const { accessToken } = await service.loginAs(admin)
    const asked = { headers: { authorization: `Bearer ${accessToken}` } }
    const direct = await request(`${address}/api/auth/session`, asked)
    const proxied = await request(`${url}/api/auth/session`, asked)
    expect(direct.headers['x-network-proven']).toBe('1')
    expect(proxied.statusCode).toBe(200)
    expect(proxied.headers['x-network-proven']).toBeUndefined()
    const refused = await request(`${address}/api/auth/session`)
    expect(refused.headers['x-network-proven']).toBeUndefined()
    await Promise.all([direct, proxied, refused].map(({ body }) => body.dump()))
  })
})

describe('of one network,', () => {
  test('a connection above its share is closed, and others are accepted (ASVS 13.1.2)', async () => {
    const { url } = await openProxy({ NETWORK_OPEN_CONNECTIONS: '3' })
    const held: Socket[] = []
    for (const _ of times(3, () => {})) held.push(await hold(url, '127.0.2.1'))
    expect(await statusOf(url, { from: '127.0.2.1' })).toBeUndefined()
    expect(await statusOf(url, { from: '127.0.2.2' })).toBe(200)
    held[0]?.destroy()
    await expect.poll(() => statusOf(url, { from: '127.0.2.1' })).toBe(200)
  })

  test('so many new connections are accepted', async () => {
    const { url } = await openProxy({ NETWORK_NEW_CONNECTIONS_IN_10_S: '5' })
    const statuses = []
    for (const _ of times(6, () => {})) statuses.push(await statusOf(url, { from: '127.0.2.3' }))
    expect(statuses).toEqual([...times(5, () => 200), undefined])
    expect(await statusOf(url, { from: '127.0.2.4' })).toBe(200)
  })

  test('an IPv6 /64, which is one', async () => {
    const { url } = await openProxy({ NETWORK_NEW_CONNECTIONS_IN_10_S: '4', BALANCERS: HOST })
    const statuses = []
    for (const n of times(5, (n) => n)) statuses.push(await statusOf(url, { as: `2001:db8:1:1::${n + 1}` }))
    expect(statuses).toEqual([...times(4, () => 200), undefined])
    expect(await statusOf(url, { as: '2001:db8:1:2::1' })).toBe(200)
  })
})

test('a connection that sends nothing is closed', async () => {
  const { url } = await openProxy()
  const socket = open(url, '127.0.1.1').resume()
  await once(socket, 'end')
})

describe('its own answers are problems, with the headers of every answer:', () => {
  async function expectOwn(answer: Awaited<ReturnType<typeof ask>>, status: number, code: string) {
    if (!answer) throw new Error('there is no answer')
    expectProblem(answer, [status, code])
    expect(answer.headers['retry-after']).toBe('1')
    const { headers: usual } = await request(`${address}/api/nothing`)
    const ofService = Object.keys(usual).filter(
      (name) => !/^(?:date|connection|keep-alive|ratelimit.*)$/.test(name),
    )
    expect(Object.keys(answer.headers)).toEqual(expect.arrayContaining(ofService))
    for (const name of ofService.filter((name) => !/^(?:content-length|x-request-id)$/.test(name))) {
      expect([name, answer.headers[name]]).toEqual([name, usual[name]])
    }
  }

  test('429, where too much comes from a network', async () => {
    const { url } = await openProxy({ NETWORK_REQUESTS_PER_SECOND: '1' })
    const answers = await exchange(url, KEY_SET.replace('Connection: close\r\n', '').repeat(50) + KEY_SET)
    await expectOwn(
      answers.find(({ status }) => status === 429),
      429,
      'rate_limited',
    )
  })

  test('502, where an instance ends without an answer, and no other gets the request', async () => {
    let received = 0
    const broken = await instance(({ socket }) => {
      received += 1
      socket.destroy()
    })
    const { url } = await openProxy({}, [broken, broken])
    await expectOwn(await ask(url), 502, 'unavailable')
    expect(received).toBe(1)
  })

  test('503, where no instance is ready', async () => {
    const { url } = await openProxy({ INSTANCE_1_OPS: `${HOST}:1` })
    await expect.poll(() => statusOf(url)).toBe(503)
    await expectOwn(await ask(url), 503, 'unavailable')
  })

  test('504, where an instance gives no answer', async () => {
    const silent = await instance(() => {})
    const { url } = await openProxy({ ANSWER_WITHIN: '300ms' }, [silent])
    await expectOwn(await ask(url), 504, 'unavailable')
  })
})

describe('a request', () => {
  test('goes to another instance if one does not accept it, whatever its method', async () => {
    const gone = createServer()
    const url = await listen(gone)
    await once(gone.close(), 'close')
    const proxy = await openProxy({}, [url, address])
    const bytes = `POST /api/auth/login ${HEAD}Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`
    for (const _ of times(4, () => {})) expect(await statusOf(proxy.url, { bytes })).toBe(400)
  })

  test('with headers of 20 KB reaches the service, which answers 431', async () => {
    const { url } = await openProxy()
    const bytes = `GET /api/nothing ${HEAD}X-Long: ${'a'.repeat(20_000)}\r\nConnection: close\r\n\r\n`
    const answer = await ask(url, { bytes })
    if (!answer) throw new Error('there is no answer')
    expectProblem(answer, [431, 'headers_too_large'])
  })

  test('whose headers are not whole within 5 s is answered 408, and never reaches an instance', async () => {
    let received = 0
    const counting = await instance((_, answer) => {
      received += 1
      answer.end()
    })
    const { url } = await openProxy({}, [counting])
    expect(await statusOf(url, { bytes: `GET / ${HEAD}X-Slow: ` })).toBe(408)
    expect(received).toBe(0)
  })

  test('whose response is not read is cut off, and its instance is free again (ASVS 13.1.2)', async () => {
    const { promise: cutOff, resolve } = Promise.withResolvers<void>()
    const large = await instance((_, answer) => {
      answer.once('close', resolve)
      // More than the buffers of the sockets and of the proxy take.
      answer.end(Buffer.alloc(64 * 1024 * 1024))
    })
    const { url } = await openProxy({}, [large])
    const socket = open(url, '127.0.1.1').pause()
    onTestFinished(() => void socket.destroy())
    socket.write(KEY_SET)
    await cutOff
  })

  test('that follows another on its connection waits for the answer of that one', async () => {
    let underWay = 0
    let most = 0
    const slow = await instance(async (_, answer) => {
      underWay += 1
      most = Math.max(most, underWay)
      await new Promise((resolve) => setImmediate(resolve))
      underWay -= 1
      answer.end()
    })
    const { url } = await openProxy({}, [slow])
    const answers = await exchange(url, KEY_SET.replace('Connection: close\r\n', '').repeat(99) + KEY_SET)
    expect(answers.map(({ status }) => status)).toEqual(times(100, () => 200))
    expect(most).toBe(1)
  })
})

describe('the services of the platform', () => {
  const VERIFY = `GET /verify ${HEAD}Connection: close\r\n\r\n`

  test('ask at an address of their own, and find nothing else there; nor do clients find theirs', async () => {
    const { url, platformUrl } = await openProxy()
    const refused = await ask(platformUrl, { bytes: VERIFY })
    expect([refused?.status, refused?.headers['x-auth-error']]).toEqual([401, 'missing_credentials'])
    expect(await statusOf(platformUrl)).toBe(404)
    expect(await statusOf(url, { bytes: VERIFY })).toBe(404)
  })

  test('are neither counted nor slowed down by network, whatever is refused', async () => {
    const limits = {
      NETWORK_OPEN_CONNECTIONS: '1',
      NETWORK_NEW_CONNECTIONS_IN_10_S: '1',
      NETWORK_REQUESTS_PER_SECOND: '1',
      NETWORK_REFUSALS_IN_10_S: '1',
      INSTANCE_REQUESTS: '1',
    }
    const { platformUrl } = await openProxy(limits)
    const answers = await Promise.all(times(50, () => statusOf(platformUrl, { bytes: VERIFY })))
    expect(answers).toEqual(times(50, () => 401))
  })

  test('wait longer than clients for an answer, and are told by 504 that there is none', async () => {
    const slow = await instance((_, answer) => void setTimeout(() => answer.end(), 1_000))
    const within = (longest: string) => ({ ANSWER_WITHIN: '300ms', PLATFORM_ANSWER_WITHIN: longest })
    const patient = await openProxy(within('100s'), [slow], {}, slow)
    expect(await statusOf(patient.platformUrl)).toBe(200)
    expect(await statusOf(patient.url)).toBe(504)
    const silent = await instance(() => {})
    const { platformUrl } = await openProxy(within('300ms'), [silent], {}, silent)
    const answer = await ask(platformUrl)
    const { code } = JSON.parse(answer?.body ?? '{}')
    expect([answer?.status, code, answer?.headers['cache-control']]).toEqual([504, 'unavailable', 'no-store'])
  })

  test('are answered 503 while no instance is ready', async () => {
    const { platformUrl } = await openProxy({ INSTANCE_1_OPS: `${HOST}:1` })
    await expect.poll(() => statusOf(platformUrl, { bytes: VERIFY })).toBe(503)
    const { headers, body } = (await ask(platformUrl, { bytes: VERIFY })) ?? {}
    expect(headers?.['x-request-id']).toBe(JSON.parse(String(body)).requestId)
  })
})

describe('during a rolling update, a file of the pages', () => {
  const FILE = 'export {}'
  /** Two instances of which one has the file, two that do not have it, and how often all were asked. */
  async function openVersions() {
    let received = 0
    const version = (hasFile: boolean) =>
      instance((_, answer) => {
        received += 1
        if (hasFile) answer.setHeader('x-network-proven', '1').end(FILE)
        else answer.writeHead(404, { 'cache-control': 'no-store', 'content-length': 4 }).end('none')
      })
    const instances = [await version(false), await version(true)]
    const none = [await version(false), await version(false)]
    return { instances, none, count: () => received }
  }
  const asked = (path: string, method = 'GET') => `${method} ${path} ${HEAD}Connection: close\r\n\r\n`

  test('that one instance does not have is sent by the other, in each kind of places', async () => {
    const { instances } = await openVersions()
    const { url } = await openProxy({}, instances)
    const bytes = asked('/assets/ABCDEFGH.js')
    const from = '127.0.4.1'
    // The first answer makes the network known.
    for (const _ of times(2, () => {})) {
      const answers = await Promise.all(times(50, () => ask(url, { bytes, from })))
      expect(answers.map((answer) => `${answer?.status} ${answer?.body}`)).toEqual(
        times(50, () => `200 ${FILE}`),
      )
    }
  })

  test('that no instance has is answered 404, as the last one does', async () => {
    const { none, count } = await openVersions()
    const { url } = await openProxy({}, none)
    const answer = await ask(url, { bytes: asked('/assets/ABCDEFGH.js'), from: '127.0.4.2' })
    expect([answer?.status, answer?.body, answer?.headers['cache-control']]).toEqual([
      404,
      'none',
      'no-store',
    ])
    expect(count()).toBe(3)
  })

  test.for([
    ['GET', '/api/auth/session'],
    ['GET', '/nothing'],
    ['POST', '/assets/ABCDEFGH.js'],
    ['DELETE', '/assets/ABCDEFGH.js'],
  ])('is all that is asked for again: %s %s is not', async ([method = '', path = '']) => {
    const { none, count } = await openVersions()
    const { url } = await openProxy({}, none)
    expect(await statusOf(url, { bytes: asked(path, method), from: '127.0.4.3' })).toBe(404)
    expect(count()).toBe(1)
  })

  test('is asked for once by a network whose requests are refused by the hundred', async () => {
    const { none, count } = await openVersions()
    const { url } = await openProxy({ NETWORK_REFUSALS_IN_10_S: '5' }, none)
    const from = '127.0.4.4'
    const refused = () => statusOf(url, { bytes: asked('/api/nothing'), from })
    expect(await Promise.all(times(60, refused))).toEqual(times(60, () => 404))
    const before = count()
    expect(await statusOf(url, { bytes: asked('/assets/ABCDEFGH.js'), from })).toBe(404)
    expect(count() - before).toBe(1)
  })
})

/** Here, each of two instances has one of a kind. */
describe('places of requests in progress', () => {
  const session = async (from: string) => {
    const { accessToken } = await service.loginAs(admin)
    const bytes = `GET /api/auth/session ${HEAD}Authorization: Bearer ${accessToken}\r\nConnection: close\r\n\r\n`
    return { bytes, from }
  }

  test('are not taken from networks that are known by those that are not', async () => {
    const { url } = await openProxy({ INSTANCE_REQUESTS: '1' }, [address, address])
    const known = await session('127.0.3.1')
    expect(await statusOf(url, known)).toBe(200)
    const held = await hold(url, '127.0.3.2')
    await hold(url, '127.0.3.2')
    let isServed = false
    const stranger = ask(url, { from: '127.0.3.3' }).then((answer) => {
      isServed = true
      return answer?.status
    })
    expect(await statusOf(url, known)).toBe(200)
    expect(await statusOf(url, { from: '127.0.3.1' })).toBe(200)
    expect(isServed).toBe(false)
    held.destroy()
    expect(await stranger).toBe(200)
  })

  test('are few for a network whose requests are refused by the hundred', async () => {
    let arrived = 0
    const release = Promise.withResolvers<void>()
    const refusing = await instance(async ({ url }, answer) => {
      if (url === '/held') {
        arrived += 1
        await release.promise
      }
      answer.writeHead(404).end()
    })
    const limits = { NETWORK_REFUSALS_IN_10_S: '5', INSTANCE_REFUSED_REQUESTS: '1' }
    const { url } = await openProxy(limits, [refusing, refusing])
    const from = '127.0.3.6'
    // Many more than five, of which a busy machine takes some out of the ten seconds.
    expect(await Promise.all(times(60, () => statusOf(url, { from })))).toEqual(times(60, () => 404))
    const answers = Promise.all(times(10, () => statusOf(url, { bytes: HELD, from })))
    await expect.poll(() => arrived).toBe(2)
    const others = Promise.all(times(10, () => statusOf(url, { bytes: HELD, from: '127.0.3.7' })))
    await expect.poll(() => arrived).toBe(12)
    release.resolve()
    expect([...(await answers), ...(await others)]).toEqual(times(20, () => 404))
  })

  test.each(['/api/events/ingest', '/api/events/%69ngest', '/%61pi/events/inges%74'])(
    'are not taken by events whose body does not come: %s',
    async (path) => {
      const { url } = await openProxy({ INSTANCE_INGESTS: '1', INSTANCE_REQUESTS: '1' }, [address, address])
      const sender = { companyId: admin.companyId, signingKey: randomBytes(32) }
      const { headers } = signedRequest(sender, randomUUID(), '{}', service.clock.now())
      for (const _ of times(2, () => {})) await hold(url, '127.0.3.4', unfinished(path, headers))
      expect(await statusOf(url, { from: '127.0.3.5' })).toBe(200)
    },
  )
})

describe('an instance', () => {
  test('that is not ready gets no more requests, and gets them again when it is', async () => {
    const named = (name: string) => instance((_, answer) => answer.setHeader('x-name', name).end())
    const { url } = await openProxy({ INSTANCE_1_OPS: hostOf(asSaid) }, [await named('a'), await named('b')])
    const names = async () => {
      const answers = []
      for (const _ of times(4, () => {})) answers.push((await ask(url))?.headers['x-name'])
      return new Set(answers)
    }
    onTestFinished(() => {
      readyStatus = 200
    })
    await expect.poll(names).toEqual(new Set(['a', 'b']))
    readyStatus = 503
    await expect.poll(names).toEqual(new Set(['b']))
    readyStatus = 200
    await expect.poll(names).toEqual(new Set(['a', 'b']))
  })
})

test('500 servers that start at the same time behind one address are all signed in, beside people', async () => {
  const started = await openTestService({ env: { TRUST_PROXY: HOST, RATE_LIMIT_SCALE: '1' } })
  // Room for them, and no waits that a busy machine could make too long. The limits of a network are those that are shipped.
  const room = {
    MAX_CONNECTIONS: '1200',
    STRANGERS_CONNECTIONS: '1100',
    INSTANCE_REQUESTS: '600',
    ANSWER_WITHIN: '100s',
  }
  const { url } = await openProxy(room, [started.addresses[0] ?? ''])
  const { companyId, ...owner } = await started.addCompany()
  const { accessToken: token } = await started.loginAs({ companyId, ...owner })
  const json = { name: 'Worker', role: 'viewer' }
  const fleet = await Promise.all(times(10, () => started.call('/auth/members', { token, json })))
  const people = await Promise.all(times(10, () => started.addUser({ companyId })))
  const dispatcher = new Agent({ connections: 510 })
  onTestFinished(() => dispatcher.destroy())
  const signIn = async ({ email, password }: { email: string; password: string }) => {
    const { statusCode, body } = await request(`${url}/api/auth/login`, {
      method: 'POST',
      dispatcher,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ companyId, email, password }),
    })
    await body.dump()
    return statusCode
  }
  const servers = times(50, () => fleet.map(({ body }) => body)).flat()
  const statuses = await Promise.all([...servers, ...people].map(signIn))
  expect(statuses).toEqual(times(510, () => 200))
})

test('a proxy that is told to stop accepts no more, and finishes what has begun', async () => {
  const begun = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const slow = await instance(async ({ url }, answer) => {
    if (url === '/held') {
      begun.resolve()
      await held.promise
    }
    answer.end()
  })
  const proxy = await openProxy({ ANSWER_WITHIN: '100s' }, [slow])
  const answer = ask(proxy.url, { bytes: HELD })
  await begun.promise
  const ended = once(proxy.process, 'exit')
  proxy.process.kill('SIGUSR1')
  await expect.poll(() => statusOf(proxy.url)).toBeUndefined()
  held.resolve()
  expect((await answer)?.status).toBe(200)
  expect(await ended).toEqual([0, null])
})

test('a proxy that is reloaded still knows the networks that it knew', async () => {
  const proving = await instance((_, answer) => answer.setHeader('x-network-proven', '1').end())
  const flags = ['-W']
  const { url, process, output } = await openProxy({ STRANGERS_CONNECTIONS: '1' }, [proving], { flags })
  const formers = () => output().match(/Former worker .* exited/g)?.length ?? 0
  /** Of the network that was known, and of another one, beside a connection that has the place of strangers. */
  async function statusesBeside() {
    const beside = open(url, '127.0.5.3')
    beside.write(KEY_SET.replace('Connection: close\r\n', ''))
    await Promise.race([once(beside, 'data'), once(beside, 'close')])
    const statuses = [await statusOf(url, { from: '127.0.5.1' }), await statusOf(url, { from: '127.0.5.2' })]
    beside.destroy()
    return statuses
  }
  // A process hands over once it has waited 5 s for what is handed over to it.
  const reload = async () => {
    await expect.poll(() => statusOf(url, { from: '127.0.5.1' })).toBe(200)
    await new Promise((resolve) => setTimeout(resolve, 6_000))
    const before = formers()
    process.kill('SIGUSR2')
    await expect.poll(formers).toBe(before + 1)
    return await statusesBeside()
  }
  await expect.poll(reload).toEqual([200, undefined])
})

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some((one) => one.address === '::1'))
test.skipIf(!hasIpv6)('a proxy takes IPv4 and IPv6, and names clients as what they are', async () => {
  const file = await readFile(resolve(import.meta.dirname, '../../deploy/haproxy.cfg'), 'utf8')
  const [, addresses = ''] = /PUBLIC_BIND "(.*) ssl/.exec(file) ?? []
  const echo = await instance(({ headers }, answer) => answer.end(headers['x-forwarded-for']))
  const { url } = await openProxy({}, [echo], { addresses: addresses.replaceAll('443', 'PORT') })
  for (const host of ['127.0.0.1', '[::1]']) {
    const { statusCode, body } = await request(url.replace('127.0.0.1', host))
    expect([statusCode, await body.text()]).toEqual([200, host.replace(/[[\]]/g, '')])
  }
})

describe('TLS', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-tls-'))
  afterAll(() => rm(folder, { recursive: true }))
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  spawnSync('openssl', [
    ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost'.split(
      ' ',
    ),
    ...['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', certificate],
  ])
  const both = join(folder, 'both.pem')
  await writeFile(both, `${await readFile(certificate, 'utf8')}${await readFile(key, 'utf8')}`)
  const ca = await readFile(certificate)
  const options = `ssl crt ${both} alpn h2,http/1.1`

  test('ends at the proxy, from version 1.2', async () => {
    const { url } = await openProxy({}, [address], { options })
    const askWith = async (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3') => {
      const dispatcher = new Agent({ connect: { ca, minVersion: version, maxVersion: version } })
      const { statusCode, body } = await request(`${url}/api/.well-known/jwks.json`, { dispatcher })
      await body.dump()
      await dispatcher.close()
      return statusCode
    }
    expect(await askWith('TLSv1.2')).toBe(200)
    expect(await askWith('TLSv1.3')).toBe(200)
    await expect(askWith('TLSv1.1')).rejects.toThrow()
  })

  test('speaks HTTP/2', async () => {
    const { url } = await openProxy({}, [address], { options })
    const client = connectHttp2(url, { ca })
    const stream = client.request({ ':path': '/api/.well-known/jwks.json' })
    const [headers] = await once(stream, 'response')
    expect(headers[':status']).toBe(200)
    stream.resume()
    client.close()
  })
})
