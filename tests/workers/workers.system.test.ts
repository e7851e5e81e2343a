import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findServicePlaces } from '../../scripts/kit/places.ts'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { openFolder } from '../support/cleanup.ts'
import { answersOn, open } from '../support/raw.ts'
import { createServerProcesses, type Running } from '../support/server-process.ts'
import { MASTER_KEYS, openTestService, times } from '../support/test-service.ts'
import {
  ANSWERED,
  addressesIn,
  ask,
  isRunning,
  isServed,
  KEY_SET,
  loginOf,
  metricsOf,
  readiness,
  sumOf,
  until,
  workersOf,
} from './service.ts'

/** Several processes act as one service: WORKERS. */

const testService = await openTestService()
const admin = await testService.addCompany()
const POOL_SIZE = 500
const isLinux = process.platform === 'linux'

describe.runIf(isLinux)('two workers', async () => {
  const processes = createServerProcesses(testService.url, afterAll)
  const { env } = await findServicePlaces()
  const folder = await openFolder()
  let service: Running
  beforeAll(async () => {
    const files = {
      DATABASE_URL_FILE: join(folder, 'database-url'),
      MASTER_KEYS_FILE: join(folder, 'master-keys'),
    }
    await writeFile(files.DATABASE_URL_FILE, `${testService.url}\n`)
    await writeFile(files.MASTER_KEYS_FILE, `${MASTER_KEYS}\n`)
    const { publicUrl: PUBLIC_URL } = testService.config
    const variables = { PUBLIC_URL, DATABASE_POOL_SIZE: String(POOL_SIZE), WORKERS: '2' }
    service = await processes.start({ ...env, ...variables, DATABASE_URL: '', MASTER_KEYS: '', ...files })
  })

  test('two workers share one port, one log, and summed metrics (ASVS 15.4.1)', async () => {
    const before = sumOf(await metricsOf(service), ANSWERED)
    expect(await ask(service, KEY_SET, 100)).toEqual(times(100, () => 200))
    await until(async () => sumOf(await metricsOf(service), ANSWERED) === before + 100)
    const lines = () => service.output().trim().split('\n')
    await until(
      () => lines().filter((line) => /"status":200/.test(line) && line.includes(KEY_SET)).length === 100,
    )
    for (const line of lines()) expect(JSON.parse(line)).toMatchObject({ service: 'gatehouse' })
  })

  test('secrets from files are in no process environment (ASVS 13.3.1)', async () => {
    const pids = [service.child.pid, ...workersOf(service)]
    expect(pids).toHaveLength(3)
    for (const pid of pids)
      expect(await readFile(`/proc/${pid}/environ`, 'utf8')).not.toMatch(/postgres:\/\/|test:/)
  })

  test('too many database connections are logged at the start', async () => {
    const pattern = new RegExp(`(WORKERS=2 with DATABASE_POOL_SIZE=${POOL_SIZE} can open \\d+ connections)`)
    expect(await service.told(pattern)).toContain('1510')
  })

  test('the server rehashes weak password hashes at full strength (ASVS 11.4.2)', async () => {
    const person = await testService.addUser(admin)
    const users = testService.db.selectFrom('users').select('password_hash')
    const hashOf = async () => Object(await users.where('user_id', '=', person.userId).executeTakeFirst())
    expect((await hashOf()).password_hash).toContain('$m=8,t=1,p=1$')
    const { statusCode, body } = await request(`${service.address}/api/auth/login`, loginOf(person))
    await body.dump()
    expect(statusCode).toBe(200)
    expect((await hashOf()).password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  })

  test('metrics cover each process, and the machine once', async () => {
    await until(async () => /heap_used_ratio\{role="worker"\}/.test(await metricsOf(service)))
    // If the database responds late, a probe reports it as unavailable.
    await until(async () => sumOf(await metricsOf(service), 'gatehouse_ready ') === 1)
    const metrics = await metricsOf(service)
    const value = (name: string) => sumOf(metrics, `gatehouse_${name} `)
    expect(metrics).toMatch(/^gatehouse_build_info\{version="[\d.]+"\} 1$/m)
    expect(value('housekeeping_last_success_timestamp_seconds')).toBeGreaterThanOrEqual(0)
    expect(value('database_connections_max')).toBe(3 * POOL_SIZE)
    expect(value('database_connections')).toBeLessThanOrEqual(value('database_connections_max'))
    const created = await testService.db.selectFrom('signing_keys').select('created_at').execute()
    const age = Date.now() - Math.max(...created.map(({ created_at: at }) => at.getTime()))
    expect(Math.abs(value('signing_key_age_seconds') - age / 1000)).toBeLessThan(10)
    for (const role of ['primary', 'worker']) {
      expect(value(`resident_memory_bytes{role="${role}"}`)).toBeGreaterThan(20e6)
      // Not the sum of the workers, because each has its own heap.
      expect(value(`heap_used_ratio{role="${role}"}`)).toBeGreaterThan(0)
      expect(value(`heap_used_ratio{role="${role}"}`)).toBeLessThan(1)
    }
  })

  test('failing workers restart at growing intervals', async () => {
    const name = new URL(testService.url).pathname.slice(1)
    const server = testService.url.replace(`/${name}`, '/postgres')
    await runStatement(server, `alter database ${name} allow_connections false`)
    try {
      for (const pid of workersOf(service)) process.kill(pid, 'SIGKILL')
      const pauses = () => [...service.output().matchAll(/"replacedInMs":(\d+)/g)].map(([, ms]) => Number(ms))
      await until(() => pauses().length >= 6)
      // Two workers: each was killed once and failed twice.
      const growing = pauses().slice(0, 6)
      expect(growing.sort((a, b) => a - b)).toEqual([500, 500, 1_000, 1_000, 2_000, 2_000])
      expect(await readiness(service)).toBe(503)
    } finally {
      await runStatement(server, `alter database ${name} allow_connections true`)
    }
    await until(async () => addressesIn(service).length === 4 && (await readiness(service)) === 200)
  })

  test('a killed worker is replaced, and its counts remain', async () => {
    const answered = async () => sumOf(await metricsOf(service), ANSWERED)
    const deaths = async () => sumOf(await metricsOf(service), 'gatehouse_worker_deaths_total ')
    const [victim = 0] = workersOf(service)
    const [deathsBefore, before] = [await deaths(), await answered()]
    await ask(service, KEY_SET, 20)
    await until(async () => (await answered()) === before + 20)
    process.kill(victim, 'SIGKILL')
    await until(() => !workersOf(service).includes(victim))
    expect(await readiness(service)).toBe(200)
    await until(() => workersOf(service).length === 2)
    expect(await ask(service, KEY_SET, 20)).toEqual(times(20, () => 200))
    expect(await deaths()).toBe(deathsBefore + 1)
    await until(async () => (await answered()) === before + 40)
  })
})

describe.runIf(isLinux)('two workers that choose their ports', () => {
  const processes = createServerProcesses(testService.url, afterAll)
  let service: Running
  beforeAll(async () => {
    service = await processes.start({ WORKERS: '2', PUBLIC_URL: '', DRAIN_DELAY_SECONDS: '1' })
  })

  test('two workers choose the same ports and issuer', async () => {
    const { address, platform } = service
    expect(addressesIn(service)).toEqual([address, address])
    expect(addressesIn(service, /"Platform listener at ([^"]+)"/g)).toEqual([platform, platform])
    expect((await fetch(`${platform}/verify`)).status).toBe(401)
    const askIssuer = async () => {
      const answer = await fetch(`${address}/api/openapi.json`, { headers: { connection: 'close' } })
      return Object(await answer.json()).servers
    }
    const [first, ...others] = await Promise.all(times(30, askIssuer))
    expect(first).toHaveLength(1)
    expect(others).toEqual(times(29, () => first))
  })

  test('workers drain when their whole process group is signaled, accepting nothing new', async () => {
    const { address, child, exit } = service
    const workers = workersOf(service)
    const beginning = `GET ${KEY_SET} HTTP/1.1\r\nHost: gatehouse.example\r\n\r\nPOST /api/auth/login HTTP/1.1\r\n`
    // More than the workers have sockets. The rest of each request is never sent, and refused after 5 s.
    const slow = times(40, () => open(address))
    let ended = 0
    for (const socket of slow) {
      socket.once('close', () => {
        ended += 1
      })
    }
    for (const socket of slow) socket.write(beginning)
    await Promise.all(slow.map((socket) => once(socket, 'data')))
    const answers = times(40, () => ask(service, KEY_SET, 1))
    for (const pid of [...workers, child.pid ?? 0]) process.kill(pid, 'SIGTERM')
    expect((await Promise.all(answers)).flat()).toEqual(times(40, () => 200))
    await expect.poll(() => isServed(address)).toBe(false)
    expect(ended).toBe(0)
    expect(await exit).toEqual([0, null])
    expect(workers.filter(isRunning)).toEqual([])
  })
})

const { launch, start } = createServerProcesses(testService.url)

test.runIf(isLinux)('workers of a killed primary finish requests while its successor serves', async () => {
  const { env } = await findServicePlaces()
  const places = { WORKERS: '2', PUBLIC_URL: testService.config.publicUrl, ...env }
  const service = await start({ ...places, DRAIN_DELAY_SECONDS: '60' })
  const workers = workersOf(service)
  const length = 'Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close'
  const sockets = times(4, () => open(service.address))
  for (const socket of sockets)
    socket.write(
      `POST /api/auth/login HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/json\r\n${length}\r\n\r\n`,
    )
  // A worker has received each of them.
  await Promise.all(sockets.map((socket) => once(socket, 'readable')))
  service.child.kill('SIGKILL')
  const answers = sockets.map(answersOn)
  for (const socket of sockets) socket.write('{}')
  // Nobody signs in, because a hash could take longer than the workers stay.
  for (const [, answer] of await Promise.all(answers)) expect(answer?.status).toBe(400)
  // A worker notices the end of the primary a moment later than this process.
  for (const address of [service.address, service.platform])
    await until(async () => !(await isServed(address)))
  expect(await ask(await start(places), KEY_SET, 10)).toEqual(times(10, () => 200))
  await until(() => !workers.some(isRunning))
})

test.runIf(isLinux)('draining workers respond until a second signal ends them', async () => {
  const service = await start({ WORKERS: '2', DRAIN_DELAY_SECONDS: '600' })
  const workers = workersOf(service)
  service.child.kill('SIGTERM')
  await until(async () => (await readiness(service)) === 503)
  expect(await ask(service, KEY_SET, 10)).toEqual(times(10, () => 200))
  // Within a second, two signals count as one.
  await sleep(1_200)
  service.child.kill('SIGTERM')
  expect(await service.exit).toEqual([1, null])
  await until(() => !workers.some(isRunning))
})

test('workers that cannot start make the service exit with 1', async () => {
  const other = `other:${Buffer.alloc(32, 7).toString('base64')}`
  const service = await launch({ WORKERS: '2', MASTER_KEYS: other })
  expect(await service.exit).toEqual([1, null])
  expect(service.output()).toContain('Set MASTER_KEYS to the keys that encrypted them')
})
