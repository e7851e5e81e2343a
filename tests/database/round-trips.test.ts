import pg from 'pg'
import { afterEach, expect, test, vi } from 'vitest'
import { openTestService, PASSWORD, times } from '../support/test-service.ts'

/** A request costs the database one statement, and more if it reads several counters or hashes a password. */

const service = await openTestService({ env: { TRUST_PROXY: '127.0.0.0/8' } })
const admin = await service.addCompany()
const secret = await service.newSecret(admin)
const from = (network: string) => ({ headers: { 'x-forwarded-for': network } })
const cookieMode = { 'x-session-mode': 'cookie' }

afterEach(() => vi.restoreAllMocks())

/** Statements of new connections and of the email sender. */
const IS_OF_NO_REQUEST = /^set |pg_is_in_recovery|leased_until/

async function statementsOf(act: () => Promise<{ status: number }>, status: number): Promise<string[]> {
  const spy = vi.spyOn(pg.Client.prototype, 'query')
  expect(await act()).toMatchObject({ status })
  const texts = spy.mock.calls.map(([query]) => String(Object(query).text ?? query))
  spy.mockRestore()
  return texts.filter((text) => !IS_OF_NO_REQUEST.test(text))
}

async function deviceCookie(): Promise<string> {
  const { headers } = await service.login(admin, { headers: cookieMode })
  const [, device = ''] = /(__Host-device=[^;]+)/.exec(String(headers['set-cookie'])) ?? []
  return device
}

test('a session check takes one statement, by token and by cookie', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  expect(await statementsOf(() => service.getSession({ token }), 200)).toHaveLength(1)
  const cookie = await service.cookieOf(admin)
  expect(await statementsOf(() => service.getSession({ cookie }), 200)).toHaveLength(1)
})

test('a refresh and its retry take one statement each', async () => {
  const { refreshToken } = await service.loginAs(admin)
  const refresh = () => service.refresh(refreshToken, { key: 'k1' })
  expect(await statementsOf(refresh, 200)).toHaveLength(1)
  expect(await statementsOf(refresh, 200)).toHaveLength(1)
})

test('each kind of logout takes one statement', async () => {
  for (const path of ['/auth/logout', '/auth/logout?scope=all']) {
    const { accessToken: token } = await service.loginAs(admin)
    expect(await statementsOf(() => service.call(path, { token }), 204)).toHaveLength(1)
    const cookie = await service.cookieOf(admin)
    expect(await statementsOf(() => service.call(path, { cookie }), 204)).toHaveLength(1)
  }
})

test('signed events take one statement, however many', async () => {
  const event = (n: number) => ({ id: `e${n}`, type: 'user.created', data: { n } })
  const send = (payload: unknown) => () => service.send(admin.companyId, secret, payload)
  // The first event of a minute also records the secret's last use.
  await send(event(0))()
  expect(await statementsOf(send(event(1)), 202)).toHaveLength(1)
  expect(await statementsOf(send({ events: times(100, (n) => event(n + 2)) }), 202)).toHaveLength(1)
})

test('a look at received events takes three statements, and signed events two while someone watches', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const watch = () => service.call('/auth/events', { method: 'GET', token })
  await watch()
  expect(await statementsOf(watch, 200)).toHaveLength(3)
  const send = () => service.send(admin.companyId, secret, { type: 'a.b', data: {} })
  expect(await statementsOf(send, 202)).toHaveLength(2)
})

test.each([
  ['from an IPv4 address', () => from('192.0.2.1')],
  ['from an IPv6 network', () => from('2001:db8:1:2::3')],
  ['with a cookie', () => ({ headers: { ...cookieMode, ...from('192.0.2.2').headers } })],
  ['from a known device', async () => ({ headers: { ...cookieMode, cookie: await deviceCookie() } })],
])('a sign-in %s takes three statements, right or wrong', async (_case, options) => {
  const call = await options()
  expect(await statementsOf(() => service.login(admin, call), 200)).toHaveLength(3)
  const wrong = { ...admin, password: `not ${PASSWORD}` }
  expect(await statementsOf(() => service.login(wrong, call), 401)).toHaveLength(3)
})
