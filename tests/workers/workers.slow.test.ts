import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { findServicePlaces } from '../support/places.ts'
import { run } from '../support/postgres.ts'
import { createServerProcesses, type Running } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'
import { ask, KEY_SET, readiness, startWorkers, until, workersOf } from './service.ts'

/** What takes many processes that start, one after the other. */

const testService = await openTestService()
const processes = createServerProcesses(testService.url)
const start = (env: Record<string, string>) =>
  startWorkers(processes, { PUBLIC_URL: testService.config.publicUrl, ...env })
const ROLLING = { DRAIN_DELAY_SECONDS: '1' }

describe.runIf(process.platform === 'linux')('two workers', () => {
  test('that cannot start are tried again at growing distance', async () => {
    const service = await start((await findServicePlaces()).env)
    const name = new URL(testService.url).pathname.slice(1)
    const server = testService.url.replace(`/${name}`, '/postgres')
    await run(server, `alter database ${name} allow_connections false`)
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
      await run(server, `alter database ${name} allow_connections true`)
    }
    await until(async () => (await readiness(service)) === 200)
  })

  test('of two instances are replaced one instance after the other, and no request fails', async () => {
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
})
