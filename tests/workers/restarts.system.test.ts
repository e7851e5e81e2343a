import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, describe, expect, test } from 'vitest'
import { findServicePlaces } from '../../scripts/kit/places.ts'
import { answersOn, open } from '../support/raw.ts'
import { createServerProcesses, type Running } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'
import { ask, isRunning, isServed, KEY_SET, loginOf, readiness, until, workersOf } from './service.ts'

/** Services of two workers that end, and those that take their place. */

const testService = await openTestService()
const admin = await testService.addCompany()
const processes = createServerProcesses(testService.url, afterAll)
const start = (env: Record<string, string>) =>
  processes.start({ WORKERS: '2', PUBLIC_URL: testService.config.publicUrl, ...env })

/** The service that the last test has left, or else a new one; each test ends it. */
let left: Running | undefined
async function takeService(env: Record<string, string>): Promise<Running> {
  const service = left ?? (await start(env))
  left = undefined
  return service
}

describe.runIf(process.platform === 'linux')('two workers', () => {
  test('workers finish their requests when the primary is killed', async () => {
    const { env } = await findServicePlaces()
    const service = await start({ ...env, DRAIN_DELAY_SECONDS: '60' })
    const workers = workersOf(service)
    const { body } = loginOf(admin)
    const head = `POST /api/auth/login HTTP/1.1\r\nHost: gatehouse.example\r\nContent-Type: application/json\r\n`
    const signIns = times(4, () => open(service.address))
    for (const socket of signIns)
      socket.write(
        `${head}Content-Length: ${body.length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`,
      )
    // A worker has each of them.
    await Promise.all(signIns.map((socket) => once(socket, 'readable')))
    service.child.kill('SIGKILL')
    const answers = signIns.map(answersOn)
    for (const socket of signIns) socket.write(body)
    for (const [, answer] of await Promise.all(answers)) expect(answer?.status).toBe(200)
    // A worker notices the end of the primary a moment later than this process.
    for (const address of [service.address, service.platform])
      await until(async () => !(await isServed(address)))
    left = await start({ ...env, DRAIN_DELAY_SECONDS: '1' })
    expect(await ask(left, KEY_SET, 10)).toEqual(times(10, () => 200))
    await until(() => !workers.some(isRunning))
  })

  test('an instance is replaced without a failed request', async () => {
    const old = await takeService({ DRAIN_DELAY_SECONDS: '1' })
    let isOver = false
    let answered = 0
    /** As a balancer does: sends to one that was ready when it was asked last. */
    const ready = new Set([old])
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
    const load = Promise.all(times(4, send))
    const next = await start({ DRAIN_DELAY_SECONDS: '5' })
    const watches = [old, next].map(watch)
    await until(() => ready.has(next))
    const before = answered
    old.child.kill('SIGTERM')
    expect(await old.exit).toEqual([0, null])
    await until(() => answered > before + 20)
    isOver = true
    await Promise.all([load, ...watches])
    left = next
  })

  test('a second signal ends the workers immediately', async () => {
    const service = await takeService({ DRAIN_DELAY_SECONDS: '5' })
    const workers = workersOf(service)
    service.child.kill('SIGTERM')
    await sleep(1_200)
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([1, null])
    await until(() => !workers.some(isRunning))
  })
})
