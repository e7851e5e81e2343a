import { beforeAll, describe, expect, test } from 'vitest'
import { showLog, showProcess } from '../../src/http/metrics.ts'
import { openTestService } from '../support/test-service.ts'

/** What operators see of the service in Prometheus. */

const service = await openTestService({ env: { LIMIT_ONE_TIME_TOKENS: '3/600', RATE_LIMIT_SCALE: '1' } })
const [registry] = service.registries
const [connection] = service.connections
if (!registry || !connection) throw new Error('a service has an instance')
showProcess(registry, { pool: connection.pool, hashesWaiting: () => 0 })
showLog(registry, { lost: 0 })
const admin = await service.addCompany()

/** The samples of a metric that is not zero, by their labels as written. */
async function read(name: string): Promise<Record<string, number>> {
  const lines = (await registry?.metrics())?.split('\n') ?? []
  const samples = lines.map((line) => /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line))
  return Object.fromEntries(
    samples.flatMap((sample) => (sample?.[1] === name ? [[sample[2] ?? '', Number(sample[3])]] : [])),
  )
}

describe('the metrics count', () => {
  let secret: string
  beforeAll(async () => {
    secret = await service.newSecret(admin)
  })

  test('sign-ins by outcome', async () => {
    const before = await read('gatehouse_sign_ins_total')
    await service.loginAs(admin)
    await service.login({ ...admin, password: 'a wrong password' })
    await service.call('/auth/login', { json: {} })
    await expect
      .poll(() => read('gatehouse_sign_ins_total'))
      .toEqual({
        'outcome="success"': (before['outcome="success"'] ?? 0) + 1,
        'outcome="invalid_credentials"': 1,
        'outcome="invalid_request"': 1,
      })
  })

  test('refreshes by outcome, theft apart', async () => {
    const { refreshToken } = await service.loginAs(admin)
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

  test('limits hit by name', async () => {
    for (let sent = 0; sent < 5; sent += 1) {
      await service.call('/auth/verify-email', { json: { token: `verify_${'x'.repeat(43)}` } })
    }
    await expect.poll(() => read('gatehouse_limits_hit_total')).toEqual({ 'limit="one-time-tokens"': 2 })
  })

  test('how many requests share a statement', async () => {
    await Promise.all(
      Array.from({ length: 40 }, () => service.send(admin.companyId, secret, { type: 'a.b', data: {} })),
    )
    const statements = await read('gatehouse_batch_size_count')
    const requests = await read('gatehouse_batch_size_sum')
    expect(requests['batch="events"']).toBe(40)
    expect(statements['batch="events"']).toBeLessThanOrEqual(40)
    for (const name of ['refreshes', 'sessions', 'limits'])
      expect(statements[`batch="${name}"`]).toBeGreaterThan(0)
  })
})

test('every metric is named as Prometheus asks, and those of ours begin with gatehouse_', async () => {
  const text = (await registry.metrics()).split('\n')
  const types = text.flatMap((line) => {
    const [, name = '', type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? []
    return type ? [{ name, type }] : []
  })
  expect(types.length).toBeGreaterThan(30)
  for (const { name, type } of types) {
    expect(name).toMatch(/^(gatehouse|process|nodejs)_[a-z_0-9]+$/)
    expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter'])
    expect(name).not.toMatch(/_(ms|milliseconds|minutes|kb|mb|count|sum|bucket)$/)
    expect(text.filter((line) => line.startsWith(`# HELP ${name} `)).length).toBe(1)
  }
})
