import { afterAll, expect, test } from 'vitest'
import { createServerProcesses, SERVER } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'
import { until, workersOf } from '../workers/service.ts'

/** Exceptions and rejections outside a request. Node's own report of one quotes the values in a database error. */

const { url } = await openTestService()
const { start } = createServerProcesses(url, afterAll)

const DATABASE_ERROR = `Object.assign(new Error('c4n4ry'), { code: '23505', detail: 'c4n4ry' })`

/** The service. SIGUSR2 runs the code in it. */
async function startWith(code: string, env: Record<string, string> = {}) {
  const onSignal = `process.on('SIGUSR2', () => { ${code} })`
  // Base64: stacks name the module.
  const module = `data:text/javascript;base64,${Buffer.from(onSignal).toString('base64')}`
  return await start(env, undefined, [process.execPath, '--import', module, SERVER])
}

test.for([
  ['an exception', `throw new TypeError('broken')`, { type: 'TypeError', message: 'broken' }],
  ['a rejection', `Promise.reject(${DATABASE_ERROR})`, { code: '23505', message: '' }],
] as const)('%s is logged once and ends the process with 1 (ASVS 16.5.4)', async ([, code, err]) => {
  const service = await startWith(code)
  const before = service.output()
  service.child.kill('SIGUSR2')
  expect(await service.exit).toEqual([1, null])
  const written = service.output().slice(before.length)
  const lines = written.trim().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ level: 60, service: 'gatehouse', err: expect.objectContaining(err) }),
  ])
  expect(written).not.toContain('c4n4ry')
})

test('an exception in a worker is logged once, and the worker replaced', async () => {
  const service = await startWith(`throw ${DATABASE_ERROR}`, { WORKERS: '2' })
  await until(() => workersOf(service).length === 2)
  const [victim = 0] = workersOf(service)
  process.kill(victim, 'SIGUSR2')
  await service.told(/"workerPid":\d+,"code":(1),/)
  const lines = service.output().trim().split('\n')
  const fatal = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 60)
  expect(fatal).toEqual([expect.objectContaining({ err: expect.objectContaining({ code: '23505' }) })])
  expect(service.output()).not.toContain('c4n4ry')
})
