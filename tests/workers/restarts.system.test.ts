import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { findServicePlaces } from '../../scripts/kit/places.ts'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { createServerProcesses, type Running } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'
import { ask, isRunning, isServed, KEY_SET, loginOf, readiness, until, workersOf } from './service.ts'

/** What takes many processes that start, one after the other. */

const testService = await openTestService()
const admin = await testService.addCompany()
const processes = createServerProcesses(testService.url)
const start = (env: Record<string, string>) =>
  processes.start({ WORKERS: '2', PUBLIC_URL: testService.config.publicUrl, ...env })
const ROLLING = { DRAIN_DELAY_SECONDS: '1' }

describe.runIf(process.platform === 'linux')('two workers', () => {
  test('failing workers restart at growing intervals', async () => {
    const service = await start((await findServicePlaces()).env)
    const name = new URL(testService.url).pathname.slice(1)
    const server = testService.url.replace(`/${name}`, '/postgres')
    await runStatement(server, `alter database ${name} allow_connections false`)
    try {
      for (const pid of workersOf(service)) process.kill(pid, 'SIGKILL')
      const pauses = () => [...service.output().matchAll(/"replacedInMs":(\d+)/g)].map(([, ms]) => Number(ms))
      await until(() => pauses().length >= 6)
      // Two workers, each of which was killed once and failed twice.
      expect(
        pauses()
          .slice(0, 6)
          .sort((a, b) => a - b),
      ).toEqual([500, 500, 1_000, 1_000, 2_000, 2_000])
      expect(await readiness(service)).toBe(503)
    } finally {
      await runStatement(server, `alter database ${name} allow_connections true`)
    }
    await until(async () => (await readiness(service)) === 200)
  })

  test('instances are replaced one by one without a failed request', async () => {
    const instances = [await start(ROLLING), await start(ROLLING)]
    let isOver = false
    let answered = 0
    /** As a balancer does: sends to one that was ready when it was asked last. */
    const ready = new Set(instances)
    async function watch(instance: Running): Promise<void> {
      while (instance.child.exitCode === null && !isOver) {
        if ((await readiness(instance).catch(() => 0)) === 200) ready.add(instance)
        else ready.delete(instance)
        await sleep(100)
      }
    }
    async function send(): Promise<void> {
      while (!isOver) {
        const instance = [...ready][answered % Math.max(1, ready.size)]
        if (!instance) throw new Error('no instance is ready')
        // Connections that stay open, and connections of their own.
        const { statusCode, body } = await request(`${instance.address}${KEY_SET}`)
        await body.dump()
        expect([statusCode, ...(await ask(instance, KEY_SET, 1))]).toEqual([200, 200])
        answered += 1
      }
    }
    const watches = instances.map(watch)
    const load = Promise.all(times(4, send))
    for (const old of [...instances]) {
      const next = await start(ROLLING)
      watches.push(watch(next))
      await until(() => ready.has(next))
      const before = answered
      old.child.kill('SIGTERM')
      expect(await old.exit).toEqual([0, null])
      await until(() => answered > before + 20)
    }
    isOver = true
    await Promise.all([load, ...watches])
  })

  test('workers drain when all processes of the group are signaled', async () => {
    const service = await start({ DRAIN_DELAY_SECONDS: '1' })
    const workers = workersOf(service)
    const answers = times(40, () => ask(service, KEY_SET, 1))
    for (const pid of [...workers, service.child.pid ?? 0]) process.kill(pid, 'SIGTERM')
    expect((await Promise.all(answers)).flat()).toEqual(times(40, () => 200))
    expect(await service.exit).toEqual([0, null])
    expect(workers.filter(isRunning)).toEqual([])
  })

  test('a second signal ends the workers immediately', async () => {
    const service = await start({ DRAIN_DELAY_SECONDS: '5' })
    const workers = workersOf(service)
    service.child.kill('SIGTERM')
    await sleep(1_200)
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([1, null])
    await until(() => !workers.some(isRunning))
  })

  test('workers finish their requests when the primary is killed', async () => {
    const { env } = await findServicePlaces()
    const service = await start({ ...env, DRAIN_DELAY_SECONDS: '60' })
    const workers = workersOf(service)
    const signIns = times(4, () => request(`${service.address}/api/auth/login`, loginOf(admin)))
    await sleep(20)
    service.child.kill('SIGKILL')
    for (const { statusCode } of await Promise.all(signIns)) expect(statusCode).toBe(200)
    // A worker notices the end of the primary a moment later than this process.
    for (const address of [service.address, service.platform])
      await until(async () => !(await isServed(address)))
    await start(env)
    expect(await ask(service, KEY_SET, 10)).toEqual(times(10, () => 200))
    await until(() => !workers.some(isRunning))
  })
})
