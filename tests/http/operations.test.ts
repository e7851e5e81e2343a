import { Registry } from 'prom-client'
import { request } from 'undici'
import { expect, inject, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { runStatement } from '../../scripts/kit/postgres.ts'
import { type Connection, connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { showHashing, showLog, showProcess } from '../../src/http/metrics.ts'
import { buildOps } from '../../src/http/ops.ts'
import { whenDone } from '../support/cleanup.ts'
import { createEmptyDatabase } from '../support/empty-database.ts'
import { cutOff } from '../support/postgres.ts'
import { useSharedService } from '../support/test-service.ts'

const { service } = await useSharedService()
const [connection] = service.connections
const [registry] = service.registries
if (!connection || !registry) throw new Error('a service has an instance')
const admin = await service.addCompany()

/** The operations listener, opened as server.ts opens it. */
async function openOps(of: Connection, registry = new Registry()) {
  showProcess(registry, 'primary', of)
  showHashing(registry, { waiting: 3 })
  showLog(registry, { lost: 5 })
  const ops = buildOps({ connection: of, registry, metrics: () => registry.metrics() })
  const address = await ops.listen({ host: '127.0.0.1', port: 0 })
  whenDone(() => ops.close())
  const get = async (path: string, method: 'GET' | 'POST' = 'GET') => {
    const { statusCode, headers, body } = await request(address + path, { method })
    return { status: statusCode, type: headers['content-type'], text: await body.text() }
  }
  async function state() {
    const { status, text } = await get('/readyz')
    const [, metric] = /^gatehouse_ready (\S+)$/m.exec((await get('/metrics')).text) ?? []
    return { readyz: [status, JSON.parse(text)], metric, livez: (await get('/livez')).status }
  }
  return { serve: ops.serve, drain: ops.drain, get, state }
}

/** Liveness does not depend on readiness. */
const READY = { readyz: [200, { status: 'ok' }], metric: '1', livez: 200 }
const unready = (reason: string) => ({
  readyz: [503, { status: 'not ready', reason }],
  metric: '0',
  livez: 200,
})

const main = await openOps(connection, registry)

test('a process is alive throughout, and ready only while it serves', async () => {
  expect(await main.state()).toEqual(unready('starting'))
  main.serve(() => false)
  expect(await main.state()).toEqual(unready('no worker'))
  main.serve(() => true)
  await expect.poll(main.state).toEqual(READY)
  const text = JSON.stringify({ status: 'ok', version: manifest.version })
  expect(await main.get('/livez')).toMatchObject({ status: 200, text })
  main.drain()
  expect(await main.state()).toEqual(unready('draining'))
})

test('a process is ready only with a migrated, reachable database (ASVS 16.5.2)', async () => {
  const [serverUrl, url] = [inject('serverUrl'), await createEmptyDatabase()]
  const name = new URL(url).pathname.slice(1)
  const empty = connect({ url, poolSize: 2 })
  whenDone(empty.close)
  const ops = await openOps(empty)
  ops.serve(() => true)
  await expect.poll(ops.state).toEqual(unready('migrations pending'))
  await migrate(empty.db)
  await expect.poll(ops.state).toEqual(READY)
  await cutOff(serverUrl, name)
  expect(await ops.state()).toEqual(unready('database unavailable'))
  await runStatement(serverUrl, `alter database ${name} allow_connections true`)
  await expect.poll(ops.state).toEqual(READY)
})

test('metrics count requests by route pattern, never by its values', async () => {
  const canary = 'c4n4ry'
  await service.loginAs(admin)
  await service.call(`/${canary}?${canary}`, { headers: { 'user-agent': canary } })
  await expect.poll(async () => (await main.get('/metrics')).text).toMatch(/route="none",status="404"/)
  const { status, type, text } = await main.get('/metrics')
  expect([status, type]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
  expect(text).toMatch(
    /^gatehouse_http_request_duration_seconds_count\{method="POST",route="\/api\/auth\/login",status="200"\} \d+$/m,
  )
  for (const name of ['gatehouse_database_connections_(?:idle|awaited)', 'nodejs_eventloop_lag_seconds'])
    expect(text).toMatch(new RegExp(`^${name} [\\d.e-]+$`, 'm'))
  expect(text).toMatch(/^gatehouse_password_hashes_waiting 3$/m)
  for (const secret of [canary, admin.companyId, admin.email]) expect(text).not.toContain(secret)
})

test('the operations and public listeners share no path (ASVS 13.4.5)', async () => {
  for (const method of ['GET', 'POST'] as const) {
    const { status, type, text } = await main.get('/api/auth/login', method)
    expect([status, type]).toEqual([404, 'application/problem+json; charset=utf-8'])
    expect(JSON.parse(text).code).toBe('not_found')
  }
  for (const path of ['/../livez', '/../readyz', '/../metrics', '/livez', '/readyz', '/metrics'])
    expect([path, (await service.call(path, { method: 'GET' })).status]).toEqual([path, 404])
})
