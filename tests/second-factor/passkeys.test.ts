import { sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { changeUserStatus } from '../../src/operator/users.ts'
import { listAudit } from '../support/audit.ts'
import { type Authenticator, createAuthenticator, type Falsified } from '../support/authenticator.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import {
  COOKIE_MODE,
  claimsOf,
  cookieFrom,
  expectWrong,
  must,
  useFactorService,
} from '../support/second-factors.ts'
import { type Answer, type Person, times } from '../support/test-service.ts'

/** Passkeys (WebAuthn level 3). passkey-responses.test.ts falsifies each field of browsers' responses. */

const service = await useFactorService()
const admin = await service.addCompany()
const { call, begin, complete } = service

const passkeys = '/auth/second-factors/passkeys'
const newMember = () => service.signedIn(admin)
const creationOptions = async (token: string) =>
  (await must(call(`${passkeys}/options`, { token }))).passkeyOptions
const register = async (token: string, response: unknown) =>
  call(passkeys, { token, json: { response, name: 'Mine', ...(await service.mailCodeIfNeeded({ token })) } })

/** These requests are made without a password. */
const options = async (headers = {}) => await must(call('/auth/login/passkey/options', { headers }))
const signIn = (json: object, more: Parameters<typeof call>[1] = {}) =>
  call('/auth/login/passkey', { json, ...more })

const notAccepted = (answer: Answer) => {
  expectProblem(answer, [400, 'invalid_request'])
  expect(answer.body.errors).toEqual([{ path: '/response', message: 'is not accepted' }])
}

test('a passkey registration works once, for five minutes, in its session', async () => {
  const one = await newMember()
  const { accessToken: second } = await service.loginAs(one)
  const other = await newMember()
  const { accessToken: strange } = await service.loginAs(await service.addCompany())
  const authenticator = createAuthenticator()
  const asked = await creationOptions(one.token)
  // One of many wrong fields (WebAuthn 7.1).
  notAccepted(await register(one.token, authenticator.create(asked, { userVerified: false })))
  const { body } = await call('/auth/second-factors', { method: 'GET', token: one.token })
  expect([body.secondFactors, body.recoveryCodes]).toEqual([[], 0])

  const response = authenticator.create(asked)
  for (const token of [second, other.token, strange]) notAccepted(await register(token, response))
  expect((await register(one.token, response)).status).toBe(201)
  notAccepted(await register(one.token, response))
  // The passkey already exists, for this member or a different one.
  for (const token of [one.token, other.token, strange])
    notAccepted(await register(token, authenticator.create(await creationOptions(token))))
  const late = createAuthenticator().create(await creationOptions(other.token))
  service.clock.advance(301)
  notAccepted(await register(other.token, late))
})

test('creation options for passkeys require discoverability and a verified user (ASVS 6.7.2)', async () => {
  const { token, email } = await newMember()
  const first = await creationOptions(token)
  expect(first).toMatchObject({
    rp: { id: 'localhost' },
    user: { name: email },
    attestation: 'none',
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    excludeCredentials: [],
  })
  expect(first.pubKeyCredParams.map(({ alg }: { alg: number }) => alg)).toEqual([-8, -7, -257])
  expect(Buffer.from(first.challenge, 'base64url')).toHaveLength(32)
  // Each member has 64 random bytes, which never change.
  expect(Buffer.from(first.user.id, 'base64url')).toHaveLength(64)
  const { authenticator } = await service.addPasskey({ token })
  const second = await creationOptions(token)
  expect(second.user.id).toBe(first.user.id)
  expect(second.challenge).not.toBe(first.challenge)
  expect(second.excludeCredentials).toEqual([
    { id: authenticator.id, type: 'public-key', transports: ['internal', 'hybrid'] },
  ])
  const other = await creationOptions((await newMember()).token)
  expect(other.user.id).not.toBe(first.user.id)
})

/** Completes a new challenge, after the password or instead of it, with the response that `respond` creates. */
async function use(
  person: Person,
  isSecond: boolean,
  respond: (asked: { challenge: string; rpId: string }) => unknown,
) {
  if (isSecond) {
    const { challenge, passkeyOptions } = await begin(person)
    return await complete({ challenge, method: 'passkey', response: respond(passkeyOptions) })
  }
  const { challenge, passkeyOptions } = await options()
  return await signIn({ challenge, response: respond(passkeyOptions) })
}

