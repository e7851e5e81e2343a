import { once } from 'node:events'
import { Webhook } from 'standardwebhooks'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findServicePlaces } from '../../scripts/kit/places.ts'
import { exchange, open } from '../http/raw.ts'
import { createServerProcesses, type Running } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'
import {
  ANSWERED,
  addressesIn,
  ask,
  isServed,
  KEY_SET,
  loginOf,
  metricsOf,
  readiness,
  sumOf,
  until,
  workersOf,
} from './service.ts'

/** Several processes that answer requests as one service: WORKERS. */

const testService = await openTestService()
const admin = await testService.addCompany()
const { publicUrl } = testService.config

describe.runIf(process.platform === 'linux')('two workers', async () => {
  const processes = createServerProcesses(testService.url, afterAll)
  let shared: Running
  beforeAll(async () => {
    shared = await processes.start({ WORKERS: '2', PORT: '0', PUBLIC_URL: '', DATABASE_POOL_SIZE: '500' })
  })

  test('two workers share one port, one log, and summed metrics', async () => {
    const service = shared
    const before = sumOf(await metricsOf(service), ANSWERED)
    expect(await ask(service, KEY_SET, 100)).toEqual(times(100, () => 200))
    await until(async () => sumOf(await metricsOf(service), ANSWERED) === before + 100)
    const lines = () => service.output().trim().split('\n')
    await until(
      () => lines().filter((line) => /"status":200/.test(line) && line.includes(KEY_SET)).length === 100,
    )
    for (const line of lines()) expect(JSON.parse(line)).toMatchObject({ service: 'gatehouse' })
  })

  test('two workers choose the same ports and issuer', async () => {
    const service = shared
    expect(addressesIn(service)).toEqual([service.address, service.address])
    expect(addressesIn(service, /"Platform listener at ([^"]+)"/g)).toEqual([
      service.platform,
      service.platform,
    ])
    expect((await fetch(`${service.platform}/verify`)).status).toBe(401)
    const askIssuer = async () => {
      const answer = await fetch(`${service.address}/api/openapi.json`, { headers: { connection: 'close' } })
      return Object(await answer.json()).servers
    }
    const [first, ...others] = await Promise.all(times(30, askIssuer))
    expect(first).toHaveLength(1)
    expect(others).toEqual(times(29, () => first))
  })

  test('the server renews weak hashes at full strength (ASVS 11.4.2)', async () => {
    const person = await testService.addUser(admin)
    const hashOf = async () =>
      (
        await testService.db
          .selectFrom('users')
          .select('password_hash')
          .where('user_id', '=', person.userId)
          .executeTakeFirstOrThrow()
      ).password_hash
    expect(await hashOf()).toContain('$m=8,t=1,p=1$')
    const { statusCode, body } = await request(`${shared.address}/api/auth/login`, loginOf(person))
    await body.dump()
    expect(statusCode).toBe(200)
    expect(await hashOf()).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  })

  test('too many database connections are logged at the start', async () => {
    const warning = await shared.told(/(WORKERS=2 with DATABASE_POOL_SIZE=500 can open \d+ connections)/)
    expect(warning).toContain('1510')
  })
})

