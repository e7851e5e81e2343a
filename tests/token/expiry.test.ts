import { describe, expect, test } from 'vitest'
import { ended } from '../session/state.ts'
import { claimsOf, must } from '../support/second-factors.ts'
import { createClock, openTestService, useSharedService } from '../support/test-service.ts'

/** Lifetimes of tokens, and instances whose clocks differ. */

const { service } = await useSharedService()
const endOf = (token: string) => Number(claimsOf(token)['exp'])

test('an access token is valid until its expiry, which the refusal names (ASVS 9.2.1)', async () => {
  const { accessToken: token } = await service.loginAs(await service.addCompany())
  service.clock.advance(899)
  expect((await service.getSession({ token })).status).toBe(200)
  service.clock.advance(1)
  const { status, headers, body } = await service.getSession({ token })
  const expiry = new Date(endOf(token) * 1000).toISOString()
  const detail = `The access token expired at ${expiry}. Refresh it, or sign in again.`
  expect([status, body.code, body.detail]).toEqual([401, 'token_expired', detail])
  expect(headers['www-authenticate']).toBe(
    `Bearer realm="gatehouse", error="invalid_token", error_description="${detail}"`,
  )
})

test('a refresh token is valid until its expiry, which the refusal names (ASVS 9.2.1)', async () => {
  const admin = await service.addCompany()
  const [early, late] = [await service.loginAs(admin), await service.loginAs(admin)]
  service.clock.advance(604_799)
  expect((await service.refresh(early.refreshToken)).status).toBe(200)
  service.clock.advance(1)
  const { status, body } = await service.refresh(late.refreshToken)
  const expiry = new Date(endOf(late.refreshToken) * 1000).toISOString()
  const detail = `The refresh token expired at ${expiry}. Sign in again.`
  expect([status, body.code, body.detail]).toEqual([401, 'token_expired', detail])
})

test('refreshes extend a session and its tokens only to its maximum age (ASVS 7.3.1, 7.3.2, 10.4.8)', async () => {
  const lives = { ACCESS_TOKEN_TTL_SECONDS: '600', REFRESH_TOKEN_TTL_SECONDS: '3600' }
  const service = await openTestService({ env: { ...lives, SESSION_MAX_AGE_SECONDS: '5000' } })
  let pair = await service.loginAs(await service.addCompany())
  const start = Math.floor(service.clock.now() / 1000)
  for (const [age, expiresIn, refreshExpiresIn] of [
    [1000, 600, 3600],
    [3000, 600, 2000],
    [4800, 200, 200],
  ] as const) {
    service.clock.advance(start + age - Math.floor(service.clock.now() / 1000))
    pair = (await service.refresh(pair.refreshToken)).body
    expect([pair.expiresIn, pair.refreshExpiresIn]).toEqual([expiresIn, refreshExpiresIn])
    const ends = [pair.accessToken, pair.refreshToken].map(endOf)
    expect(ends).toEqual([start + age + expiresIn, start + age + refreshExpiresIn])
    expect(Math.floor(Date.parse(pair.session.expiresAt) / 1000)).toBe(start + age + refreshExpiresIn)
  }
  service.clock.advance(200)
  expect((await service.refresh(pair.refreshToken)).body.code).toBe('token_expired')
})

describe('clocks', async () => {
  /** The clocks are a minute late, a minute early (the most allowed), and another two seconds early. */
  const [LATE, EARLY, TOO_EARLY] = [0, 1, 2]
  const clocks = [-60, 60, 62].map((seconds) => {
    const clock = createClock()
    clock.advance(seconds)
    return clock
  })
  const service = await openTestService({ instances: 3, clocks })
  const admin = await service.addCompany()

  test.for([
    { issuer: LATE, other: EARLY, names: 'a late clock to an early one' },
    { issuer: EARLY, other: LATE, names: 'an early clock to a late one' },
  ])('tokens are accepted between clocks two minutes apart: from $names', async ({ issuer, other }) => {
    const { accessToken, refreshToken } = await service.loginAs(admin, { at: issuer })
    expect((await service.getSession({ token: accessToken, at: other })).status).toBe(200)
    const there = await must(service.refresh(refreshToken, { at: other }))
    expect((await service.getSession({ token: there.accessToken, at: issuer })).status).toBe(200)
    const { accessToken: token } = await must(service.refresh(there.refreshToken, { at: issuer }))
    expect((await service.call('/auth/logout', { token, at: other })).status).toBe(204)
    expect(await service.getSession({ token, at: issuer })).toMatchObject(ended('logout'))
  })

  test('tokens from more than two minutes in the future are rejected (ASVS 9.2.1)', async () => {
    const { accessToken: token, refreshToken } = await service.loginAs(admin, { at: TOO_EARLY })
    expect((await service.getSession({ token, at: TOO_EARLY })).status).toBe(200)
    expect((await service.getSession({ token, at: LATE })).body.code).toBe('invalid_token')
    expect((await service.refresh(refreshToken, { at: LATE })).body.code).toBe('invalid_token')
  })
})