describe.each([
  { when: 'after the password', isSecond: true },
  { when: 'instead of the password', isSecond: false },
])('a passkey $when', ({ isSecond }) => {
  test('a passkey is rejected under the handle or ID of others', async () => {
    const [one, other] = [await service.personWithPasskey(admin), await service.personWithPasskey(admin)]
    const stranger = await service.personWithPasskey(await service.addCompany())
    for (const { authenticator } of [other, stranger]) {
      const { userHandle } = authenticator.get({ challenge: '' }).response
      expectWrong(await use(one, isSecond, (asked) => one.authenticator.get(asked, { userHandle })))
      // Signed with one member's key under the other's name.
      const ids = { id: authenticator.id, rawId: authenticator.id }
      expectWrong(await use(one, isSecond, (asked) => ({ ...one.authenticator.get(asked), ...ids })))
      if (isSecond) expectWrong(await use(one, isSecond, (asked) => authenticator.get(asked)))
    }
  })

  test('a passkey is rejected with a wrong or used response (WebAuthn 7.2)', async () => {
    const person = await service.personWithPasskey(admin)
    const falsified = { userVerified: false }
    expectWrong(await use(person, isSecond, (asked) => person.authenticator.get(asked, falsified)))
    let said: unknown
    const first = await use(person, isSecond, (asked) => {
      said = person.authenticator.get(asked)
      return said
    })
    expect(first.status).toBe(200)
    expectWrong(await use(person, isSecond, () => said))
  })

  test('a passkey is rejected once removed, or its owner disabled', async () => {
    const person = await service.personWithPasskey(admin)
    const { authenticator } = await service.addPasskey({ token: person.token })
    const given = isSecond ? await begin(person) : await options()
    const response = person.authenticator.get(given.passkeyOptions)
    await must(service.removeFactor(person.id, person.token))
    const answer = { challenge: given.challenge, response }
    expectWrong(isSecond ? await complete({ ...answer, method: 'passkey' }) : await signIn(answer))
    await changeUserStatus(service.context, person.companyId, person, 'disabled')
    if (!isSecond) expectWrong(await use(person, isSecond, (asked) => authenticator.get(asked)))
  })
})

test('a passkey whose counter has not grown is rejected (WebAuthn 6.1.1)', async () => {
  const person = await newMember()
  const authenticator = createAuthenticator({ counts: true })
  await service.addPasskey({ token: person.token }, authenticator)
  const useWith = (falsified: Falsified = {}) =>
    use(person, false, (asked) => authenticator.get(asked, falsified))
  for (const _ of times(2, () => 0)) expect((await useWith()).status).toBe(200)
  for (const counter of [0, 1, 2]) expectWrong(await useWith({ counter }))
  expect((await useWith({ counter: 2 ** 32 - 1 })).status).toBe(200)
  expectWrong(await useWith())
})

test('a sign-in by passkey finds the member, and counts as two factors (ASVS 6.3.3)', async () => {
  const person = await service.personWithPasskey(await service.addCompany())
  const { challenge, passkeyOptions } = await options()
  const discoverable = { challenge, userVerification: 'required', allowCredentials: [] }
  expect(passkeyOptions).toMatchObject({ rpId: 'localhost', ...discoverable })
  const { body } = await signIn({ challenge, response: person.authenticator.get(passkeyOptions) })
  expect([body.user.id, body.accessContext.companyId]).toEqual([person.userId, person.companyId])
  const proof = { amr: ['swk', 'user', 'mfa'], auth_time: Math.floor(service.clock.now() / 1000) }
  expect(claimsOf(body.accessToken)).toMatchObject(proof)
})

test('a passkey that cannot leave its device has hwk in amr (RFC 8176)', async () => {
  const person = await newMember()
  const authenticator = createAuthenticator({ backupEligible: false })
  await service.addPasskey({ token: person.token }, authenticator)
  for (const isSecond of [false, true]) {
    const { body } = await use(person, isSecond, (asked) => authenticator.get(asked))
    const amr = [...(isSecond ? ['pwd'] : []), 'hwk', 'user', 'mfa']
    expect(claimsOf(body.accessToken)['amr']).toEqual(amr)
  }
})

