import { expect, test } from 'vitest'
import { linesAbout, linesOf } from '../support/log-lines.ts'
import { openTestService, type TestService } from '../support/test-service.ts'

/** Proxies, and pages whose cookies browsers drop. */

const LISTED = 'https://dash.elsewhere.example'
const env = { PUBLIC_URL: 'https://auth.example', DASHBOARD_ORIGINS: LISTED }
const service = await openTestService({ env })
const behind = await openTestService({ env: { TRUST_PROXY: '127.0.0.1, 10.0.0.0/8, 2001:db8:f::/48' } })

const warningsOf = (from: TestService, pattern: RegExp) =>
  linesOf(from).filter(({ level, msg }) => level === 40 && pattern.test(String(msg)))

/** The IP address that the log has for a request with this header. */
async function addressOf(forwarded: string, from = behind): Promise<unknown> {
  const answer = await from.call('/nothing', { headers: { 'x-forwarded-for': forwarded } })
  const lines = await linesAbout(from, answer)
  return lines.at(-1)?.['ipAddress']
}

test.for([
  ['1.2.3.4', '1.2.3.4'],
  ['1.2.3.4:4711', '1.2.3.4'],
  ['2001:db8::1', '2001:db8::1'],
  ['[2001:db8::1]', '2001:db8::1'],
  // Two proxies, which both add the port.
  ['1.2.3.4:4711, 10.1.2.3:80', '1.2.3.4'],
  ['[2001:db8::1]:4711, [2001:db8:f::2]:80', '2001:db8::1'],
  ['9.9.9.9:1, 1.2.3.4:4711', '1.2.3.4'],
  // Anything else is ignored, and the proxy's own address counts.
  ['1.2.3.4:471100', '127.0.0.1'],
  ['1.2.3.400:80', '127.0.0.1'],
  ['[2001:db8::1', '127.0.0.1'],
] as const)('X-Forwarded-For: %s sets the IP address %s (ASVS 4.1.3, 15.3.4)', async ([sent, expected]) => {
  expect(await addressOf(sent)).toBe(expected)
  expect(warningsOf(behind, /X-Forwarded-For/)).toEqual([])
})

test('an ignored X-Forwarded-For is logged once a minute, without its value', async () => {
  const warnings = () => warningsOf(service, /X-Forwarded-For is ignored: TRUST_PROXY/)
  for (let count = 0; count < 5; count += 1)
    expect(await addressOf('198.51.100.7', service)).toBe('127.0.0.1')
  expect(warnings()).toEqual([expect.objectContaining({ peer: '127.0.0.1' })])
  expect(JSON.stringify(warnings())).not.toContain('198.51.100.7')
  service.clock.advance(61)
  await addressOf('198.51.100.7', service)
  expect(warnings().length).toBe(2)
})

test('a cookie sign-in from a different site is logged once a minute', async () => {
  const admin = await service.addCompany()
  const warnings = () => warningsOf(service, /browsers drop its SameSite=Strict cookie/)
  const signIn = async (mode: string, site: string) => {
    const headers = { 'x-session-mode': mode, origin: LISTED, 'sec-fetch-site': site }
    expect((await service.login(admin, { headers })).status).toBe(200)
  }
  await signIn('cookie', 'same-site')
  await signIn('token', 'cross-site')
  expect(warnings()).toEqual([])
  for (let count = 0; count < 3; count += 1) await signIn('cookie', 'cross-site')
  expect(warnings()).toEqual([expect.objectContaining({ origin: LISTED })])
})

test('only an active credential makes a network known to the proxy', async () => {
  const { accessToken: token } = await behind.loginAs(await behind.addCompany())
  const isKnown = async (path: string, given = {}, from = behind) =>
    (await from.call(path, { method: 'GET', ...given })).headers['x-network-proven']
  expect(await isKnown('/.well-known/jwks.json')).toBeUndefined()
  expect(await isKnown('/auth/session', { token: `${token}x` })).toBeUndefined()
  expect(await isKnown('/auth/session', { token })).toBe('1')
  const { accessToken: direct } = await service.loginAs(await service.addCompany())
  expect(await isKnown('/auth/session', { token: direct }, service)).toBeUndefined()
})
