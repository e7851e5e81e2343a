import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { MASTER_KEYS, openTestService } from '../support/test-service.ts'
import { answersOn, open } from './raw.ts'

/** The service as a process of its own, on the database of a test service. */

const testService = await openTestService()
const admin = await testService.addCompany()
const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-server-'))
afterAll(() => rm(dataDir, { recursive: true }))

const running: ChildProcess[] = []
afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL')
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  return address.port
}

const environment = (env: Record<string, string>) => ({
  DATABASE_URL: testService.url,
  MASTER_KEYS,
  RATE_LIMIT_SCALE: '1000',
  DATA_DIR: dataDir,
  ...env,
})

async function start(env: Record<string, string> = {}) {
  const opsPort = await freePort()
  const child = spawn(process.execPath, [resolve(import.meta.dirname, '../../src/server.ts')], {
    env: environment({ PORT: '0', OPS_PORT: String(opsPort), ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.push(child)
  const exit = once(child, 'exit')
  const texts: string[] = []
  const told = (pattern: RegExp) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        const [, found] = pattern.exec(texts.join('')) ?? []
        if (found !== undefined) resolve(found)
      }
      look()
      child.stdout.on('data', look)
      child.once('exit', () => reject(new Error(`the service ended: ${texts.join('')}`)))
    })
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => texts.push(text))
  }
  const address = await told(/listening at (http:[^"]+)"/)
  return { child, exit, told, address, ops: `http://127.0.0.1:${opsPort}` }
}

const HOST = 'Host: gatehouse.example\r\n'
const KEY_SET = `GET /api/.well-known/jwks.json HTTP/1.1\r\n${HOST}\r\n`

const HALF = 'POST /api/auth/login HTTP/1.1\r\n'

function loginRequest(): string {
  const { companyId, email, password } = admin
  const body = JSON.stringify({ companyId, email, password })
  const length = Buffer.byteLength(body)
  return `POST /api/auth/login HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
}

describe('on SIGTERM the service', () => {
  test('answers what it has accepted, takes nothing new, and ends within 10 s whatever connections stay silent', async () => {
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
    const clients = await Promise.all(Array.from({ length: 40 }, () => connectTo(KEY_SET)))
    const silent = await Promise.all([connectTo(), connectTo(), connectTo(KEY_SET)])
    const halfway = await connectTo(KEY_SET + HALF)

    // More than there are cores to check passwords, so some wait when the first is answered.
    const firstAnswer = Promise.race(clients.map(({ socket }) => once(socket, 'data')))
    for (const { socket } of clients) socket.write(loginRequest())
    await firstAnswer
    const sentAt = performance.now()
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

    expect(await service.exit).toEqual([0, null])
    expect(performance.now() - sentAt).toBeLessThan(10_000)
    const rest = await Promise.all([...silent, halfway].map((client) => client.answers))
    expect(rest.map((all) => all.length)).toEqual([0, 0, 1, 1])
  })

  test('does not wait long for a mail server that says nothing', async () => {
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

  test('ends at once when told twice', async () => {
    const service = await start()
    const socket = open(service.address)
    socket.write(KEY_SET + HALF)
    await once(socket, 'data')
    service.child.kill('SIGTERM')
    await service.told(/"msg":"(draining)"/)
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([1, null])
    socket.destroy()
  })

  test('ends with 0 on SIGINT too, when there is nothing to wait for', async () => {
    const service = await start()
    service.child.kill('SIGINT')
    expect(await service.exit).toEqual([0, null])
  })
})

test.skipIf(!existsSync('/dev/full'))(
  'a log that takes nothing neither stops the service nor holds up its end (ASVS 16.5.2)',
  async () => {
    const full = openSync('/dev/full', 'w')
    const [port, opsPort] = [await freePort(), await freePort()]
    const child = spawn(process.execPath, [resolve(import.meta.dirname, '../../src/server.ts')], {
      env: environment({ PORT: String(port), OPS_PORT: String(opsPort) }),
      stdio: ['ignore', full, 'inherit'],
    })
    closeSync(full)
    running.push(child)
    const exit = once(child, 'exit')
    const ask = () =>
      request(`http://127.0.0.1:${port}/api/auth/session`).then(
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

test('a configuration with faults ends the process with 1, and all of them on standard error (ASVS 13.1.2)', async () => {
  const child = spawn(process.execPath, [resolve(import.meta.dirname, '../../src/server.ts')], {
    env: { NODE_ENV: 'production', MASTER_KEYS: 'id:c4n4ry', PORT: 'x', DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.push(child)
  const texts: string[] = []
  child.stderr.setEncoding('utf8').on('data', (text: string) => texts.push(text))
  const [code] = await once(child, 'close')
  expect(code).toBe(1)
  const text = texts.join('')
  for (const name of ['DATABASE_URL', 'MASTER_KEYS', 'PUBLIC_URL', 'PORT'])
    expect(text).toContain(`- ${name}: `)
  expect(text).not.toContain('c4n4ry')
  expect(text).not.toMatch(/^\s+at /m)
})