test('a sign-in by passkey opens the kind of session of its challenge', async () => {
  const person = await service.personWithPasskey(admin)
  const { challenge, passkeyOptions } = await options(COOKIE_MODE)
  const given = { challenge, response: person.authenticator.get(passkeyOptions) }
  const crossSite = { headers: { 'sec-fetch-site': 'cross-site' } }
  expectProblem(await signIn(given, crossSite), [403, 'cross_site_request'])
  expectField(await signIn(given, { headers: { 'x-session-mode': 'token' } }), '/headers/x-session-mode')
  const answer = await signIn(given)
  expect(answer.status).toBe(200)
  expect(answer.body).not.toHaveProperty('accessToken')
  expect((await service.getSession({ cookie: cookieFrom(answer), at: 1 })).status).toBe(200)
  const foreign = { headers: { ...COOKIE_MODE, 'sec-fetch-site': 'cross-site' } }
  expectProblem(await call('/auth/login/passkey/options', foreign), [403, 'cross_site_request'])
})

test('a passkey challenge works once, for five minutes, on any instance', async () => {
  const person = await service.personWithPasskey(admin)
  const stored = service.db.selectFrom('used_passkey_challenges').select('challenge_hash')
  const before = await stored.execute()
  const fresh = await options()
  expect(await stored.execute()).toEqual(before)
  const answerTo = (challenge: string) => ({
    challenge,
    response: person.authenticator.get({ challenge, rpId: 'localhost' }),
  })
  const bytes = Buffer.from(fresh.challenge, 'base64url')
  const changedAt = (place: number) =>
    Buffer.from(bytes.map((byte, at) => (at === place ? byte ^ 1 : byte))).toString('base64url')
  // One bit each in the mode, the expiry, the random part, and the digest.
  const changed = [0, 3, 10, bytes.length - 1].map(changedAt)
  const { challenge: ofSecondStep } = await begin(person)
  const others = ['x', 'A'.repeat(74), `${fresh.challenge}A`, `${fresh.challenge}=`, ofSecondStep]
  for (const challenge of [...others, ...changed]) expectWrong(await signIn(answerTo(challenge)))

  const answers = await Promise.all(times(10, (n) => signIn(answerTo(fresh.challenge), { at: n % 2 })))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  const old = await options()
  service.clock.advance(301)
  expectWrong(await signIn(answerTo(old.challenge)))
})

test('known and unknown passkeys are rejected after the same work (ASVS 6.3.8)', async () => {
  const person = await newMember()
  const authenticator = createAuthenticator({ counts: true })
  await service.addPasskey({ token: person.token }, authenticator)
  await must(use(person, false, (asked) => authenticator.get(asked)))
  const recorded = async () => {
    const entries = await listAudit(service.db, 'second_factor', person)
    const counting = sql<{ count: number }>`
      select coalesce(sum(count), 0)::int as count from refused_sign_ins where kind = 'other'`
    const { rows } = await counting.execute(service.db)
    return [entries.length, rows[0]?.count ?? 0]
  }
  const verifying = vi.spyOn(crypto.subtle, 'verify')
  for (const [which, falsified] of [
    [createAuthenticator(), { userHandle: 'AAAA' }],
    [authenticator, { signature: (bytes) => bytes.fill(bytes.readUInt8(9) ^ 1, 9, 10) }],
    [authenticator, { userHandle: 'AAAA' }],
    [authenticator, { backupEligible: false }],
    [authenticator, { counter: 0 }],
  ] satisfies [Authenticator, Falsified][]) {
    const [[entries = 0, refused = 0], verified] = [await recorded(), verifying.mock.calls.length]
    expectWrong(await use(person, false, (asked) => which.get(asked, falsified)))
    expect(verifying.mock.calls.length - verified).toBe(1)
    const isKnown = which === authenticator
    expect(await recorded()).toEqual(isKnown ? [entries + 1, refused] : [entries, refused + 1])
  }
  verifying.mockRestore()
})
