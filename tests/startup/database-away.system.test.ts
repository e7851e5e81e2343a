import { once } from 'node:events'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { findPlace, findServicePlaces, type Place } from '../../scripts/kit/places.ts'
import { openProxy } from '../../scripts/kit/tcp-proxy.ts'
import { connect } from '../../src/database/connect.ts'
import { waitForDatabase } from '../../src/database/start.ts'
import { explain } from '../../src/startup.ts'
import { whenDone } from '../support/cleanup.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'

/** A service that starts before its database does. */

const testService = await openTestService()
const { launch, start } = createServerProcesses(testService.url)
const { hostname, port } = new URL(testService.url)
const database = { host: hostname, port: Number(port) }
const SILENCE = { kind: 'stall', ways: ['to server', 'to client'] } as const

/** The database at another place. */
function at({ host, port }: Place, change: (url: URL) => void = () => {}): string {
  const url = new URL(testService.url)
  url.host = `${host}:${port}`
  change(url)
  return url.href
}

test('a database that falls silent leaves probes and metrics, and does not hold up the end of the process (ASVS 16.5.2)', async () => {
  const proxy = await openProxy(() => database)
  whenDone(() => proxy.close())
  const service = await start({ DATABASE_URL: at(proxy) })
  proxy.disturb(SILENCE)
  for (const [path, status] of [
    ['/livez', 200],
    ['/readyz', 503],
    ['/metrics', 200],
  ] as const) {
    const { statusCode, body } = await request(service.ops + path)
    await body.dump()
    expect([path, statusCode]).toEqual([path, status])
  }
  service.child.kill('SIGTERM')
  expect(await service.exit).toEqual([0, null])
})

test('a database that falls silent leaves no request without an answer, however many wait for it (ASVS 16.5.2)', async () => {
  const proxy = await openProxy(() => database)
  whenDone(() => proxy.close())
  const service = await start({ DATABASE_URL: at(proxy) })
  const { companyId, email, password } = await testService.addCompany()
  const ask = async (path: string, json?: object, token?: string) => {
    const { statusCode, headers, body } = await request(`${service.address}/api${path}`, {
      method: path === '/auth/session' ? 'GET' : 'POST',
      headers: {
        ...(json && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
      body: json ? JSON.stringify(json) : null,
    })
    return { status: statusCode, headers, body: await body.json() }
  }
  const signIn = () => ask('/auth/login', { companyId, email, password })
  const { body } = await signIn()
  const { accessToken, refreshToken } = body as Record<string, string>

  proxy.disturb(SILENCE)
  const answers = await Promise.all([
    ...times(240, signIn),
    ask('/auth/session', undefined, accessToken),
    ask('/auth/refresh', undefined, refreshToken),
    ask('/auth/logout', undefined, accessToken),
    ask('/auth/password/forgot', { companyId, email }),
    ask('/auth/register', { companyName: 'Acme', name: 'Ada', email, password }),
    ask('/auth/verify-email', { token: `verify_${'x'.repeat(43)}` }),
  ])
  for (const answer of answers)
    expect(answer).toMatchObject({
      status: 503,
      headers: { 'retry-after': '1' },
      body: { code: 'unavailable' },
    })

  proxy.disturb(null)
  await expect.poll(async () => (await signIn()).status).toBe(200)
})

describe('a database that is not there at the start', () => {
  test('is waited for, and the process says so, lives, and is not ready (ASVS 16.5.2)', async () => {
    const place = await findPlace()
    const { env, ops } = await findServicePlaces()
    const service = await launch({ ...env, DATABASE_URL: at(place) })
    await service.told(/(Waiting for the database.*ECONNREFUSED)/)
    const ask = async (path: string) => {
      const { statusCode, body } = await request(ops + path)
      return [statusCode, await body.json()]
    }
    expect(await ask('/livez')).toEqual([200, { status: 'ok', version: manifest.version }])
    expect(await ask('/readyz')).toEqual([503, { status: 'not ready', reason: 'starting' }])

    const proxy = await openProxy(() => database, place)
    whenDone(() => proxy.close())
    await service.told(/(Server listening at)/)
    await expect.poll(() => ask('/readyz')).toEqual([200, { status: 'ok' }])
  })

  test('is no longer waited for when the process is to stop', async () => {
    const service = await launch({ DATABASE_URL: at(await findPlace()) })
    await service.told(/(Waiting for the database)/)
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([0, null])
  })

  test.for([
    ['ECONNREFUSED', findPlace],
    // No route leads there.
    ['ENETUNREACH', async () => ({ host: '255.255.255.255', port: 5432 })],
  ] as const)('ends the wait after its time, with what an operator can do: %s', async ([code, find]) => {
    const connection = connect({ url: at(await find()), poolSize: 2 })
    const said: string[] = []
    const waiting = waitForDatabase(connection.health, {
      signal: new AbortController().signal,
      say: (text) => said.push(text),
      patienceMs: 700,
    })
    const error = await waiting.catch((error: unknown) => error)
    expect(said).toEqual([expect.stringMatching(new RegExp(`^Waiting for the database.*${code}`))])
    expect(explain(error)).toMatch(new RegExp(`^The database cannot be used: .*${code}.*Check DATABASE_URL`))
    await connection.close()
  })

  test.for([
    [
      'a database that does not exist',
      (url: URL) => {
        url.pathname = '/no_such_database'
      },
    ],
    [
      'a role that does not exist',
      (url: URL) => {
        url.username = 'nobody_of_that_name'
      },
    ],
  ] as const)('%s is not waited for', async ([, change]) => {
    const service = await launch({ DATABASE_URL: at(database, change) })
    const [code] = await once(service.child, 'close')
    expect([code, service.output()]).toEqual([
      1,
      expect.stringMatching(/^The database cannot be used: [^\n]+ Check DATABASE_URL[^\n]+\n$/),
    ])
  })
})