describe.runIf(process.platform === 'linux')('two workers', async () => {
  const processes = createServerProcesses(testService.url, afterAll)
  const { env } = await findServicePlaces()
  let shared: Running
  beforeAll(async () => {
    shared = await processes.start({ WORKERS: '2', PUBLIC_URL: publicUrl, ...env })
  })

  /** The service, once it has replaced those that other tests have killed. */
  async function allThere(): Promise<Running> {
    const deaths = () => shared.output().split('a worker died and is replaced').length - 1
    await until(() => workersOf(shared).length === 2 && addressesIn(shared).length === 2 + deaths())
    return shared
  }

  test('metrics have each process, and the machine once', async () => {
    const service = await allThere()
    const [victim = 0] = workersOf(service)
    await until(async () => /heap_used_ratio\{role="worker"\}/.test(await metricsOf(service)))
    // A probe that the database answers late says that it is not.
    await until(async () => sumOf(await metricsOf(service), 'gatehouse_ready ') === 1)
    const before = await metricsOf(service)
    const value = (name: string) => sumOf(before, `gatehouse_${name} `)
    expect(before).toMatch(/^gatehouse_build_info\{version="[\d.]+"\} 1$/m)
    expect(value('housekeeping_last_success_timestamp_seconds')).toBeGreaterThanOrEqual(0)
    expect(value('database_connections_max')).toBe(3 * testService.config.databasePoolSize)
    expect(value('database_connections')).toBeLessThanOrEqual(value('database_connections_max'))
    const created = await testService.db.selectFrom('signing_keys').select('created_at').execute()
    const age = Date.now() - Math.max(...created.map(({ created_at: at }) => at.getTime()))
    expect(Math.abs(value('signing_key_age_seconds') - age / 1000)).toBeLessThan(10)
    for (const role of ['primary', 'worker']) {
      expect(value(`resident_memory_bytes{role="${role}"}`)).toBeGreaterThan(20e6)
      // Not the sum of the workers, of which each has a heap of its own.
      expect(value(`heap_used_ratio{role="${role}"}`)).toBeGreaterThan(0)
      expect(value(`heap_used_ratio{role="${role}"}`)).toBeLessThan(1)
    }
    process.kill(victim, 'SIGKILL')
    const deaths = async () => sumOf(await metricsOf(service), 'gatehouse_worker_deaths_total ')
    await until(async () => (await deaths()) > value('worker_deaths_total'))
    expect(await deaths()).toBe(value('worker_deaths_total') + 1)
  })

  test('a killed worker is replaced, and loses nothing committed', async () => {
    const service = await allThere()
    const [first = 0] = workersOf(service)
    const before = sumOf(await metricsOf(service), ANSWERED)
    await ask(service, KEY_SET, 20)
    await until(async () => sumOf(await metricsOf(service), ANSWERED) === before + 20)
    let ended = 0
    let isOver = false
    async function signInAndOut(): Promise<void> {
      while (!isOver) {
        // What is cut off has no answer; what has one is committed.
        const answer = await request(`${service.address}/api/auth/login`, loginOf(admin)).catch(() => null)
        if (answer?.statusCode !== 200) continue
        const token = Object(await answer.body.json()).accessToken
        // The session is there for every instance, and after an answered logout for none.
        expect((await testService.getSession({ token })).status).toBe(200)
        const out = await request(`${service.address}/api/auth/logout`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` },
        }).catch(() => null)
        if (!out) continue
        await out.body.dump()
        expect(out.statusCode).toBe(204)
        expect((await testService.getSession({ token })).status).toBe(401)
        ended += 1
      }
    }
    const load = times(8, signInAndOut)
    await until(() => ended > 5)
    process.kill(first, 'SIGKILL')
    await until(() => !workersOf(service).includes(first))
    expect(await readiness(service)).toBe(200)
    await until(() => workersOf(service).length === 2)
    const atKill = ended
    await until(() => ended > atKill + 5)
    isOver = true
    await Promise.all(load)
    expect(workersOf(service)).not.toContain(first)
    // The sums of metrics do not go down with a worker that is gone.
    expect(sumOf(await metricsOf(service), ANSWERED)).toBe(before + 20)
  })
})

describe.runIf(process.platform === 'linux')('two workers', () => {
  const processes = createServerProcesses(testService.url)
  const start = (env: Record<string, string>) =>
    processes.start({ WORKERS: '2', PUBLIC_URL: publicUrl, ...env })

  test('bad signatures do not stop the events of known senders (ASVS 2.4.1)', async () => {
    const service = await start({ RATE_LIMIT_SCALE: '1', LIMIT_BAD_SIGNATURES: '5/3600' })
    const key = await testService.newSecret(admin)
    const send = async (secret: string) => await ingest(service, admin.companyId, secret)
    const forge = () => send(`whsec_${Buffer.alloc(32).toString('base64')}`)
    // On connections of their own, so both workers have seen one.
    for (const _ of times(40, () => {})) expect(await send(key)).toBe(202)
    // Fewer than are verified in a second, beyond the limit.
    for (const _ of times(6, () => {})) expect([401, 429]).toContain(await forge())
    for (const _ of times(6, () => {})) {
      expect([401, 429]).toContain(await forge())
      expect([401, 429]).toContain(await forge())
      for (const _ of times(5, () => {})) expect(await send(key)).toBe(202)
    }
  })

  test('no worker accepts connections after SIGTERM', async () => {
    const { address, child, exit } = await start({})
    const beginning = `GET ${KEY_SET} HTTP/1.1\r\nHost: gatehouse.example\r\n\r\nPOST /api/auth/login HTTP/1.1\r\n`
    // More than the workers have sockets. The rest is never sent, which is refused after 5 s.
    const slow = times(40, () => open(address))
    let ended = 0
    for (const socket of slow) {
      socket.once('close', () => {
        ended += 1
      })
    }
    for (const socket of slow) socket.write(beginning)
    await Promise.all(slow.map((socket) => once(socket, 'data')))
    child.kill('SIGTERM')
    await expect.poll(() => isServed(address)).toBe(false)
    expect(ended).toBe(0)
    expect(await exit).toEqual([0, null])
  })

  test('workers that cannot start end the service with 1', async () => {
    const service = await processes.launch({
      WORKERS: '2',
      MASTER_KEYS: `other:${Buffer.alloc(32, 7).toString('base64')}`,
    })
    expect(await service.exit).toEqual([1, null])
    expect(service.output()).toContain('Set the MASTER_KEYS that this database was made with')
  })
})

/** The status of a signed event on a connection of its own. */
async function ingest({ address }: Running, companyId: string, secret: string): Promise<number | undefined> {
  const [id, at, body] = [crypto.randomUUID(), new Date(), '{"type":"a","data":{}}']
  const headers = {
    host: 'gatehouse.example',
    connection: 'close',
    'content-type': 'application/json',
    'content-length': String(body.length),
    'x-company-id': companyId,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(id, at, body),
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const [answer] = await exchange(address, `POST /api/events/ingest HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
  return answer?.status
}
