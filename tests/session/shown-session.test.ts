import { expect, test } from 'vitest'
import { useSharedService } from '../support/test-service.ts'
import { sessionRow } from './state.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()

/** The cookie of a new session, and the ID that its page would send. */
async function openSession() {
  const cookie = await service.cookieOf(admin)
  const { body } = await service.getSession({ cookie })
  return { cookie, id: String(body.session.id) }
}

const showing = (id: string) => ({ 'x-session-id': id })

test('X-Session-Id accepts the cookie of its session', async () => {
  const { cookie, id } = await openSession()
  for (const shown of [id, id.toUpperCase()])
    expect((await service.getSession({ cookie, headers: showing(shown) })).status).toBe(200)
  expect((await service.call('/auth/logout', { cookie, headers: showing(id) })).status).toBe(204)
})

test.each([
  ['GET', '/auth/session'],
  ['POST', '/auth/logout?scope=all'],
])('X-Session-Id refuses the cookie of a different session: %s %s', async (method, path) => {
  const shown = await openSession()
  const current = await openSession()
  service.clock.advance(120)
  const rows = () => Promise.all([shown, current].map(({ id }) => sessionRow(service, id)))
  const before = await rows()
  for (const id of [shown.id, '', 'x', `${current.id}0`]) {
    const headers = showing(id)
    const { status, body } = await service.call(path, { method, cookie: current.cookie, headers })
    expect([status, body.code]).toEqual([409, 'session_changed'])
  }
  expect(await rows()).toEqual(before)
  expect((await service.getSession({ cookie: shown.cookie, at: 1 })).status).toBe(200)
})

test("X-Session-Id does not hide that a cookie's session has ended", async () => {
  const shown = await openSession()
  const ended = await openSession()
  await service.call('/auth/logout', { cookie: ended.cookie })
  const request = { cookie: ended.cookie, headers: showing(shown.id) }
  for (const answer of [await service.getSession(request), await service.call('/auth/logout', request)])
    expect([answer.status, answer.body.code]).toEqual([401, 'session_ended'])
})

test('a late request does not expire a cookie that re-authentication replaced', async () => {
  const { cookie, id } = await openSession()
  const headers = showing(id)
  const json = { password: admin.password }
  expect((await service.call('/auth/reauthenticate', { cookie, json, headers })).status).toBe(204)
  const late = await service.getSession({ cookie, headers })
  expect([late.status, late.headers['set-cookie']]).toEqual([401, undefined])
  expect((await service.getSession({ cookie })).headers['set-cookie']).toBeDefined()
})

test('X-Session-Id is ignored if there is an access token', async () => {
  const shown = await openSession()
  const { accessToken: token } = await service.loginAs(admin)
  const request = { token, headers: showing(shown.id) }
  expect((await service.getSession(request)).status).toBe(200)
  expect((await service.call('/auth/logout', request)).status).toBe(204)
})
