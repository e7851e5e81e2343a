import { describe, expect, test } from 'vitest'
import { createClock, openTestService, type Person } from '../support/test-service.ts'
import { decode, partsOf } from './forge.ts'

/** Tokens and time: how long they last, and what instances whose clocks differ make of them. */

const endOf = (token: string) => Number(decode(partsOf(token)[1])['exp'])

describe('a token', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()

  test('of access passes until its end, and then says when that was (ASVS 9.2.1)', async () => {
    const { accessToken } = await service.loginAs(admin)
    service.clock.advance(899)
    expect((await service.getSession({ token: accessToken })).status).toBe(200)
    service.clock.advance(1)
    const { status, headers, body } = await service.getSession({ token: accessToken })
    const detail = `The access token expired at ${new Date(endOf(accessToken) * 1000).toISOString()}.`
    expect([status, body.code, body.detail]).toEqual([401, 'token_expired', detail])
    expect(headers['www-authenticate']).toBe(
      `Bearer realm="gatehouse", error="invalid_token", error_description="${detail}"`,
    )
  })

  test('of refresh passes until its end, and then says when that was (ASVS 9.2.1)', async () => {
    const early = await service.loginAs(admin)
    const late = await service.loginAs(admin)
    service.clock.advance(604_799)
    expect((await service.refresh(early.refreshToken)).status).toBe(200)
    service.clock.advance(1)
    const { status, body } = await service.refresh(late.refreshToken)
    const detail = `The refresh token expired at ${new Date(endOf(late.refreshToken) * 1000).toISOString()}.`
    expect([status, body.code, body.detail]).toEqual([401, 'token_expired', detail])
  })
})

test('no token outlasts its session (ASVS 7.3.2)', async () => {
  const service = await openTestService({
    env: {
      ACCESS_TOKEN_TTL_SECONDS: '600',
      REFRESH_TOKEN_TTL_SECONDS: '3600',
      SESSION_MAX_AGE_SECONDS: '5000',
    },
  })
  const first = await service.loginAs(await service.addCompany())
  expect([first.expiresIn, first.refreshExpiresIn]).toEqual([600, 3600])
  const ends = Math.floor(Date.parse(first.session.createdAt) / 1000) + 5000
  service.clock.advance(3000)
  const { body: second } = await service.refresh(first.refreshToken)
  expect([second.expiresIn, second.refreshExpiresIn]).toEqual([600, 2000])
  expect(endOf(second.refreshToken)).toBe(ends)
  service.clock.advance(1800)
  const { body: third } = await service.refresh(second.refreshToken)
  expect([third.expiresIn, third.refreshExpiresIn]).toEqual([200, 200])
  expect([endOf(third.accessToken), endOf(third.refreshToken)]).toEqual([ends, ends])
})

describe('instances whose clocks are 60 s early, right and 60 s late', async () => {
  const clocks = [-60, 0, 60].map((seconds) => {
    const clock = createClock()
    clock.advance(seconds)
    return clock
  })
  const service = await openTestService({ instances: 3, clocks })
  const admin: Person = await service.addCompany()
  const pairs = [0, 1, 2].flatMap((issuer) => [0, 1, 2].map((other) => ({ issuer, other })))

  test.each(pairs)(
    'take each other’s tokens: made at $issuer, shown at $other',
    async ({ issuer, other }) => {
      const { accessToken, refreshToken } = await service.loginAs(admin, { at: issuer })
      expect((await service.getSession({ token: accessToken, at: other })).status).toBe(200)
      const { status, body } = await service.refresh(refreshToken, { at: other })
      expect(status).toBe(200)
      for (const at of [0, 1, 2]) {
        expect((await service.getSession({ token: body.accessToken, at })).status).toBe(200)
      }
      const back = await service.refresh(body.refreshToken, { at: issuer })
      expect(back.status).toBe(200)
      const logout = await service.call('/auth/logout', { token: back.body.accessToken, at: other })
      expect(logout.status).toBe(204)
      const { body: after } = await service.getSession({ token: back.body.accessToken, at: issuer })
      expect([after.code, after.reason]).toEqual(['session_ended', 'logout'])
    },
  )
})

test('a token from more than two minutes ahead is refused (ASVS 9.2.1)', async () => {
  const ahead = createClock()
  ahead.advance(122)
  const service = await openTestService({ instances: 2, clocks: [createClock(), ahead] })
  const { accessToken, refreshToken } = await service.loginAs(await service.addCompany(), { at: 1 })
  expect((await service.getSession({ token: accessToken, at: 1 })).status).toBe(200)
  expect((await service.getSession({ token: accessToken, at: 0 })).body.code).toBe('invalid_token')
  expect((await service.refresh(refreshToken, { at: 0 })).body.code).toBe('invalid_token')
})
