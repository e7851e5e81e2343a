import { expect, test } from 'vitest'
import { createServerProcesses, SERVER } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'
import { addressesIn, until, workersOf } from '../workers/service.ts'

/** Exceptions and rejections outside a request. Node's own report would quote the values in a database error. */

const { url } = await openTestService()
const { start } = createServerProcesses(url)

/** On SIGUSR2, the primary throws, and a worker rejects. */
const ON_SIGNAL = `import cluster from 'node:cluster'
process.on('SIGUSR2', () => {
  if (cluster.isPrimary) throw new TypeError('broken')
  Promise.reject(Object.assign(new Error('c4n4ry'), { code: '23505', detail: 'c4n4ry' }))
})`

test('exceptions and rejections are logged once, and end their process with 1 (ASVS 16.5.4)', async () => {
  // Base64, because stacks name the module.
  const module = `data:text/javascript;base64,${Buffer.from(ON_SIGNAL).toString('base64')}`
  const service = await start({ WORKERS: '2' }, undefined, [process.execPath, '--import', module, SERVER])
  const [victim = 0] = workersOf(service)
  process.kill(victim, 'SIGUSR2')
  await service.told(/"workerPid":\d+,"code":(1),/)
  // A new worker has replaced it.
  await until(() => addressesIn(service).length === 3)
  const before = service.output()
  const fatal = before.match(/^.*"level":60.*$/gm)?.map((line) => JSON.parse(line))
  expect(fatal).toMatchObject([{ err: { code: '23505', message: '' } }])

  service.child.kill('SIGUSR2')
  expect(await service.exit).toEqual([1, null])
  const written = service.output().slice(before.length)
  const err = { type: 'TypeError', message: 'broken' }
  expect(JSON.parse(written)).toMatchObject({ level: 60, service: 'gatehouse', err })
  expect(service.output()).not.toContain('c4n4ry')
})
