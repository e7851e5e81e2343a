import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { listAudit } from '../support/audit.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { type Credential, claimsOf, cookieFrom, must, useFactorService } from '../support/second-factors.ts'
import { PASSWORD, times } from '../support/test-service.ts'

/** Re-authentication requires the same as sign-in: password and factor, or a passkey (ASVS 7.5.1, 7.5.3). */

const service = await useFactorService()
const admin = await service.addCompany()
const { call, totpOf } = service
const now = () => service.clock.now()

type Options = { key?: string; at?: number }
const prove = (credential: Credential, json: object, { key, at = 0 }: Options = {}) => {
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  return call('/auth/reauthenticate', { ...credential, json, at, headers })
}

/** Requires recent authentication: ends a different session, which does not exist. */
const ask = (credential: Credential, at = 0) =>
  call('/auth/sessions/01890a5d-ac96-774b-bcce-b302099a8057', { method: 'DELETE', at, ...credential })
const expectOld = async (credential: Credential) =>
  expectProblem(await ask(credential), [403, 'reauthentication_required'])
const expectRecent = async (credential: Credential) => {
  for (const at of [0, 1]) expectProblem(await ask(credential, at), [404, 'not_found'])
}

/** A session of a member with an authenticator app, 16 minutes after the sign-in. */
async function staleByTotp() {
  const person = await service.personWithTotp(admin)
  const first = await must(service.signInByTotp(person))
  service.clock.advance(16 * 60)
  const session = await must(service.refresh(first.refreshToken))
  return { person, token: session.accessToken as string, refreshToken: session.refreshToken as string }
}
/** The same, with a re-authentication that waits for its code, and requests that complete it. */
async function proving() {
  const stale = await staleByTotp()
  const { challenge } = await beginProof({ token: stale.token })
  const wrong = { challenge, method: 'totp', code: '000000' }
  return { ...stale, challenge, wrong, right: () => ({ challenge, ...totpOf(stale.person) }) }
}
const beginProof = (credential: Credential) => must(prove(credential, { password: PASSWORD }))

test('re-authentication needs the code after the password', async () => {
  const { person, token } = await staleByTotp()
  await expectOld({ token })
  const { challenge, ...asked } = await beginProof({ token })
  expect(challenge).toMatch(/^[\w-]{43}$/)
  expect(asked).toEqual({ methods: ['totp', 'recovery_code'] })
  await expectOld({ token })
  const proven = await must(prove({ token }, { challenge, ...totpOf(person) }))
  const proof = { amr: ['pwd', 'otp', 'mfa'], auth_time: Math.floor(now() / 1000) }
  expect(claimsOf(proven.accessToken)).toMatchObject(proof)
  await expectRecent({ token: proven.accessToken })
  // The previous token does not become recent (ASVS 7.2.4).
  await expectOld({ token })
  const next = await must(service.refresh(proven.refreshToken, { at: 1 }))
  await expectRecent({ token: next.accessToken })
})

test('re-authentication counts concurrent retries with one key as one try', async () => {
  const { person, token, challenge, wrong, right } = await proving()
  const lookUps = () => service.metric('gatehouse_batch_size_sum{batch="sessions"}')
  const before = await lookUps()
  const retries = await service.db.transaction().execute(async (tx) => {
    await sql`select from second_factor_challenges where user_id = ${person.userId} for update`.execute(tx)
    const asked = times(20, () => prove({ token }, wrong, { key: 'wrong' }))
    await expect.poll(lookUps).toBe(before + 20)
    // After these responses, the earlier requests have progressed as far as they can.
    const dead = { ...wrong, challenge: challenge.toUpperCase() }
    for (const _ of times(5, () => {})) expectField(await prove({ token }, dead), '/challenge')
    return { asked }
  })
  for (const answer of await Promise.all(retries.asked)) expectField(answer, '/code')
  for (const key of ['second', 'third', 'fourth'])
    expectField(await prove({ token }, wrong, { key }), '/code')
  // This is the fifth try.
  expect((await prove({ token }, right(), { key: 'fifth' })).status).toBe(200)
})

test('re-authentication repeats a lost response, only for its key and code', async () => {
  const { token, right } = await proving()
  const given = right()
  const first = await must(prove({ token }, given, { key: 'proof' }))
  service.clock.advance(20)
  const again = await must(prove({ token }, given, { key: 'proof', at: 1 }))
  expect(again.refreshToken).toBe(first.refreshToken)
  expectField(await prove({ token }, given), '/challenge')
  expectField(await prove({ token }, given, { key: 'other' }), '/challenge')
  expectField(await prove({ token }, { ...given, code: '000000' }, { key: 'proof' }), '/challenge')
  // With the new token, the same request would count as re-authentication without a code.
  service.clock.advance(61)
  await must(service.refresh(first.refreshToken))
  for (const one of [token, first.accessToken]) {
    const { status } = await prove({ token: one }, given, { key: 'proof' })
    expect(status).toBeGreaterThanOrEqual(400)
  }
})

