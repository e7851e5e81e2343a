import { expect, test } from 'vitest'
import { listAudit } from '../support/audit.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { newEmail } from '../support/onboarding.ts'
import { expectProblem } from '../support/problem.ts'
import { must, openFactorService } from '../support/second-factors.ts'
import { type Answer, times } from '../support/test-service.ts'

/** Limits of codes, passkeys, and changes, which other tests raise (ASVS 6.3.1, 6.6.3). */

const SIGN_INS = 20
const service = await openFactorService({
  instances: 2,
  env: {
    RATE_LIMIT_SCALE: '1',
    LIMIT_REFUSALS: '1000/60',
    LIMIT_SIGN_IN_ATTEMPTS: `${SIGN_INS}/60`,
    LIMIT_MAILBOX_CODES: '3/3600',
    LIMIT_MEMBER_CHANGES: '4/3600',
    LIMIT_PASSWORD_CHANGES: '2/3600',
    TRUST_PROXY: '127.0.0.1',
  },
})
const admin = await service.addCompany()
const { begin, complete, call, totpOf } = service

test('only wrong codes are limited by member, across challenges and instances', async () => {
  const person = await service.personWithTotp(admin)
  // Correct codes do not count.
  await must(service.signInByTotp(person))
  const challenges: string[] = []
  for (const _ of times(3, () => 0)) challenges.push((await begin(person)).challenge)
  const guess = (n: number) =>
    complete(
      { challenge: challenges[n % 3], method: 'totp', code: String(n).padStart(6, '0') },
      { at: n % 2 },
    )
  const answers = await Promise.all(times(12, guess))
  expect(answers.map(({ status }) => status).sort()).toEqual([...times(10, () => 401), 429, 429])
  expect(await listAudit(service.db, 'second_factor', person)).toHaveLength(10)
  const { challenge } = await begin(person)
  const refused = await complete({ challenge, ...totpOf(person) })
  expectProblem(refused, [429, 'rate_limited'])
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  service.clock.advance(901)
  expect((await service.signInByTotp(person)).status).toBe(200)
})

test('sign-ins by passkey are limited by network, like other sign-ins', async () => {
  const { authenticator } = await service.personWithPasskey(admin)
  const { passkeyOptions, challenge } = await must(call('/auth/login/passkey/options', {}))
  const json = { challenge, response: authenticator.get(passkeyOptions, { userVerified: false }) }
  const headers = { 'x-forwarded-for': '203.0.113.5' }
  for (const _ of times(SIGN_INS, () => 0))
    expectProblem(await call('/auth/login/passkey', { json, headers }), [401, 'invalid_second_factor'])
  expectProblem(await call('/auth/login/passkey', { json, headers }), [429, 'rate_limited'])
})

type Change = (token: string, n: number) => Promise<Answer>
const rename: Change = (token, n) =>
  call('/auth/account', { method: 'PATCH', token, json: { name: `Ada ${n}` } })
const changeEmail: Change = async (token) => {
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  return await call('/auth/email/change', { token, json: { newEmail: newEmail(), mailCode } })
}
test.for<[what: string, max: number, change: Change]>([
  ['emailed codes', 3, (token) => call('/auth/second-factors/mail-code', { token })],
  ['new names', 4, rename],
  ['new email addresses', 2, changeEmail],
])('%s are limited by member (ASVS 2.4.1)', async ([, max, change]) => {
  const { token } = await service.signedIn(admin)
  for (const n of times(max, Number)) expect((await change(token, n)).status).toBeLessThan(300)
  expectProblem(await change(token, max), [429, 'rate_limited'])
})
