import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { findServicePlaces } from '../../scripts/kit/places.ts'
import { addReader } from '../support/platform.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'
import { answersOn, exchange, open } from './raw.ts'

/** The service as a process of its own, on the database of a test service. */

const testService = await openTestService()
const admin = await testService.addCompany()
const processes = createServerProcesses(testService.url)
const { start } = processes

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

describe('SIGTERM:', () => {
  test('a stopping service finishes accepted requests, and ends despite silent connections', async () => {
    const service = await start()
    const connectTo = async (bytes = '') => {
      const socket = open(service.address)
      await once(socket, 'connect')
      const answers = answersOn(socket)
      if (bytes) {
        socket.write(bytes)
        await once(socket, 'data')
      }
      return { socket, answers }
    }
    // More than there are cores to check passwords, so some wait for that; and few, since a busy machine has to check all of
    // them before the drain ends.
    const clients = await Promise.all(times(availableParallelism() + 2, () => connectTo(KEY_SET)))
    const silent = await Promise.all([connectTo(), connectTo(), connectTo(KEY_SET)])
    const halfway = await connectTo(KEY_SET + HALF)

    // The signal comes at once, so that it finds some without an answer.
    for (const { socket } of clients) socket.write(loginRequest())
    service.child.kill('SIGTERM')

    const answers = await Promise.all(clients.map((client) => client.answers))
    expect(answers.map((all) => all.map(({ status }) => status))).toEqual(answers.map(() => [200, 200]))
    expect(answers.filter((all) => all.at(-1)?.headers['connection'] === 'close').length).toBeGreaterThan(0)

    // Those who say nothing still keep it from ending, so it can be asked.
    const { statusCode, body } = await request(`${service.ops}/readyz`)
    expect([statusCode, await body.json()]).toEqual([503, { status: 'not ready', reason: 'draining' }])
    const late = open(service.address)
    const [refusal] = await once(late, 'error')
    expect(refusal).toMatchObject({ code: 'ECONNREFUSED' })

    // By its own clock: after 9.5 s, it would end itself with 1.
    expect(await service.exit).toEqual([0, null])
    const rest = await Promise.all([...silent, halfway].map((client) => client.answers))
    expect(rest.map((all) => all.length)).toEqual([0, 0, 1, 1])
  })

  test.for([
    ['address', KEY_SET, 200],
    ['platform', VERIFY, 401],
  ] as const)(
    'a stopping service answers each request sent before the signal: %s',
    async ([listener, bytes, status]) => {
      const service = await start()
      const idle = await Promise.all(
        Array.from({ length: 40 }, async () => {
          const socket = open(service[listener])
          const answers = answersOn(socket)
          socket.write(bytes)
          await once(socket, 'data')
          return { socket, answers }
        }),
      )
      // It finds requests and signal at the same time when it goes on.
      service.child.kill('SIGSTOP')
      for (const { socket } of idle) socket.write(bytes)
      const fresh = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const socket = open(service[listener])
          const answers = answersOn(socket)
          // By the kernel; the service has not accepted it.
          await once(socket, 'connect')
          socket.write(bytes)
          return { socket, answers }
        }),
      )
      service.child.kill('SIGTERM')
      service.child.kill('SIGCONT')
      const seen = await Promise.all([...idle, ...fresh].map(({ answers }) => answers))
      expect(seen.map((all) => all.map(({ status }) => status))).toEqual([
        ...idle.map(() => [status, status]),
        ...fresh.map(() => [status]),
      ])
      expect(await service.exit).toEqual([0, null])
    },
  )

  test('a draining service answers, closes connections, and is not ready', async () => {
    const service = await start({ DRAIN_DELAY_SECONDS: '600' })
    service.child.kill('SIGTERM')
    await service.told(/"msg":"(draining)"/)
    const { statusCode, body } = await request(`${service.ops}/readyz`)
    expect([statusCode, await body.json()]).toEqual([503, { status: 'not ready', reason: 'draining' }])
    for (const [answer] of await Promise.all(times(10, () => exchange(service.address, KEY_SET))))
      expect([answer?.status, answer?.headers['connection']]).toEqual([200, 'close'])
  })

  test('a draining service ends after DRAIN_DELAY_SECONDS', async () => {
    const service = await start({ DRAIN_DELAY_SECONDS: '2' })
    const sentAt = performance.now()
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([0, null])
    // By a timer: a slow machine only makes it longer.
    expect(performance.now() - sentAt).toBeGreaterThan(1_990)
  })

  test('a draining service answers clients that wait for an event immediately', async () => {
    const headers = await addReader(testService)
    const service = await start({ DRAIN_DELAY_SECONDS: '600' })
    const platform = await service.told(/"Platform listener at (http[^"]+)"/)
    const drained = request(`${platform}/events?wait=25`, { headers })
    const other = testService.ask('/events?wait=25', { method: 'GET', headers })
    service.child.kill('SIGTERM')
    expect(await Promise.race([drained.then(() => 'drained'), other.then(() => 'other')])).toBe('drained')
    expect(await (await drained).body.json()).toEqual({ events: [], next: null, isCaughtUp: true })
  })

  test('a stopping service does not wait for a silent mail server', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const address = silent.address()
    if (typeof address !== 'object' || !address) throw new Error('a server has a port')
    const connected = once(silent, 'connection')
    const service = await start({ SMTP_URL: `smtp://127.0.0.1:${address.port}` })
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

  test('a stopping service ends immediately on a later signal, not within a second', async () => {
    const service = await start()
    const socket = open(service.address)
    // This keeps the process from ending by itself.
    socket.write(KEY_SET + HALF)
    await once(socket, 'data')
    service.child.kill('SIGTERM')
    await service.told(/"msg":"(draining)"/)
    service.child.kill('SIGTERM')
    await sleep(1_500)
    expect(service.child.exitCode).toBeNull()
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([1, null])
    socket.destroy()
  })

  test.for(['SIGINT', 'SIGHUP'] as const)('%s also drains the service, which ends with 0', async (signal) => {
    const service = await start()
    service.child.kill(signal)
    expect(await service.exit).toEqual([0, null])
    expect(service.output()).toContain(`"signal":"${signal}","msg":"draining"`)
  })
})

test.skipIf(!existsSync('/dev/full'))(
  'a log that is full neither stops the service nor delays its end (ASVS 16.5.2)',
  async () => {
    const full = openSync('/dev/full', 'w')
    const { env, address } = await findServicePlaces()
    const { child, exit } = await processes.launch(env, ['ignore', full, 'inherit'])
    closeSync(full)
    const ask = () =>
      request(`${address}/api/auth/session`).then(
        async ({ statusCode, body }) => body.dump().then(() => statusCode),
        () => 'not yet',
      )
    await expect.poll(ask).toBe(401)
    // Past the time at which lines are written at the latest.
    await sleep(300)
    expect(await ask()).toBe(401)
    child.kill('SIGTERM')
    expect(await exit).toEqual([0, null])
  },
)

test('a faulty configuration ends the process with 1, and prints all faults (ASVS 13.1.2)', async () => {
  const service = await processes.launch({
    NODE_ENV: 'production',
    MASTER_KEYS: 'id:c4n4ry',
    PORT: 'x',
    DATABASE_URL: '',
  })
  const [code] = await once(service.child, 'close')
  expect(code).toBe(1)
  const text = service.output()
  for (const name of ['DATABASE_URL', 'MASTER_KEYS', 'PUBLIC_URL', 'PORT'])
    expect(text).toContain(`- ${name}: `)
  expect(text).not.toContain('c4n4ry')
  expect(text).not.toMatch(/^\s+at /m)
})