test('ten concurrent re-authentications with one cookie and code succeed once', async () => {
  const person = await service.personWithTotp(admin)
  const cookie = await service.cookieByTotp(person)
  service.clock.advance(16 * 60)
  await expectOld({ cookie })
  const { challenge } = await beginProof({ cookie })
  const given = { challenge, ...totpOf(person) }
  const answers = await Promise.all(times(10, (n) => prove({ cookie }, given, { at: n % 2 })))
  const [done, ...others] = answers.filter(({ status }) => status === 204)
  expect(others).toEqual([])
  await expectRecent({ cookie: done ? cookieFrom(done) : '' })
  expectProblem(await service.getSession({ cookie }), [401, 'invalid_token'])
  expect(answers.filter(({ status }) => status >= 500)).toEqual([])
})

test('re-authentication rejects up to five wrong codes, naming their field', async () => {
  const { token, refreshToken, wrong, right } = await proving()
  for (const _ of times(5, () => 0)) expectField(await prove({ token }, wrong), '/code')
  expectField(await prove({ token }, right()), '/challenge')
  await expectOld({ token })
  expect((await service.refresh(refreshToken)).status).toBe(200)
})

test('concurrent re-authentications with one key issue one pair of tokens', async () => {
  const { person, token, challenge } = await proving()
  const given = { challenge, method: 'recovery_code', code: person.recoveryCodes?.[0] }
  const answers = await Promise.all(times(4, (n) => prove({ token }, given, { key: 'slow', at: n % 2 })))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(new Set(answers.map(({ body }) => body.refreshToken)).size).toBe(1)
  expect(await service.wrongCodesOf(person)).toBe(0)
  expect(await listAudit(service.db, 'second_factor', person)).toEqual([])
})

test('re-authentication by password keeps the factor that a concurrent request confirms', async () => {
  const { token, refreshToken } = await service.signedIn(admin)
  const app = await service.beginTotp({ token })
  const [proof, confirmed] = await Promise.all([
    prove({ token }, { password: PASSWORD }),
    service.confirmTotp({ token }, app, 1),
  ])
  expect([proof.status, confirmed.status]).toEqual([200, 200])
  const last = await must(service.refresh(proof.body.refreshToken ?? refreshToken))
  expect(claimsOf(last.accessToken)['amr']).toEqual(['pwd', 'otp', 'mfa'])
})

test("re-authentication works with its session's challenge, for five minutes", async () => {
  const { person, token, right } = await proving()
  const { accessToken: second } = await must(service.signInByTotp(person))
  const { token: foreign } = await service.personWithTotp(admin)
  for (const other of [second, foreign]) expectField(await prove({ token: other }, right()), '/challenge')
  service.clock.advance(301)
  expectField(await prove({ token }, right()), '/challenge')
})

const beginByPasskey = (credential: Credential) => call('/auth/reauthenticate/passkey/options', credential)

test('re-authentication by passkey requires no password, and accepts no recovery code', async () => {
  const { token, id, recoveryCodes, authenticator } = await service.personWithPasskey(admin)
  const { challenge, passkeyOptions } = await must(beginByPasskey({ token }))
  expect(passkeyOptions).toMatchObject({ challenge, allowCredentials: [{ id: authenticator.id }] })
  const byCode = { challenge, method: 'recovery_code', code: recoveryCodes?.[0] }
  expectField(await prove({ token }, byCode), '/method')
  const response = authenticator.get(passkeyOptions)
  const { accessToken } = await must(prove({ token }, { challenge, method: 'passkey', response }))
  const authTime = Math.floor(now() / 1000)
  expect(claimsOf(accessToken)).toMatchObject({ amr: ['swk', 'user', 'mfa'], auth_time: authTime })
  await service.addTotp({ token: accessToken })
  await must(service.removeFactor(id, accessToken))
  expectProblem(await beginByPasskey({ token: accessToken }), [409, 'factor_required'])
})

test('re-authentication rejects the passkey of a different member', async () => {
  const [person, other] = [await service.personWithPasskey(admin), await service.personWithPasskey(admin)]
  const { challenge, passkeyOptions } = await beginProof({ token: person.token })
  const proveBy = ({ authenticator }: typeof person) => {
    const response = authenticator.get(passkeyOptions)
    return prove({ token: person.token }, { challenge, method: 'passkey', response })
  }
  expectField(await proveBy(other), '/response')
  const { accessToken } = await must(proveBy(person))
  expect(claimsOf(accessToken)['amr']).toEqual(['pwd', 'swk', 'user', 'mfa'])
})

test('a session without the second factor does not count as recent authentication', async () => {
  const person = await service.personWithTotp(admin)
  const { accessToken: token, session } = await must(service.signInByTotp(person))
  // As if the session had started before its member had a factor.
  const begun = service.db.updateTable('sessions').where('session_id', '=', session.id)
  await begun.set({ amr: ['pwd'] }).execute()
  await expectOld({ token })
  expect((await service.getSession({ token })).status).toBe(200)
})
