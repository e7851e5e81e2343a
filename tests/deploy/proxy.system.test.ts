import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import type { Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { resolve } from 'node:path'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { signedRequest } from '../../scripts/kit/events.ts'
import { clientLine, startProxy } from '../../scripts/kit/haproxy.ts'
import { makeCertificate } from '../support/certificate.ts'
import { whenDone } from '../support/cleanup.ts'
import { linesAbout } from '../support/log-lines.ts'
import { expectProblem } from '../support/problem.ts'
import { answersOn, exchange, open, type RawAnswer } from '../support/raw.ts'
import { openTestService, times } from '../support/test-service.ts'
import { loginOf } from '../workers/service.ts'

/** The shipped reverse proxy: HAProxy with deploy/haproxy.cfg. Only its variables change. */

const HOST = '127.0.0.1'
const service = await openTestService({ env: { TRUST_PROXY: HOST } })
const [address = ''] = service.addresses
const [platformAddress = ''] = service.platformAddresses
const admin = await service.addCompany()
const hostOf = (url: string) => new URL(url).host

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, HOST), 'listening')
  whenDone(async () => void server.close())
  return `http://${HOST}:${Object(server.address()).port}`
}

/** An instance other than gatehouse, for behavior that gatehouse never shows. */
const instance = (handle: RequestListener) => listen(createServer(handle))
const ready = await instance((_, answer) => answer.writeHead(200).end())

/** An instance that delays responses to /held. `release` sends them. */
async function holdingInstance(status = 200) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  let arrived = 0
  const url = await instance(async (message, answer) => {
    if (message.url === '/held') {
      arrived += 1
      await released
    }
    answer.writeHead(status).end()
  })
  return { url, release, arrived: () => arrived }
}

/** The proxy in front of instances: by default the service, and a second one that was never started. */
async function openProxy(
  variables: Record<string, string> = {},
  instances = [address],
  how: Omit<Parameters<typeof startProxy>[0], 'variables'> = {},
  platform = platformAddress,
) {
  const cleanup = new AsyncDisposableStack()
  whenDone(() => cleanup.disposeAsync())
  const [first = address, second] = instances.map(hostOf)
  const all = {
    INSTANCE_1: first,
    INSTANCE_1_OPS: hostOf(ready),
    INSTANCE_2: second ?? first,
    INSTANCE_1_PLATFORM: hostOf(platform),
    INSTANCE_2_PLATFORM: hostOf(platform),
    INSTANCE_2_OPS: second === undefined ? `${HOST}:1` : hostOf(ready),
    ...variables,
  }
  return await startProxy({ variables: all, ...how }, cleanup)
}

/** In front of the service, with the shipped variables. */
const shipped = await openProxy()

