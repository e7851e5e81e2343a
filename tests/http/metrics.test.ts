import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { AggregatorRegistry, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { createSealer } from '../../src/crypto/sealing.ts'
import { createLog } from '../../src/http/logs.ts'
import { showBuild, showHashing, showLog, showProcess } from '../../src/http/metrics.ts'
import { rotateKeys } from '../../src/operator/platform.ts'
import { startBackground } from '../../src/process/background.ts'
import { openTestService, times } from '../support/test-service.ts'

const service = await openTestService({ env: { LIMIT_ONE_TIME_TOKENS: '3/600', RATE_LIMIT_SCALE: '1' } })
const [registry] = service.registries
const [connection] = service.connections
if (!registry || !connection) throw new Error('a service has an instance')
showBuild(registry)
showProcess(registry, 'primary', connection)
showHashing(registry, { waiting: 0 })
showLog(registry, { lost: 0 })
const admin = await service.addCompany()

/** The samples of a metric that are not zero, by their labels as written. */
async function read(name: string): Promise<Record<string, number>> {
  const lines = (await registry?.metrics())?.split('\n') ?? []
  const samples = lines.map((line) => /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line))
  return Object.fromEntries(
    samples.flatMap((sample) => (sample?.[1] === name ? [[sample[2] ?? '', Number(sample[3])]] : [])),
  )
}

test('metrics count sign-ins and refreshes by outcome and reason, and theft', async () => {
  const { refreshToken } = await service.loginAs(admin)
  await service.login({ ...admin, password: 'a wrong password' })
  await service.call('/auth/login', { json: {} })
  await expect
    .poll(() => read('gatehouse_sign_ins_total'))
    .toEqual({
      'outcome="success"': 1,
      'outcome="invalid_credentials",reason="wrong_password"': 1,
      'outcome="invalid_request"': 1,
    })

  const { body: second } = await service.refresh(refreshToken)
  const { body: third } = await service.refresh(second.refreshToken)
  service.clock.advance(5)
  await service.refresh(third.refreshToken)
  await service.refresh(refreshToken)
  await service.refresh(third.refreshToken)
  await service.refresh('no-token')
  await expect
    .poll(() => read('gatehouse_refreshes_total'))
    .toEqual({
      'outcome="success"': 3,
      'outcome="refresh_token_reused",reason="refresh_reuse"': 1,
      'outcome="session_ended",reason="refresh_reuse"': 1,
      'outcome="invalid_token"': 1,
    })
})

test('metrics count refusals of each limit', async () => {
  for (let sent = 0; sent < 5; sent += 1) {
    await service.call('/auth/verify-email', { json: { token: `verify_${'x'.repeat(43)}` } })
  }
  await expect.poll(() => read('gatehouse_limits_hit_total')).toEqual({ 'limit="one-time-tokens"': 2 })
})

test('metrics count accepted and duplicate events, and requests that share a statement', async () => {
  const secret = await service.newSecret(admin)
  const event = (id: string, data = {}) => ({ id, type: 'a.b', data })
  const send = (payload: object) => service.send(admin.companyId, secret, payload)
  await send({ events: [event('one'), event('two')] })
  await send({ events: [event('two'), event('three'), event('three')] })
  await send(event('one'))
  expect((await send(event('one', { a: 1 }))).status).toBe(409)
  expect(await read('gatehouse_events_total')).toEqual({
    'outcome="accepted"': 3,
    'outcome="duplicate"': 3,
  })

  await Promise.all(times(40, () => send({ type: 'a.b', data: {} })))
  const statements = await read('gatehouse_batch_size_count')
  // Two of the requests above were single events, each with its own statement.
  expect((await read('gatehouse_batch_size_sum'))['batch="events"']).toBe(42)
  expect(statements['batch="events"']).toBeLessThan(42)
  for (const name of ['refreshes', 'sessions', 'limits'])
    expect(statements[`batch="${name}"`]).toBeGreaterThan(0)
})

test('metrics show the version, the most connections to Postgres, and the memory', async () => {
  expect(await read('gatehouse_build_info')).toEqual({ [`version="${manifest.version}"`]: 1 })
  expect(await read('gatehouse_database_connections_max')).toEqual({ '': service.config.databasePoolSize })
  const { 'role="primary"': bytes = 0, ...others } = await read('gatehouse_resident_memory_bytes')
  expect(others).toEqual({})
  expect(bytes / process.memoryUsage.rss()).toBeGreaterThan(0.5)
  const { 'role="primary"': ratio = 0 } = await read('gatehouse_heap_used_ratio')
  expect(ratio).toBeGreaterThan(0)
  expect(ratio).toBeLessThan(1)
})

test('metrics show the age of the current signing key, never the next', async () => {
  const age = async () => Math.round((await read('gatehouse_signing_key_age_seconds'))[''] ?? Number.NaN)
  const first = await age()
  service.clock.advance(1_000)
  expect(await age()).toBe(first + 1_000)
  const sealer = createSealer(service.config.masterKeys, randomBytes)
  await rotateKeys({ ...service.context, sealer })
  service.clock.advance(599)
  await service.loginAs(admin)
  expect(await age()).toBe(first + 1_599)
  service.clock.advance(1)
  expect(await age()).toBe(600)
})

test('metrics show when housekeeping last succeeded completely', async () => {
  // The first run starts after a random part of an hour. With these bytes, it starts immediately.
  const system = { ...service.clock, randomBytes: (size: number) => Buffer.alloc(size) }
  /** Runs the background jobs until the log has the line, and returns the metric. */
  async function lastSuccessAfter(line: string): Promise<number> {
    const registry = new Registry()
    const lines: string[] = []
    const log = createLog('info', { write: (text) => lines.push(text) })
    const background = startBackground({ ...service.context, system, registry, log })
    const metric = registry.getSingleMetric('gatehouse_housekeeping_last_success_timestamp_seconds')
    const read = async () => (await metric?.get())?.values[0]?.value ?? Number.NaN
    expect(await read()).toBe(0)
    await expect.poll(() => lines.join('')).toContain(`"msg":"${line}"`)
    await background.stop()
    return await read()
  }
  expect(await lastSuccessAfter('housekeeping completed')).toBe(service.clock.now() / 1000)
  await sql`alter table known_clients rename to known_clients_away`.execute(service.db)
  expect(await lastSuccessAfter('housekeeping failed')).toBe(0)
  await sql`alter table known_clients_away rename to known_clients`.execute(service.db)
})

test('metrics of several workers sum only amounts', async () => {
  const one = await registry.getMetricsAsJSON()
  const summed = (await AggregatorRegistry.aggregate([one, one]).getMetricsAsJSON()) as typeof one
  const amountOf = (metrics: typeof one, name: string) =>
    metrics.find((metric) => metric.name === `gatehouse_${name}`)?.values[0]?.value ?? Number.NaN
  const factor = (name: string) => amountOf(summed, name) / amountOf(one, name)
  for (const name of ['database_connections', 'database_connections_max', 'resident_memory_bytes'])
    expect([name, factor(name)]).toEqual([name, 2])
  for (const name of ['heap_used_ratio', 'signing_key_age_seconds'])
    expect([name, factor(name)]).toEqual([name, 1])
})
