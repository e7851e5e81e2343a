import { randomBytes } from 'node:crypto'
import { Registry } from 'prom-client'
import { request } from 'undici'
import { describe, expect, inject, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { runStatement } from '../../scripts/kit/postgres.ts'
import { openProxy } from '../../scripts/kit/tcp-proxy.ts'
import { type Connection, connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { showHashing, showLog, showProcess } from '../../src/http/metrics.ts'
import { buildOps } from '../../src/http/ops.ts'
import { whenDone } from '../support/cleanup.ts'
import { databaseUrl } from '../support/postgres.ts'
import { openTestService, useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const [connection] = service.connections
const [registry] = service.registries
if (!connection || !registry) throw new Error('a service has an instance')
const admin = await service.addCompany()

/** The second listener, as server.ts opens it. */
async function openOps(of: Connection, { registry = new Registry(), isServing = true } = {}) {
  showProcess(registry, 'primary', of)
  showHashing(registry, { waiting: 3 })
  showLog(registry, { lost: 5 })
  const ops = buildOps({ connection: of, registry, metrics: () => registry.metrics() })
  const serve = (check = () => true) => ops.serve(check)
  if (isServing) serve()
  const address = await ops.listen({ host: '127.0.0.1', port: 0 })
  whenDone(() => ops.close())
  const get = async (path: string, method: 'GET' | 'POST' = 'GET') => {
    const { statusCode, headers, body } = await request(address + path, { method })
    return { status: statusCode, type: headers['content-type'], text: await body.text() }
  }
  const readiness = async () => {
    const { status, text } = await get('/readyz')
    return [status, JSON.parse(text).reason]
  }
  const readyMetric = async () => /^gatehouse_ready (\S+)$/m.exec((await get('/metrics')).text)?.[1]
  return { serve, drain: () => ops.drain(), get, readiness, readyMetric }
}

const main = await openOps(connection, { registry })

describe('the operations listener:', () => {
  test('the operations listener reports that the process is alive and ready', async () => {
    expect(await main.get('/livez')).toMatchObject({
      status: 200,
      text: JSON.stringify({ status: 'ok', version: manifest.version }),
    })
    await expect.poll(() => main.get('/readyz')).toMatchObject({ status: 200, text: '{"status":"ok"}' })
  })

  test('a draining process is not ready, but alive', async () => {
    const ops = await openOps(connection)
    ops.drain()
    expect(await ops.readiness()).toEqual([503, 'draining'])
    expect((await ops.get('/livez')).status).toBe(200)
  })

  test('a process is alive, but not ready, before its public listener is open', async () => {
    const ops = await openOps(connection, { isServing: false })
    expect(await ops.readiness()).toEqual([503, 'starting'])
    expect((await ops.get('/livez')).status).toBe(200)
    ops.serve()
    await expect.poll(() => ops.readiness()).toEqual([200, undefined])
  })

  test('readiness is a metric too', async () => {
    const ops = await openOps(connection, { isServing: false })
    expect(await ops.readyMetric()).toBe('0')
    ops.serve()
    await expect.poll(() => ops.readyMetric()).toBe('1')
    ops.serve(() => false)
    expect(await ops.readyMetric()).toBe('0')
    ops.serve()
    ops.drain()
    expect(await ops.readyMetric()).toBe('0')
  })

  test('a process is not ready while no worker responds', async () => {
    const ops = await openOps(connection, { isServing: false })
    ops.serve(() => false)
    expect(await ops.readiness()).toEqual([503, 'no worker'])
  })

  test('a stalled database makes the process not ready until it continues (ASVS 16.5.2)', async () => {
    const { hostname, port } = new URL(service.url)
    const proxy = await openProxy(() => ({ host: hostname, port: Number(port) }))
    const url = new URL(service.url)
    url.host = `127.0.0.1:${proxy.port}`
    const distant = connect({ url: url.href, poolSize: 2, timeoutScale: 100 })
    whenDone(async () => {
      await distant.close()
      await proxy.close()
    })
    // Its statements wait for minutes.
    const ops = await openOps({ ...distant, health: distant.db })
    await expect.poll(() => ops.readiness()).toEqual([200, undefined])

    proxy.disturb({ kind: 'stall', ways: ['to server', 'to client'] })
    // Over an open connection at first, and then over one that is never established.
    for (let probe = 0; probe < 2; probe += 1) {
      expect(await ops.readiness()).toEqual([503, 'database unavailable'])
      expect(await ops.readyMetric()).toBe('0')
    }
    proxy.disturb(null)
    await expect.poll(() => ops.readiness()).toEqual([200, undefined])
  })

  test('an unknown path of the operations listener is not echoed', async () => {
    const { status, type, text } = await main.get('/c4n4ry')
    expect([status, type]).toEqual([404, 'application/problem+json; charset=utf-8'])
    expect(JSON.parse(text)).toMatchObject({ status: 404, code: 'not_found' })
    expect(text).not.toContain('c4n4ry')
  })

  test('a process is not ready while migrations are pending', async () => {
    const name = `gatehouse_${randomBytes(6).toString('hex')}`
    await runStatement(inject('serverUrl'), `create database ${name}`)
    const empty = connect({ url: databaseUrl(inject('serverUrl'), name), poolSize: 2 })
    const ops = await openOps(empty)
    await expect.poll(() => ops.readiness()).toEqual([503, 'migrations pending'])
    await migrate(empty.db)
    await expect.poll(() => ops.readiness()).toEqual([200, undefined])
    await empty.close()
    await runStatement(inject('serverUrl'), `drop database ${name}`)
  })

  test('a process is not ready, but alive, while the database is away (ASVS 16.5.2)', async () => {
    const cut = await openTestService()
    const [to] = cut.connections
    if (!to) throw new Error('a service has an instance')
    const ops = await openOps(to)
    await expect.poll(() => ops.readiness()).toEqual([200, undefined])
    const name = new URL(cut.url).pathname.slice(1)
    await runStatement(inject('serverUrl'), `alter database ${name} allow_connections false`)
    await runStatement(
      inject('serverUrl'),
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
    )
    expect(await ops.readiness()).toEqual([503, 'database unavailable'])
    expect(await ops.readyMetric()).toBe('0')
    expect((await ops.get('/livez')).status).toBe(200)
    await runStatement(inject('serverUrl'), `alter database ${name} allow_connections true`)
    await expect.poll(() => ops.readiness()).toEqual([200, undefined])
  })

  test('metrics count requests by route pattern, without any of their values', async () => {
    const canary = 'c4n4ry'
    await service.loginAs(admin)
    await service.call(`/${canary}?${canary}`, { headers: { 'user-agent': canary } })
    await expect.poll(async () => (await main.get('/metrics')).text).toMatch(/route="none",status="404"/)
    const { status, type, text } = await main.get('/metrics')
    expect([status, type]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
    expect(text).toMatch(
      /^gatehouse_http_request_duration_seconds_count\{method="POST",route="\/api\/auth\/login",status="200"\} \d+$/m,
    )
    for (const name of [
      'gatehouse_database_connections',
      'gatehouse_database_connections_idle',
      'gatehouse_database_connections_awaited',
      'process_cpu_seconds_total',
      'nodejs_eventloop_lag_seconds',
    ]) {
      expect(text).toMatch(new RegExp(`^${name} [\\d.e-]+$`, 'm'))
    }
    expect(text).toMatch(/^gatehouse_password_hashes_waiting 3$/m)
    // Each line is a comment or a sample.
    for (const line of text.trim().split('\n')) {
      expect(line).toMatch(/^(# (HELP|TYPE) \S+ .+|[a-z_]\w*(\{.*\})? \S+|)$/)
    }
    for (const secret of [canary, admin.companyId, admin.email]) expect(text).not.toContain(secret)
  })

  test('the operations and public listeners share no path (ASVS 13.4.5)', async () => {
    for (const path of ['/api/auth/login', '/api/openapi.json']) {
      for (const method of ['GET', 'POST'] as const) expect((await main.get(path, method)).status).toBe(404)
    }
    const [address] = service.addresses
    for (const path of ['/livez', '/readyz', '/metrics', '/api/livez', '/api/readyz', '/api/metrics']) {
      const { statusCode, body } = await request(address + path)
      expect([path, statusCode]).toEqual([path, 404])
      await body.dump()
    }
  })
})