const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
const get = (path: string, method = 'GET') => `${method} ${path} ${HEAD}Connection: close\r\n\r\n`
const HELD = get('/held')
const VERIFY = get('/verify')
const KEY_SET = get('/api/.well-known/jwks.json')
/** `count` requests for one connection. */
const keySets = (count: number) => KEY_SET.replace('Connection: close\r\n', '').repeat(count - 1) + KEY_SET
/** A request that occupies a slot and never ends: its body is not sent. */
function unfinished(path: string, headers: Record<string, string> = { 'content-type': 'application/json' }) {
  const all = Object.entries({ 'content-length': '2', expect: '100-continue', ...headers })
  return `POST ${path} ${HEAD}${all.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
}

/** The result for a connection that closes without a response. */
const NOTHING: RawAnswer = { status: 0, headers: {}, body: '' }

/** Sends a request from a loopback address. `as` is the client that a balancer names. */
async function ask(url: string, { bytes = KEY_SET, from = '127.0.1.1', as = '' } = {}) {
  const socket = open(url, as ? HOST : from)
  socket.write((as && clientLine(as)) + bytes)
  const [answer = NOTHING] = await answersOn(socket)
  return answer
}
const statusOf = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).status

/** Opens a connection that keeps a slot: its request never ends. */
async function hold(url: string, from: string, bytes = unfinished('/api/auth/login')): Promise<Socket> {
  const socket = open(url, from)
  onTestFinished(() => void socket.destroy())
  socket.write(bytes)
  expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 100 /)
  return socket
}

/** Clients of an instance with a large response. The proxy cuts them off while other tests run. */
async function openSlowClients() {
  const cutOff = Promise.withResolvers<void>()
  const received: (string | undefined)[] = []
  const large = await instance(({ url }, answer) => {
    received.push(url)
    answer.once('close', cutOff.resolve)
    // More than the buffers of the sockets and the proxy hold.
    answer.end(Buffer.alloc(64 * 1024 * 1024))
  })
  const { url } = await openProxy({}, [large])
  const [silent, unread] = [open(url, '127.0.1.1').resume(), open(url, '127.0.1.1').pause()]
  whenDone(async () => void unread.destroy())
  unread.write(get('/large'))
  const halfHead = statusOf(url, { bytes: `GET / ${HEAD}X-Slow: ` })
  return { received, silentEnds: once(silent, 'end'), halfHead, unreadEnds: cutOff.promise }
}
const slowClients = await openSlowClients()

const expectClient = async (answer: RawAnswer, ipAddress: string) =>
  expect(await linesAbout(service, answer)).toMatchObject([{ ipAddress }])

test('the client is the peer, whatever X-Forwarded-For says (ASVS 4.1.3, 15.3.4)', async () => {
  const forged = 'X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 198.51.100.10\r\n'
  const bytes = KEY_SET.replace('\r\n\r\n', `\r\n${forged}\r\n`)
  const answer = await ask(shipped.url, { bytes, from: '127.0.1.7' })
  expect(answer.status).toBe(200)
  await expectClient(answer, '127.0.1.7')
})

test('clients do not see that their network is known', async () => {
  const { accessToken } = await service.loginAs(admin)
  const headers = { authorization: `Bearer ${accessToken}` }
  const [direct, proxied] = await Promise.all(
    [address, shipped.url].map((url) => fetch(`${url}/api/auth/session`, { headers })),
  )
  expect([direct?.status, direct?.headers.get('x-network-proven')]).toEqual([200, '1'])
  expect([proxied?.status, proxied?.headers.get('x-network-proven')]).toEqual([200, null])
})

const limited = await openProxy({ NETWORK_NEW_CONNECTIONS_IN_10_S: '4', BALANCERS: HOST })

test('only a listed balancer names the client', async () => {
  await expectClient(await ask(limited.url, { as: '192.0.2.77' }), '192.0.2.77')
  const bytes = clientLine('192.0.2.77') + KEY_SET
  expect(await statusOf(limited.url, { bytes, from: '127.0.1.2' })).toBe(400)
})

test.for<[network: string, clientOf: (n: number) => { from?: string; as?: string }]>([
  ['an IPv4 address', (n: number) => (n < 5 ? { from: '127.0.2.3' } : { from: '127.0.2.4' })],
  ['an IPv6 /64', (n: number) => ({ as: n < 5 ? `2001:db8:1:1::${n + 1}` : '2001:db8:1:2::1' })],
])('%s has its own limit of connections', async ([, clientOf]) => {
  const statuses = []
  for (const client of times(6, clientOf)) statuses.push(await statusOf(limited.url, client))
  expect(statuses).toEqual([200, 200, 200, 200, 0, 200])
})

test("a connection above its network's share is closed (ASVS 13.1.2)", async () => {
  const { url } = await openProxy({ NETWORK_OPEN_CONNECTIONS: '3' })
  const held: Socket[] = []
  for (const _ of times(3, () => {})) held.push(await hold(url, '127.0.2.1'))
  expect(await statusOf(url, { from: '127.0.2.1' })).toBe(0)
  expect(await statusOf(url, { from: '127.0.2.2' })).toBe(200)
  held[0]?.destroy()
  await expect.poll(() => statusOf(url, { from: '127.0.2.1' })).toBe(200)
})

/** Expects a problem with the headers that every response of the service has. */
async function expectOwn(answer: RawAnswer, ...expected: [status: number, code: string]) {
  expectProblem(answer, expected)
  expect(answer.headers['retry-after']).toBe('1')
  const { headers: usual } = await service.call('/nothing', { method: 'GET' })
  const ofService = Object.keys(usual).filter(
    (name) => !/^(?:date|connection|keep-alive|ratelimit.*)$/.test(name),
  )
  expect(Object.keys(answer.headers)).toEqual(expect.arrayContaining(ofService))
  for (const name of ofService.filter((name) => !/^(?:content-length|x-request-id)$/.test(name))) {
    expect([name, answer.headers[name]]).toEqual([name, usual[name]])
  }
}

test('a network that sends too much gets 429', async () => {
  const { url } = await openProxy({ NETWORK_REQUESTS_PER_SECOND: '1' })
  const answers = await exchange(url, keySets(50))
  const refused = answers.find(({ status }) => status !== 200) ?? NOTHING
  await expectOwn(refused, 429, 'rate_limited')
})

test('a request that an instance aborts gets 502, and is not retried', async () => {
  let received = 0
  const broken = await instance(({ socket }) => {
    received += 1
    socket.destroy()
  })
  const { url } = await openProxy({}, [broken, broken])
  await expectOwn(await ask(url), 502, 'unavailable')
  expect(received).toBe(1)
})

test('clients and platform services get 503 while no instance is ready', async () => {
  const { url, platformUrl } = await openProxy({ INSTANCE_1_OPS: `${HOST}:1` })
  await expect.poll(() => statusOf(url)).toBe(503)
  await expectOwn(await ask(url), 503, 'unavailable')
  await expect.poll(() => statusOf(platformUrl, { bytes: VERIFY })).toBe(503)
  expectProblem(await ask(platformUrl, { bytes: VERIFY }), [503, 'overloaded'])
})

test('a request without a response gets 504, later for platform services', async () => {
  const { url: slow, release } = await holdingInstance()
  const within = (longest: string) => ({ ANSWER_WITHIN: '300ms', PLATFORM_ANSWER_WITHIN: longest })
  const patient = await openProxy(within('100s'), [slow], {}, slow)
  const platform = statusOf(patient.platformUrl, { bytes: HELD })
  await expectOwn(await ask(patient.url, { bytes: HELD }), 504, 'unavailable')
  const { platformUrl } = await openProxy(within('300ms'), [slow], {}, slow)
  const answer = await ask(platformUrl, { bytes: HELD })
  expectProblem(answer, [504, 'unavailable'])
  expect(answer.headers['cache-control']).toBe('no-store')
  release()
  expect(await platform).toBe(200)
})

test('a request that one instance does not accept goes to the next', async () => {
  const gone = createServer()
  const url = await listen(gone)
  await once(gone.close(), 'close')
  const proxy = await openProxy({}, [url, address])
  const bytes = `POST /api/auth/login ${HEAD}Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`
  for (const _ of times(4, () => {})) expect(await statusOf(proxy.url, { bytes })).toBe(400)
})

test('headers of 20 KB reach the service, which returns 431', async () => {
  const bytes = `GET /api/nothing ${HEAD}X-Long: ${'a'.repeat(20_000)}\r\nConnection: close\r\n\r\n`
  expectProblem(await ask(shipped.url, { bytes }), [431, 'headers_too_large'])
})

test('platform services and clients have separate addresses, each with its own routes', async () => {
  const { url, platformUrl } = shipped
  const refused = await ask(platformUrl, { bytes: VERIFY })
  expect([refused.status, refused.headers['x-auth-error']]).toEqual([401, 'missing_credentials'])
  expect(await statusOf(platformUrl)).toBe(404)
  expect(await statusOf(url, { bytes: VERIFY })).toBe(404)
})

test('network limits do not apply to platform services', async () => {
  const limits = {
    NETWORK_OPEN_CONNECTIONS: '1',
    NETWORK_NEW_CONNECTIONS_IN_10_S: '1',
    NETWORK_REQUESTS_PER_SECOND: '1',
    NETWORK_REFUSALS_IN_10_S: '1',
    INSTANCE_REQUESTS: '1',
    INSTANCE_STRANGERS: '1',
  }
  const { platformUrl } = await openProxy(limits)
  const answers = await Promise.all(times(50, () => statusOf(platformUrl, { bytes: VERIFY })))
  expect(answers).toEqual(times(50, () => 401))
})

const FILE = 'export {}'
const ASSET = '/assets/ABCDEFGH.js'
let fileRequests = 0
/** An instance of a release with or without the file. */
const version = (hasFile: boolean) =>
  instance((_, answer) => {
    fileRequests += 1
    if (hasFile) answer.setHeader('x-network-proven', '1').end(FILE)
    else answer.writeHead(404, { 'cache-control': 'no-store', 'content-length': 4 }).end('none')
  })

test('a file missing on one instance comes from the next for everyone', async () => {
  const { url } = await openProxy({}, [await version(false), await version(true)])
  // The first response makes the network known.
  for (const _ of times(2, () => {})) {
    const answers = await Promise.all(times(50, () => ask(url, { bytes: get(ASSET), from: '127.0.4.1' })))
    expect(answers.map(({ status, body }) => `${status} ${body}`)).toEqual(times(50, () => `200 ${FILE}`))
  }
})

test('only missing files are requested again, and never for refused networks', async () => {
  const none = [await version(false), await version(false)]
  const { url } = await openProxy({ NETWORK_REFUSALS_IN_10_S: '5' }, none)
  async function requestsFor(from: string, path: string, method = 'GET') {
    const before = fileRequests
    const answer = await ask(url, { bytes: get(path, method), from })
    expect(answer).toMatchObject({ status: 404, body: 'none', headers: { 'cache-control': 'no-store' } })
    return fileRequests - before
  }
  expect(await requestsFor('127.0.4.2', ASSET)).toBe(3)
  expect(await requestsFor('127.0.4.3', ASSET, 'POST')).toBe(1)
  expect(await requestsFor('127.0.4.3', '/api/auth/session')).toBe(1)
  const refused = () => statusOf(url, { bytes: get('/api/nothing'), from: '127.0.4.4' })
  expect(await Promise.all(times(60, refused))).toEqual(times(60, () => 404))
  expect(await requestsFor('127.0.4.4', ASSET)).toBe(1)
})

test('strangers do not take the slots of known networks', async () => {
  const { url } = await openProxy({ INSTANCE_STRANGERS: '1' }, [address, address])
  const { accessToken } = await service.loginAs(admin)
  const bytes = get('/api/auth/session').replace('Conn', `Authorization: Bearer ${accessToken}\r\nConn`)
  const known = { bytes, from: '127.0.3.1' }
  expect(await statusOf(url, known)).toBe(200)
  const held = await hold(url, '127.0.3.2')
  await hold(url, '127.0.3.2')
  let isServed = false
  const stranger = statusOf(url, { from: '127.0.3.3' }).finally(() => {
    isServed = true
  })
  expect(await statusOf(url, known)).toBe(200)
  expect(await statusOf(url, { from: '127.0.3.1' })).toBe(200)
  expect(isServed).toBe(false)
  held.destroy()
  expect(await stranger).toBe(200)
})

test('a device that has signed in is known from a new network', async () => {
  const { url } = await openProxy({ INSTANCE_STRANGERS: '1' }, [address, address])
  const body = loginOf(admin).body
  const signIn = `POST /api/auth/login ${HEAD}Content-Type: application/json\r\nX-Session-Mode: cookie\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`
  const { status, headers } = await ask(url, { bytes: signIn, from: '127.0.3.8' })
  const [cookie] = /__Host-device=[^;,]+/.exec(headers['set-cookie'] ?? '') ?? []
  expect([status, cookie]).toEqual([200, expect.any(String)])
  const held = await hold(url, '127.0.3.2')
  await hold(url, '127.0.3.2')
  const withCookie = (value = '') => KEY_SET.replace('Conn', `Cookie: ${value}\r\nConn`)
  expect(await statusOf(url, { bytes: withCookie(cookie), from: '127.0.3.9' })).toBe(200)
  let isServed = false
  const forged = statusOf(url, { bytes: withCookie(`${cookie}x`), from: '127.0.3.9' }).finally(() => {
    isServed = true
  })
  expect(await statusOf(url, { bytes: withCookie(cookie), from: '127.0.3.9' })).toBe(200)
  expect(isServed).toBe(false)
  held.destroy()
  expect(await forged).toBe(200)
})

test('waiting requests of networks that sent less go first', async () => {
  let arrived: unknown[] = []
  let released = Promise.withResolvers<void>()
  const slow = await instance(async ({ headers }, answer) => {
    arrived.push(headers['x-forwarded-for'])
    await released.promise
    answer.end()
  })
  const { url, platformUrl } = await openProxy({ INSTANCE_STRANGERS: '1', BALANCERS: HOST }, [slow, slow])
  let tries = 0
  async function placeOfNewcomer() {
    arrived = []
    released = Promise.withResolvers()
    tries += 1
    const newcomer = `2001:db8:2:${tries}::1`
    // All from one IPv6 /48, which counts as one network.
    const flood = (n: number) => statusOf(url, { as: `2001:db8:1:${n}::1` })
    // In sequence, because HAProxy can admit more concurrent requests than there are slots.
    const waiting = [flood(0)]
    await expect.poll(() => arrived.length).toBe(1)
    waiting.push(flood(1))
    await expect.poll(() => arrived.length).toBe(2)
    waiting.push(...times(6, flood), statusOf(url, { as: newcomer }))
    // The proxy reads these after the requests above, unless it is delayed just then.
    for (const _ of times(10, () => {})) await statusOf(platformUrl, { bytes: VERIFY })
    released.resolve()
    expect(await Promise.all(waiting)).toEqual(times(9, () => 200))
    return arrived.indexOf(newcomer)
  }
  await expect.poll(placeOfNewcomer).toBe(2)
})

test.for<[whose: string, addressOf: (index: number) => string]>([
  ['a network', () => '203.0.113.6'],
  ['an IPv6 /48', (n) => `2001:db8:3:${n}::1`],
])('%s with hundreds of refused requests gets few slots', async ([, addressOf]) => {
  const refusing = await holdingInstance(404)
  const limits = { NETWORK_REFUSALS_IN_10_S: '5', INSTANCE_REFUSED_REQUESTS: '1', BALANCERS: HOST }
  const { url } = await openProxy(limits, [refusing.url, refusing.url])
  // Far more than five, because a busy machine spreads them over more than ten seconds.
  const refused = times(60, (n) => statusOf(url, { as: addressOf(n) }))
  expect(await Promise.all(refused)).toEqual(times(60, () => 404))
  const ask = (n: number) => statusOf(url, { bytes: HELD, as: addressOf(n) })
  // In sequence, because HAProxy can admit more concurrent requests than there are slots.
  const first = ask(0)
  await expect.poll(refusing.arrived).toBe(1)
  const second = ask(1)
  await expect.poll(refusing.arrived).toBe(2)
  const answers = Promise.all([first, second, ...times(8, ask)])
  const others = Promise.all(times(10, () => statusOf(url, { bytes: HELD, as: '203.0.113.7' })))
  await expect.poll(refusing.arrived).toBe(12)
  refusing.release()
  expect([...(await answers), ...(await others)]).toEqual(times(20, () => 404))
})

test('events whose body does not arrive leave room for other requests', async () => {
  const { url } = await openProxy({ INSTANCE_INGESTS: '2', INSTANCE_STRANGERS: '1' }, [address, address])
  const sender = { companyId: admin.companyId, signingKey: randomBytes(32) }
  const { headers } = signedRequest(sender, randomUUID(), '{}', service.clock.now())
  for (const path of ['/api/events/ingest', '/%61pi/events/inges%74'])
    for (const _ of times(2, () => {})) await hold(url, '127.0.3.4', unfinished(path, headers))
  expect(await statusOf(url, { from: '127.0.3.5' })).toBe(200)
})

test('an instance gets requests only while it is ready', async () => {
  let readyStatus = 200
  const asSaid = await instance((_, answer) => answer.writeHead(readyStatus).end())
  const named = (name: string) => instance((_, answer) => answer.setHeader('x-name', name).end())
  const { url } = await openProxy({ INSTANCE_1_OPS: hostOf(asSaid) }, [await named('a'), await named('b')])
  const names = async () => {
    const answers = []
    for (const _ of times(4, () => {})) answers.push((await ask(url)).headers['x-name'])
    return new Set(answers)
  }
  await expect.poll(names).toEqual(new Set(['a', 'b']))
  readyStatus = 503
  await expect.poll(names).toEqual(new Set(['b']))
  readyStatus = 200
  await expect.poll(names).toEqual(new Set(['a', 'b']))
})

test('500 service accounts behind one address sign in at the same time', async () => {
  const started = await openTestService({ env: { TRUST_PROXY: HOST, RATE_LIMIT_SCALE: '1' } })
  // Enough room, and no timeouts that a busy machine could miss. The limits of a network are the shipped ones.
  const room = { MAX_CONNECTIONS: '1200', STRANGERS_CONNECTIONS: '1100', ANSWER_WITHIN: '100s' }
  const { url } = await openProxy({ ...room, INSTANCE_STRANGERS: '600' }, started.addresses.slice(0, 1))
  const owner = await started.addCompany()
  const { accessToken: token } = await started.loginAs(owner)
  const json = { name: 'Worker', role: 'viewer' }
  const { body: server } = await started.call('/auth/members', { token, json })
  const dispatcher = new Agent({ connections: 500 })
  onTestFinished(() => dispatcher.destroy())
  const signIn = async () => {
    const login = loginOf({ ...owner, ...server })
    const { statusCode, body } = await request(`${url}/api/auth/login`, { dispatcher, ...login })
    await body.dump()
    return statusCode
  }
  expect(await Promise.all(times(500, signIn))).toEqual(times(500, () => 200))
})

test('a reloaded proxy keeps its known networks', async () => {
  const proving = await instance((_, answer) => answer.setHeader('x-network-proven', '1').end())
  const flags = ['-W']
  const { url, process, output } = await openProxy({ STRANGERS_CONNECTIONS: '1' }, [proving], { flags })
  const formers = () => output().match(/Former worker .* exited/g)?.length ?? 0
  /** Statuses for the known network and a new one, while a connection occupies the only slot for strangers. */
  async function statusesBeside() {
    const beside = open(url, '127.0.5.3')
    beside.write(KEY_SET.replace('Connection: close\r\n', ''))
    await Promise.race([once(beside, 'data'), once(beside, 'close')])
    const statuses = [await statusOf(url, { from: '127.0.5.1' }), await statusOf(url, { from: '127.0.5.2' })]
    beside.destroy()
    return statuses
  }
  // A process hands its state over only after it has waited 5 s for the previous one's state.
  const reload = async () => {
    await expect.poll(() => statusOf(url, { from: '127.0.5.1' })).toBe(200)
    await new Promise((resolve) => setTimeout(resolve, 6_000))
    const before = formers()
    process.kill('SIGUSR2')
    await expect.poll(formers).toBe(before + 1)
    return await statusesBeside()
  }
  await expect.poll(reload).toEqual([200, 0])
})

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some((one) => one.address === '::1'))
test.skipIf(!hasIpv6)("the proxy listens on IPv4 and IPv6, and forwards the client's address", async () => {
  const file = await readFile(resolve(import.meta.dirname, '../../deploy/haproxy.cfg'), 'utf8')
  const [, addresses = ''] = /PUBLIC_BIND "(.*) ssl/.exec(file) ?? []
  const echo = await instance(({ headers }, answer) => answer.end(headers['x-forwarded-for']))
  const { url } = await openProxy({}, [echo], { addresses: addresses.replaceAll('443', 'PORT') })
  for (const host of ['127.0.0.1', '[::1]']) {
    const { statusCode, body } = await request(url.replace('127.0.0.1', host))
    expect([statusCode, await body.text()]).toEqual([200, host.replace(/[[\]]/g, '')])
  }
})

test('the proxy accepts only TLS 1.2 or later with ECDHE and AEAD, and HTTP/2 (ASVS 11.6.2, 12.1.1, 12.1.2)', async () => {
  const { file, cert: ca } = await makeCertificate(HOST, ['rsa:2048'])
  const { url } = await openProxy({}, [address], { options: `ssl crt ${file} alpn h2,http/1.1` })
  const askWith = async (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3', ciphers = 'DEFAULT') => {
    const dispatcher = new Agent({ connect: { ca, minVersion: version, maxVersion: version, ciphers } })
    const { statusCode, body } = await request(`${url}/api/.well-known/jwks.json`, { dispatcher })
    await body.dump()
    await dispatcher.close()
    return statusCode
  }
  expect(await askWith('TLSv1.2')).toBe(200)
  expect(await askWith('TLSv1.3')).toBe(200)
  await expect(askWith('TLSv1.1')).rejects.toThrow()
  expect(await askWith('TLSv1.2', 'ECDHE+AESGCM')).toBe(200)
  // Without authenticated encryption, and without a fresh key for each connection.
  for (const ciphers of ['ECDHE-RSA-AES128-SHA256', 'AES128-GCM-SHA256', 'DHE-RSA-AES128-GCM-SHA256'])
    await expect(askWith('TLSv1.2', ciphers)).rejects.toThrow()

  const client = connectHttp2(url, { ca })
  const stream = client.request({ ':path': '/api/.well-known/jwks.json' })
  const [headers] = await once(stream, 'response')
  expect(headers[':status']).toBe(200)
  stream.resume()
  client.close()
})

/** Sends bytes that no HTTP/2 client would send. Returns the status, or 0 for a refusal of the stream or connection. */
async function askHttp2(url: string, header: readonly [string, string]): Promise<number> {
  const frame = (type: number, flags: number, stream: number, payload: Buffer) => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head.writeUInt8(type, 3)
    head.writeUInt8(flags, 4)
    head.writeUInt32BE(stream, 5)
    return Buffer.concat([head, payload])
  }
  const literal = (text: string) => Buffer.concat([Buffer.of(text.length), Buffer.from(text)])
  const request = [
    [':method', 'GET'],
    [':scheme', 'http'],
    [':authority', 'gatehouse.example'],
    [':path', '/'],
    header,
  ]
  const fields = request.map(([name = '', value = '']) =>
    Buffer.concat([Buffer.of(0), literal(name), literal(value)]),
  )
  const socket = open(url)
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  // SETTINGS, and HEADERS that end the stream.
  socket.write(Buffer.concat([frame(4, 0, 0, Buffer.alloc(0)), frame(1, 5, 1, Buffer.concat(fields))]))
  let received = Buffer.alloc(0)
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk])
    for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
      const type = received.readUInt8(at + 3)
      // The first byte of HEADERS is the indexed field :status 200.
      if (type === 1) return received.readUInt8(at + 9) === 0x88 ? 200 : 1
      // RST_STREAM or GOAWAY.
      if (type === 3 || type === 7) return 0
    }
  }
  return 0
}

test('headers of the connection and line breaks are refused over HTTP/2 (ASVS 4.2.3, 4.2.4)', async () => {
  const { url } = await openProxy({}, [ready], { options: 'proto h2' })
  expect(await askHttp2(url, ['x-one', '1'])).toBe(200)
  for (const header of [
    ['connection', 'close'],
    ['transfer-encoding', 'chunked'],
    ['keep-alive', 'timeout=5'],
    ['upgrade', 'h2c'],
    ['x-one', '1\r\nx-two: 2'],
    ['x-one: 1\r\nx-two', '2'],
  ] as const)
    expect([header, await askHttp2(url, header)]).toEqual([header, 0])
})

test('clients that send or read nothing are cut off (ASVS 13.1.2)', async () => {
  await slowClients.silentEnds
  expect(await slowClients.halfHead).toBe(408)
  await slowClients.unreadEnds
  expect(slowClients.received).toEqual(['/large'])
})
