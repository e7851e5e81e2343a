import { expect, test } from 'vitest'
import { createDigests } from '../../src/crypto/digests.ts'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { listAudit } from '../support/audit.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import {
  COOKIE_MODE,
  claimsOf,
  cookieFrom,
  expectWrong,
  must,
  useFactorService,
} from '../support/second-factors.ts'
import { PASSWORD, times } from '../support/test-service.ts'

/** Sign-in in two steps: the password, then a code or a passkey (ASVS 6.3.3). */

const service = await useFactorService()
const admin = await service.addCompany()
const { begin, complete, call, db, totpOf, wrongCodesOf } = service

const now = () => service.clock.now()
const recoveryCodesOf = async (token: string) =>
  (await must(call('/auth/second-factors', { method: 'GET', token }))).recoveryCodes

test('a member with an authenticator app signs in with password and code', async () => {
  const person = await service.personWithTotp(admin)
  const answer = await service.login(person)
  expect(answer.status).toBe(401)
  expect(answer.headers['www-authenticate']).toBe('Bearer realm="gatehouse"')
  expect(answer.body).toMatchObject({ code: 'second_factor_required', methods: ['totp', 'recovery_code'] })
  expect(answer.body).not.toHaveProperty('passkeyOptions')
  const signedIn = await must(complete({ challenge: answer.body.challenge, ...totpOf(person) }))
  const proof = { amr: ['pwd', 'otp', 'mfa'], auth_time: Math.floor(now() / 1000) }
  expect(claimsOf(signedIn.accessToken)).toMatchObject(proof)
  expect((await service.getSession({ token: signedIn.accessToken, at: 1 })).status).toBe(200)
})

