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
const { launch } = createServerProcesses(testService.url)
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

test('the service waits for the database, and returns 503 while it is silent (ASVS 16.5.2)', async () => {
  const [place, { env, address, ops }] = [await findPlace(), await findServicePlaces()]
  const service = await launch({ ...env, DATABASE_URL: at(place) })
  await service.told(/(Waiting for the database.*ECONNREFUSED)/)
  const probe = async (path: string) => {
    const { statusCode, body } = await request(ops + path)
    return [statusCode, await body.text()]
  }
  const alive = [200, JSON.stringify({ status: 'ok', version: manifest.version })]
  expect(await probe('/livez')).toEqual(alive)
  expect(await probe('/readyz')).toEqual([503, JSON.stringify({ status: 'not ready', reason: 'starting' })])

  const proxy = await openProxy(() => database, place)
  whenDone(() => proxy.close())
  await service.told(/(Server listening at)/)
  await expect.poll(() => probe('/readyz')).toEqual([200, JSON.stringify({ status: 'ok' })])

  const { companyId, email, password } = await testService.addCompany()
  const ask = async (path: string, json?: object, token?: string) => {
    const { statusCode, headers, body } = await request(`${address}/api${path}`, {
      method: path === '/auth/session' ? 'GET' : 'POST',
      headers: {
        ...(json && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
      body: json ? JSON.stringify(json) : null,
    })
    return { status: statusCode, headers, body: Object(await body.json()) }
  }
  const signIn = () => ask('/auth/login', { companyId, email, password })
  const { accessToken, refreshToken } = (await signIn()).body
  proxy.disturb(SILENCE)
  const answers = await Promise.all([
    ...times(240, signIn),
    ask('/auth/session', undefined, accessToken),
    ask('/auth/refresh', undefined, refreshToken),
    ask('/auth/password/forgot', { companyId, email }),
  ])
  const unavailable = { status: 503, headers: { 'retry-after': '1' }, body: { code: 'unavailable' } }
  for (const answer of answers) expect(answer).toMatchObject(unavailable)
  expect(await probe('/livez')).toEqual(alive)
  expect((await probe('/readyz'))[0]).toBe(503)
  expect((await probe('/metrics'))[0]).toBe(200)

  proxy.disturb(null)
  await expect.poll(async () => (await signIn()).status).toBe(200)
  proxy.disturb(SILENCE)
  service.child.kill('SIGTERM')
  expect(await service.exit).toEqual([0, null])
})

describe('a database that is not there at the start', () => {
  test('SIGTERM ends the wait for the database', async () => {
    const service = await launch({ DATABASE_URL: at(await findPlace()) })
    await service.told(/(Waiting for the database)/)
    service.child.kill('SIGTERM')
    expect(await service.exit).toEqual([0, null])
  })

  /** What the service says while it waits, and the reason that it gives to the operator. */
  async function wait(url: string, patienceMs: number) {
    const connection = connect({ url, poolSize: 2 })
    const said: string[] = []
    const say = (text: string) => said.push(text)
    const options = { signal: new AbortController().signal, say, patienceMs }
    const error = await waitForDatabase(connection.health, options).catch((error: unknown) => error)
    await connection.close()
    return { said, reason: explain(error) }
  }

  test('the wait ends with an explanation', async () => {
    const { said, reason } = await wait(at(await findPlace()), 700)
    expect(said).toEqual([expect.stringMatching(/^Waiting for the database.*ECONNREFUSED/)])
    expect(reason).toMatch(/^The database cannot be used: .*ECONNREFUSED.*Check DATABASE_URL/)
  })

  test.for([
    ['database', 'pathname', '/no_such_database'],
    ['role', 'username', 'nobody_of_that_name'],
  ] as const)('the service does not wait for a missing %s', async ([, part, name]) => {
    const { said, reason } = await wait(
      at(database, (url) => {
        url[part] = name
      }),
      600_000,
    )
    expect(said).toEqual([])
    expect(reason).toMatch(/^The database cannot be used: [^\n]+ Check DATABASE_URL[^\n]+$/)
  })
})
