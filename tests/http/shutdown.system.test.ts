import { once } from 'node:events'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { findPlace } from '../../scripts/kit/places.ts'
import { addReader } from '../support/platform.ts'
import { answersOn, exchange, open } from '../support/raw.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'

/** The service runs as its own process, on a test service's database. */

const testService = await openTestService()
const admin = await testService.addCompany()
const { start, launch } = createServerProcesses(testService.url)

const HOST = 'Host: gatehouse.example\r\n'
const KEY_SET = `GET /api/.well-known/jwks.json HTTP/1.1\r\n${HOST}\r\n`
const VERIFY = `GET /verify HTTP/1.1\r\n${HOST}\r\n`
const HALF = 'POST /api/auth/login HTTP/1.1\r\n'

function loginRequest(): string {
  const { companyId, email, password } = admin
  const body = JSON.stringify({ companyId, email, password })
  const length = Buffer.byteLength(body)
  return `POST /api/auth/login HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
}

/** Connects, sends bytes, and waits for a response to them. */
async function connectTo(address: string, bytes = '') {
  const socket = open(address)
  // The kernel connects before the service accepts.
  await once(socket, 'connect')
  const answers = answersOn(socket)
  if (bytes) {
    socket.write(bytes)
    await once(socket, 'data')
  }
  return { socket, answers }
}

async function expectDraining(ops: string): Promise<void> {
  const { statusCode, body } = await request(`${ops}/readyz`)
  expect([statusCode, await body.json()]).toEqual([503, { status: 'not ready', reason: 'draining' }])
}

test('a stopping service finishes accepted requests, and ends despite idle connections', async () => {
  const { address, ops, child, exit } = await start()
  // More than the cores, so that some wait for one. Few enough that a busy machine checks all before the drain ends.
  const clients = await Promise.all(times(availableParallelism() + 2, () => connectTo(address, KEY_SET)))
  const silent = await Promise.all(['', '', KEY_SET, KEY_SET + HALF].map((said) => connectTo(address, said)))

  // The signal follows immediately, so that some have no response yet.
  for (const { socket } of clients) socket.write(loginRequest())
  child.kill('SIGTERM')

  const answers = await Promise.all(clients.map((client) => client.answers))
  expect(answers.map((all) => all.map(({ status }) => status))).toEqual(answers.map(() => [200, 200]))
  expect(answers.filter((all) => all.at(-1)?.headers['connection'] === 'close').length).toBeGreaterThan(0)

  // The silent connections still keep it from ending, so its state can be read.
  await expectDraining(ops)
  const [refusal] = await once(open(address), 'error')
  expect(refusal).toMatchObject({ code: 'ECONNREFUSED' })

  // The process uses its own clock: after 9.5 s, it would exit with 1.
  expect(await exit).toEqual([0, null])
  const rest = await Promise.all(silent.map((client) => client.answers))
  expect(rest.map((all) => all.length)).toEqual([0, 0, 1, 1])
})

test.for([
  ['address', KEY_SET, 200],
  ['platform', VERIFY, 401],
] as const)('each request to %s before the signal gets its response', async ([listener, bytes, status]) => {
  const { [listener]: address, child, exit } = await start()
  const idle = await Promise.all(times(40, () => connectTo(address, bytes)))
  // When it continues, it finds requests and signal at the same time.
  child.kill('SIGSTOP')
  const fresh = await Promise.all(times(20, () => connectTo(address)))
  for (const { socket } of [...idle, ...fresh]) socket.write(bytes)
  child.kill('SIGTERM')
  child.kill('SIGCONT')
  const seen = await Promise.all([...idle, ...fresh].map(({ answers }) => answers))
  expect(seen.map((all) => all.map((answer) => answer.status))).toEqual([
    ...idle.map(() => [status, status]),
    ...fresh.map(() => [status]),
  ])
  expect(await exit).toEqual([0, null])
})

test('a draining service responds and closes connections until a later signal', async () => {
  const headers = await addReader(testService)
  const { address, platform, ops, child, exit, told } = await start({ DRAIN_DELAY_SECONDS: '600' })
  const drained = request(`${platform}/events?wait=25`, { headers })
  const other = testService.ask('/events?wait=25', { method: 'GET', headers })
  child.kill('SIGTERM')
  // Signals within one second count as one.
  child.kill('SIGINT')
  await told(/"msg":"(draining)"/)
  await expectDraining(ops)
  // Clients that wait for an event get a response immediately.
  expect(await Promise.race([drained.then(() => 'drained'), other.then(() => 'other')])).toBe('drained')
  expect(await (await drained).body.json()).toEqual({ events: [], next: null, isCaughtUp: true })
  await sleep(1_500)
  for (const [answer] of await Promise.all(times(10, () => exchange(address, KEY_SET))))
    expect([answer?.status, answer?.headers['connection']]).toEqual([200, 'close'])
  child.kill('SIGTERM')
  expect(await exit).toEqual([1, null])
})

const others = ['SIGINT', 'SIGHUP'] as const
test.for(others)('%s also drains the service, which ends after DRAIN_DELAY_SECONDS', async (signal) => {
  const { child, exit, output } = await start({ DRAIN_DELAY_SECONDS: '2' })
  const sentAt = performance.now()
  child.kill(signal)
  expect(await exit).toEqual([0, null])
  // A timer starts this, so a slow machine can only take longer.
  expect(performance.now() - sentAt).toBeGreaterThan(1_990)
  expect(output()).toContain(`"signal":"${signal}","msg":"draining"`)
})

test('a stopping service does not wait for a silent mail server', async () => {
  const { host, port } = await findPlace()
  const silent = createServer().listen(port, host)
  const connected = once(silent, 'connection')
  const service = await start({ SMTP_URL: `smtp://${host}:${port}` })
  const { companyId, email } = admin
  const { statusCode, body } = await request(`${service.address}/api/auth/password/forgot`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ companyId, email }),
  })
  await body.dump()
  expect(statusCode).toBe(202)
  await connected
  service.child.kill('SIGTERM')
  expect(await service.exit).toEqual([0, null])
  silent.close()
})

test('a faulty configuration prints all faults and exits with 1 (ASVS 13.1.2)', async () => {
  const env = { NODE_ENV: 'production', MASTER_KEYS: 'id:c4n4ry', PORT: 'x', DATABASE_URL: '' }
  const { child, output } = await launch(env)
  expect(await once(child, 'close')).toEqual([1, null])
  for (const name of ['DATABASE_URL', 'MASTER_KEYS', 'PUBLIC_URL', 'PORT'])
    expect(output()).toContain(`- ${name}: `)
  expect(output()).not.toMatch(/c4n4ry|^\s+at /m)
})