test('the second step replaces a cookie if the first requested one (ASVS 3.5.1, 7.2.4)', async () => {
  const person = await service.personWithTotp(admin)
  const former = await service.cookieByTotp(person)
  const headers = { cookie: `__Host-session=${former}` }
  const { challenge } = await begin(person, { headers: { ...COOKIE_MODE, ...headers } })
  expect((await service.getSession({ cookie: former })).status).toBe(200)
  const given = { challenge, ...totpOf(person) }
  const foreign = { headers: { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' } }
  expectProblem(await complete(given, foreign), [403, 'cross_site_request'])
  // The password's request determined the mode.
  expectField(await complete(given, { headers: { 'x-session-mode': 'token' } }), '/headers/x-session-mode')
  const answer = await complete(given, { headers })
  expect(answer.status).toBe(200)
  expect(answer.body).not.toHaveProperty('accessToken')
  expect(String(answer.headers['set-cookie'])).toMatch(/__Host-device=/)
  expect((await service.getSession({ cookie: cookieFrom(answer) })).status).toBe(200)
  await service.expectEnded({ cookie: former }, 'logout')
})

test('codes work once, within 30 seconds (RFC 6238 section 5.2; ASVS 6.5.1, 6.5.8)', async () => {
  const person = await service.signedIn(admin)
  const app = await service.beginTotp(person)
  await must(service.confirmTotp(person, app))
  const signInBy = async (shift: number) => {
    const { challenge } = await begin(person)
    return await complete({ challenge, ...totpOf(app, shift) })
  }
  // This code confirmed the app.
  expectWrong(await signInBy(0))
  service.clock.advance(120)
  for (const shift of [-60_000, 60_000]) expectWrong(await signInBy(shift))
  for (const shift of [-30_000, 30_000]) await must(signInBy(shift))
  // The last code is used, and the others are earlier.
  for (const shift of [30_000, 0, -30_000]) expectWrong(await signInBy(shift))
})

async function expectOne(attempt: (n: number) => object) {
  const answers = await Promise.all(times(10, (n) => complete(attempt(n), { at: n % 2 })))
  const refused = answers.filter(({ status }) => status !== 200)
  expect(refused).toHaveLength(9)
  for (const answer of refused) expectWrong(answer)
}
/** Each challenge has five tries. */
const beginFive = async (person: Parameters<typeof begin>[0]) =>
  await Promise.all(times(5, async () => (await begin(person)).challenge))

test('one of ten requests signs in with one code and one challenge (ASVS 2.3.4, 15.4.2)', async () => {
  const person = await service.personWithTotp(admin)
  const { challenge } = await begin(person)
  await expectOne(() => ({ challenge, ...totpOf(person) }))
  // Nobody guessed, so the password does not get closer to being revoked.
  expect(await wrongCodesOf(person)).toBe(0)
})

test('one of ten requests signs in with one code and five challenges', async () => {
  const person = await service.personWithTotp(admin)
  const challenges = await beginFive(person)
  await expectOne((n) => ({ challenge: challenges[n % 5], ...totpOf(person) }))
})

test('one of ten requests signs in with the same recovery code', async () => {
  const person = await service.personWithTotp(admin)
  const challenges = await beginFive(person)
  const code = person.recoveryCodes?.[0]
  await expectOne((n) => ({ challenge: challenges[n % 5], method: 'recovery_code', code }))
  expect(await wrongCodesOf(person)).toBe(0)
  const { accessToken } = await must(service.signInByTotp(person))
  expect(await recoveryCodesOf(accessToken)).toBe(9)
})

test('one of ten requests signs in with the same passkey response', async () => {
  const person = await service.personWithPasskey(admin)
  const { challenge, passkeyOptions } = await begin(person)
  const response = person.authenticator.get(passkeyOptions)
  await expectOne(() => ({ challenge, method: 'passkey', response }))
})

test('a recovery code has 130 bits, works once, and causes an email (ASVS 6.3.7, 6.5.1, 6.5.2, 6.5.3)', async () => {
  const person = await service.personWithTotp(admin)
  const codes = person.recoveryCodes ?? []
  expect(new Set(codes).size).toBe(10)
  for (const code of codes) expect(code).toMatch(/^(?:[0-9A-HJKMNP-TV-Z]{4}-){6}[0-9A-HJKMNP-TV-Z]{2}$/)
  const [code = ''] = codes
  const { challenge } = await begin(person)
  const written = ` ${code.toLowerCase().replaceAll('-', '–')}`
  const signedIn = await must(complete({ challenge, method: 'recovery_code', code: written }))
  expect(claimsOf(signedIn.accessToken)['amr']).toEqual(['pwd', 'otp', 'mfa'])
  const again = await begin(person)
  expectWrong(await complete({ challenge: again.challenge, method: 'recovery_code', code }))
  expect(await recoveryCodesOf(signedIn.accessToken)).toBe(9)
  const told = await service.mailbox.mailTo(person.email, 'One of your recovery codes')
  expect(told.email.text).toContain('You have 9 left.')
  expect(told.raw).not.toContain(code)
  const used = { outcome: 'done', details: { codesLeft: 9 } }
  expect(await listAudit(db, 'recovery_code', person)).toMatchObject([used])
  const { userId, ...other } = await service.personWithTotp(admin)
  const theirs = { challenge: (await begin(other)).challenge, method: 'recovery_code' }
  expectWrong(await complete({ ...theirs, code: codes[1] }))
  // A code of 24 letters, from an earlier release.
  const digests = createDigests(service.config.masterKeys)
  const { digest, keyId } = digests.current('recovery code', admin.companyId, userId, 'A'.repeat(24))
  const row = { company_id: admin.companyId, user_id: userId, digest, key_id: keyId }
  await db.insertInto('recovery_codes').values(row).execute()
  await must(complete({ ...theirs, code: 'AAAA-AAAA-AAAA-AAAA-AAAA-AAAA' }))
})

async function begun(company = admin) {
  const person = await service.personWithTotp(company)
  const { challenge } = await begin(person)
  return { person, challenge }
}
const finish = (challenge: string, person: { secret: string }) => complete({ challenge, ...totpOf(person) })

test('a challenge is invalid after five tries, even concurrent ones (ASVS 6.6.3)', async () => {
  const { person, challenge } = await begun()
  const guess = (n: number) => complete({ challenge, method: 'totp', code: '000000' }, { at: n % 2 })
  for (const answer of await Promise.all(times(10, guess))) expectWrong(answer)
  expectWrong(await finish(challenge, person))
  expect(await listAudit(db, 'second_factor', person)).toHaveLength(5)
})

test('a challenge works once, after four wrong tries and invalid bodies', async () => {
  const { person, challenge } = await begun()
  const given = { challenge, method: 'totp', code: '123456' }
  for (const wrong of [{ method: 'passkey' }, { code: '' }])
    expectProblem(await complete({ ...given, ...wrong }), [400, 'invalid_request'])
  for (const code of ['000000', '000001', '12345', 'abcdef']) {
    const answer = await complete({ challenge, method: 'totp', code })
    expectWrong(answer)
    expect(answer.headers['ratelimit-policy']).toContain('"second-factor-codes"')
  }
  expect((await finish(challenge, person)).status).toBe(200)
  service.clock.advance(30)
  expectWrong(await finish(challenge, person))
})

type Begun = Awaited<ReturnType<typeof begun>>['person']
const setUser = (status: 'disabled' | 'active') => (person: Begun) =>
  changeUserStatus(service.context, person.companyId, person, status)
const setCompany =
  (status: 'suspended' | 'active') =>
  ({ companyId }: Begun) =>
    changeCompanyStatus(service.context, companyId, status)
test.for<[what: string, ...acts: ((person: Begun) => unknown)[]]>([
  ['five minutes', () => service.clock.advance(301)],
  ['a change of the password', ({ token }) => service.changePassword(token)],
  ['a new factor', ({ token }) => service.addPasskey({ token })],
  ['a sign-in from the same network', (person) => must(service.signInByTotp(person))],
  ['its user was disabled, even temporarily', setUser('disabled'), setUser('active')],
  ['its company was suspended, even temporarily', setCompany('suspended'), setCompany('active')],
])('a challenge is invalid after %s', async ([, ...acts]) => {
  const { person, challenge } = await begun(await service.addCompany())
  for (const act of acts) await act(person)
  expectWrong(await finish(challenge, person))
})

test('a challenge is invalid after a factor is removed', async () => {
  const person = await service.personWithTotp(admin)
  const { id } = await service.addPasskey({ token: person.token })
  const { challenge } = await begin(person)
  await must(service.removeFactor(id, person.token))
  expectWrong(await finish(challenge, person))
})

test('a challenge does not work for a different user or purpose (ASVS 6.6.2)', async () => {
  const { challenge } = await begun()
  const other = await service.personWithTotp(await service.addCompany())
  for (const wrong of [challenge, 'x', 'A'.repeat(43), '%00', "' or 1=1 --"])
    expectWrong(await finish(wrong, other))
  const { accessToken: token } = await must(service.signInByTotp(other))
  const json = { challenge, ...totpOf(other) }
  expectProblem(await call('/auth/reauthenticate', { token, json }), [400, 'invalid_request'])
  // A challenge to re-authenticate opens no session.
  const proof = await must(call('/auth/reauthenticate', { token, json: { password: PASSWORD } }))
  expectWrong(await finish(proof.challenge, other))
})

test('the second factor makes networks and browsers known, the password does not', async () => {
  const person = await service.personWithTotp(admin)
  await db.deleteFrom('known_clients').where('user_id', '=', person.userId).execute()
  const known = async () => {
    const rows = db.selectFrom('known_clients').select('kind').where('user_id', '=', person.userId)
    return (await rows.orderBy('kind').execute()).map(({ kind }) => kind)
  }
  const { challenge } = await begin(person, { headers: COOKIE_MODE })
  expect(await known()).toEqual([])
  await must(complete({ challenge, ...totpOf(person) }))
  expect(await known()).toEqual(['device', 'network'])
})
