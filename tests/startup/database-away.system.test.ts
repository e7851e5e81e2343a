import { request } from 'undici'
import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { findPlace, findServicePlaces, type Place } from '../../scripts/kit/places.ts'
import { openProxy } from '../../scripts/kit/tcp-proxy.ts'
import { connect } from '../../src/database/connect.ts'
import { waitForDatabase } from '../../src/database/start.ts'
import { explain } from '../../src/process/startup.ts'
import { whenDone } from '../support/cleanup.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService, times } from '../support/test-service.ts'
import { loginOf } from '../workers/service.ts'

/** The service starts before its database. */

const testService = await openTestService()
const { launch } = createServerProcesses(testService.url)
const { hostname, port } = new URL(testService.url)
const database = { host: hostname, port: Number(port) }
const SILENCE = { kind: 'stall', ways: ['to server', 'to client'] } as const

/** The database's URL at a different host or port. */
const at = ({ host, port }: Place, others: Partial<Pick<URL, 'pathname' | 'username'>> = {}) =>
  Object.assign(new URL(testService.url), { host: `${host}:${port}`, ...others }).href

test('the service waits for the database, returning 503 while it is silent (ASVS 16.5.2)', async () => {
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

  const { companyId, email, ...secret } = await testService.addCompany()
  const login = loginOf({ companyId, email, ...secret })
  const ask = async (path: string, options: Parameters<typeof request>[1]) => {
    const { statusCode, headers, body } = await request(`${address}/api${path}`, options)
    return { status: statusCode, headers, body: Object(await body.json()) }
  }
  const signIn = () => ask('/auth/login', login)
  const { accessToken, refreshToken } = (await signIn()).body
  proxy.disturb(SILENCE)
  const answers = await Promise.all([
    ...times(240, signIn),
    ask('/auth/session', { headers: { authorization: `Bearer ${accessToken}` } }),
    ask('/auth/refresh', { method: 'POST', headers: { authorization: `Bearer ${refreshToken}` } }),
    ask('/auth/password/forgot', { ...login, body: JSON.stringify({ companyId, email }) }),
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

test('SIGTERM ends the service while it waits for the database', async () => {
  const service = await launch({ DATABASE_URL: at(await findPlace()) })
  await service.told(/(Waiting for the database)/)
  service.child.kill('SIGTERM')
  expect(await service.exit).toEqual([0, null])
})

/** Log lines during the wait, and the reason reported to the operator. */
async function wait(url: string, patienceMs: number) {
  const connection = connect({ url, poolSize: 2 })
  const said: string[] = []
  const say = (text: string) => said.push(text)
  const options = { signal: new AbortController().signal, say, patienceMs }
  const error = await waitForDatabase(connection.health, options).catch((error: unknown) => error)
  await connection.close()
  return { said, reason: explain(error) }
}

test('the wait for the database ends with an explanation', async () => {
  const { said, reason } = await wait(at(await findPlace()), 700)
  expect(said).toEqual([expect.stringMatching(/^Waiting for the database.*ECONNREFUSED/)])
  expect(reason).toMatch(/^Cannot connect to the database: .*ECONNREFUSED.*Check DATABASE_URL/)
})

test.for([
  ['database', { pathname: '/no_such_database' }],
  ['role', { username: 'nobody_of_that_name' }],
] as const)('the service does not wait for a missing %s', async ([, missing]) => {
  const { said, reason } = await wait(at(database, missing), 600_000)
  expect(said).toEqual([])
  expect(reason).toMatch(/^Cannot connect to the database: [^\n]+ Check DATABASE_URL[^\n]+$/)
})
