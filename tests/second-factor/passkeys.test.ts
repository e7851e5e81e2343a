import { sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { changeUserStatus } from '../../src/operator/users.ts'
import { expectField, expectProblem } from '../http/problem.ts'
import { type Authenticator, createAuthenticator, type Falsified } from '../support/authenticator.ts'
import { COOKIE_MODE, cookieFrom, must, ORIGIN, openFactorService } from '../support/second-factors.ts'
import { type Answer, type Person, times } from '../support/test-service.ts'
import { decode, partsOf } from '../token/forge.ts'

/** Passkeys (WebAuthn level 3): each field of a registration and of a use is falsified in turn, and refused with one answer. */

const OTHER_ORIGIN = 'http://app.localhost:8080'
const service = await openFactorService({
  instances: 2,
  env: { DASHBOARD_ORIGINS: `${OTHER_ORIGIN},https://app.example.com` },
})
const admin = await service.addCompany()
const { call, begin, complete } = service

const claimsOf = (token: string) => decode(partsOf(token)[1])
const expectWrong = (answer: Answer) => expectProblem(answer, [401, 'invalid_second_factor'])

const passkeys = '/auth/second-factors/passkeys'
async function newMember() {
  const person = await service.addUser(admin)
  const { accessToken: token } = await service.loginAs(person)
  return { ...person, token }
}
const creationOptions = async (token: string) =>
  (await must(call(`${passkeys}/options`, { token }))).passkeyOptions
const register = async (token: string, response: unknown, name = 'Laptop') =>
  call(passkeys, { token, json: { response, name, ...(await service.mailCodeIfNeeded({ token })) } })

/** Without a password: asks for a challenge, and answers it. */
const options = async (headers = {}) => await must(call('/auth/login/passkey/options', { headers }))
const signIn = (json: object, more: Parameters<typeof call>[1] = {}) =>
  call('/auth/login/passkey', { json, ...more })

/** What an authenticator or a browser can say that is not so. */
const inBoth: [what: string, falsified: Falsified][] = [
  ['another challenge', { challenge: Buffer.alloc(32, 1).toString('base64url') }],
  ['an empty challenge', { challenge: '' }],
  ['another origin', { origin: 'https://evil.example' }],
  ['an origin that begins like ours', { origin: `${ORIGIN}.evil.example` }],
  ['our origin with another port', { origin: 'http://localhost:3999' }],
  ['a dashboard of another domain than the passkeys', { origin: 'https://app.example.com' }],
  ['the origin null', { origin: 'null' }],
  ['another type of ceremony', { type: 'payment.get' }],
  ['a page in a frame of another origin', { crossOrigin: true }],
  ['such a page with its top origin', { crossOrigin: true, topOrigin: 'https://evil.example' }],
  ['a top origin alone', { topOrigin: 'https://evil.example' }],
  ['another relying party', { rpId: 'evil.example' }],
  ['no user', { userPresent: false }],
  ['no verified user', { userVerified: false }],
  [
    'client data after a byte order mark, which some readers skip',
    { clientBytes: (json) => `\ufeff${json}` },
  ],
  ['client data that is a list', { clientData: () => [] }],
  ['client data without an origin', { clientData: ({ origin: _origin, ...data }) => data }],
  ['client data whose challenge is a number', { clientData: (data) => ({ ...data, challenge: 1 }) }],
  ['truncated authenticator data', { authenticatorData: (bytes) => bytes.subarray(0, 36) }],
  ['no authenticator data', { authenticatorData: () => Buffer.alloc(1) }],
  [
    'authenticator data with more behind it',
    { authenticatorData: (bytes) => Buffer.concat([bytes, Buffer.from([1])]) },
  ],
]

describe('a registration is refused if it says (WebAuthn section 7.1; ASVS 6.5.7)', () => {
  const rows: [what: string, falsified: Falsified][] = [
    ...inBoth,
    ['the type of a use', { type: 'webauthn.get' }],
    ['an algorithm that was not offered', { algorithm: -38 }],
    ['an algorithm that does not fit the key', { algorithm: -257 }],
    ['an attestation of a format that nobody knows', { format: 'made-up' }],
    [
      'an attestation that was not asked for',
      { format: 'packed', statement: new Map([['x5c', [Buffer.from('x')]]]) },
    ],
    ['an attestation by a TPM', { format: 'tpm', statement: new Map() }],
    ['an attestation of Android', { format: 'android-key', statement: new Map() }],
    ['no attestation, with a statement', { statement: new Map([['alg', -7]]) }],
    [
      'an object without authenticator data',
      { attestationObject: () => Buffer.from('a163666d74646e6f6e65', 'hex') },
    ],
    ['CBOR of a thousand lists in each other', { attestationObject: () => Buffer.alloc(1_000, 0x81) }],
    ['CBOR that promises four gigabytes', { attestationObject: () => Buffer.from('5affffffff00', 'hex') }],
    ['no CBOR', { attestationObject: () => Buffer.from('{}') }],
    ...[1, 10, 40, 100, 150].map((end): [string, Falsified] => [
      `CBOR that ends after ${end} bytes`,
      { attestationObject: (bytes) => bytes.subarray(0, end) },
    ]),
  ]

  const someone = newMember()
  test.for(rows)('%s', async ([, falsified]) => {
    const { token } = await someone
    const authenticator = createAuthenticator(ORIGIN)
    const answer = await register(token, authenticator.create(await creationOptions(token), falsified))
    expectProblem(answer, [400, 'invalid_request'])
    expect(answer.body.errors).toEqual([{ path: '/response', message: 'is not accepted' }])
    const { body } = await call('/auth/second-factors', { method: 'GET', token })
    expect([body.secondFactors, body.recoveryCodes]).toEqual([[], 0])
  })

  const notAccepted = (answer: Answer) => {
    expectProblem(answer, [400, 'invalid_request'])
    expect(answer.body.errors).toEqual([{ path: '/response', message: 'is not accepted' }])
  }

  test('a longer id than there can be (section 7.1, step 25)', async () => {
    for (const [length, status] of [
      [1023, 201],
      [1024, 400],
      [2800, 400],
    ] as const) {
      const { token } = await newMember()
      const authenticator = createAuthenticator(ORIGIN, { idBytes: length })
      const answer = await register(token, authenticator.create(await creationOptions(token)))
      expect([length, answer.status]).toEqual([length, status])
    }
  })

  test('another id than the key has', async () => {
    const { token } = await newMember()
    const response = createAuthenticator(ORIGIN).create(await creationOptions(token))
    const other = Buffer.alloc(32, 7).toString('base64url')
    notAccepted(await register(token, { ...response, id: other, rawId: other }))
    notAccepted(await register(token, { ...response, rawId: other }))
  })

  test('what it said before (replay), or what another session, user or company was asked for', async () => {
    const one = await newMember()
    const { accessToken: second } = await service.loginAs(one)
    const other = await newMember()
    const stranger = await service.addCompany()
    const { accessToken: strange } = await service.loginAs(stranger)
    const asked = await creationOptions(one.token)
    const response = createAuthenticator(ORIGIN).create(asked)
    for (const token of [second, other.token, strange]) notAccepted(await register(token, response))
    expect((await register(one.token, response)).status).toBe(201)
    notAccepted(await register(one.token, response))
  })

  test('a passkey that somebody has, here or in another company', async () => {
    const one = await newMember()
    const authenticator = createAuthenticator(ORIGIN)
    await service.addPasskey({ token: one.token }, authenticator)
    const { accessToken: strange } = await service.loginAs(await service.addCompany())
    for (const token of [one.token, (await newMember()).token, strange])
      notAccepted(await register(token, authenticator.create(await creationOptions(token))))
  })

  test('what was asked for more than five minutes ago', async () => {
    const { token } = await newMember()
    const response = createAuthenticator(ORIGIN).create(await creationOptions(token))
    service.clock.advance(301)
    notAccepted(await register(token, response))
  })
})

test('what a browser is asked for: a discoverable passkey of a verified user, without attestation (ASVS 6.7.2)', async () => {
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
  // 64 random bytes for each member, always the same.
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

describe.each(['after the password', 'in place of it'])(
  'a passkey %s is refused if it says (WebAuthn section 7.2)',
  (when) => {
    const isSecond = when === 'after the password'

    /** Answers a new challenge by what `respond` makes of the options. */
    async function use(person: Person, respond: (asked: { challenge: string; rpId: string }) => unknown) {
      if (isSecond) {
        const { challenge, passkeyOptions } = await begin(person)
        if (!passkeyOptions) throw new Error('there are no options')
        return await complete({ challenge, method: 'passkey', response: respond(passkeyOptions) })
      }
      const { challenge, passkeyOptions } = await options()
      return await signIn({ challenge, response: respond(passkeyOptions) })
    }

    const rows: [what: string, falsified: Falsified][] = [
      ...inBoth,
      ['the type of a registration', { type: 'webauthn.create' }],
      ['the user handle of nobody', { userHandle: Buffer.alloc(64).toString('base64url') }],
      ['another backup eligibility', { backupEligible: false }],
      [
        'a signature with one bit changed',
        { signature: (bytes) => bytes.fill(bytes.readUInt8(9) ^ 1, 9, 10) },
      ],
      ['a truncated signature', { signature: (bytes) => bytes.subarray(0, 40) }],
      ['a signature of one byte', { signature: () => Buffer.from([0]) }],
    ]
    const owner = service.personWithPasskey(admin)
    test.for(rows)('%s', async ([, falsified]) => {
      const person = await owner
      expectWrong(await use(person, (asked) => person.authenticator.get(asked, falsified)))
      expect((await use(person, (asked) => person.authenticator.get(asked))).status).toBe(200)
    })

    test('the user handle or the credential of another user, here or in another company', async () => {
      const [one, other] = [await service.personWithPasskey(admin), await service.personWithPasskey(admin)]
      const stranger = await service.personWithPasskey(await service.addCompany())
      for (const { authenticator } of [other, stranger]) {
        const { userHandle } = authenticator.get({ challenge: '' }).response
        expectWrong(await use(one, (asked) => one.authenticator.get(asked, { userHandle })))
        // Signed by the key of one, under the name of the other.
        expectWrong(
          await use(one, (asked) => ({
            ...one.authenticator.get(asked),
            id: authenticator.id,
            rawId: authenticator.id,
          })),
        )
        // After a password, a passkey of somebody else is none of this member.
        if (isSecond) expectWrong(await use(one, (asked) => authenticator.get(asked)))
      }
    })

    test('what it said before (replay)', async () => {
      const person = await service.personWithPasskey(admin)
      let said: unknown
      const first = await use(person, (asked) => {
        said = person.authenticator.get(asked)
        return said
      })
      expect(first.status).toBe(200)
      expectWrong(await use(person, () => said))
    })

    test('a counter that has not grown, so that there can be a copy of it (section 6.1.1)', async () => {
      const person = await newMember()
      const authenticator = createAuthenticator(ORIGIN, { counts: true })
      await service.addPasskey({ token: person.token }, authenticator)
      for (const _ of times(2, () => 0))
        expect((await use(person, (asked) => authenticator.get(asked))).status).toBe(200)
      for (const counter of [0, 1, authenticator.counter])
        expectWrong(await use(person, (asked) => authenticator.get(asked, { counter })))
      const far = await use(person, (asked) => authenticator.get(asked, { counter: 2 ** 32 - 1 }))
      expect(far.status).toBe(200)
      expectWrong(await use(person, (asked) => authenticator.get(asked)))
    })

    test('nothing of a member who is disabled, or of a passkey that was removed', async () => {
      const person = await service.personWithPasskey(admin)
      const { authenticator } = await service.addPasskey({ token: person.token })
      const given = isSecond ? await begin(person) : await options()
      const response = person.authenticator.get(given.passkeyOptions)
      await must(call(`/auth/second-factors/${person.id}`, { method: 'DELETE', token: person.token }))
      const answer = { challenge: given.challenge, response }
      expectWrong(isSecond ? await complete({ ...answer, method: 'passkey' }) : await signIn(answer))
      await changeUserStatus(service.context, person.companyId, person, 'disabled')
      if (!isSecond) expectWrong(await use(person, (asked) => authenticator.get(asked)))
    })
  },
)

describe('a passkey in place of the password', () => {
  test('says who signs in and where, and counts as two factors (ASVS 6.3.3)', async () => {
    for (const company of [admin, await service.addCompany()]) {
      const person = await service.personWithPasskey(company)
      const { challenge, passkeyOptions } = await options()
      expect(passkeyOptions).toMatchObject({
        challenge,
        rpId: 'localhost',
        userVerification: 'required',
        allowCredentials: [],
      })
      const { body } = await signIn({ challenge, response: person.authenticator.get(passkeyOptions) })
      expect([body.user.id, body.accessContext.companyId]).toEqual([person.userId, person.companyId])
      expect(claimsOf(body.accessToken)).toMatchObject({
        amr: ['swk', 'user', 'mfa'],
        auth_time: Math.floor(service.clock.now() / 1000),
      })
    }
  })

  test('whose key cannot leave its device says so in amr (RFC 8176)', async () => {
    const person = await newMember()
    const authenticator = createAuthenticator(ORIGIN, { backupEligible: false })
    await service.addPasskey({ token: person.token }, authenticator)
    const { challenge, passkeyOptions } = await options()
    const { body } = await signIn({ challenge, response: authenticator.get(passkeyOptions) })
    expect(claimsOf(body.accessToken)['amr']).toEqual(['hwk', 'user', 'mfa'])
    const second = await begin(person)
    const response = authenticator.get(second.passkeyOptions ?? { challenge: '' })
    const both = await must(complete({ challenge: second.challenge, method: 'passkey', response }))
    expect(claimsOf(both.accessToken)['amr']).toEqual(['pwd', 'hwk', 'user', 'mfa'])
  })

  test('opens the kind of session that was asked for with the challenge, and no other', async () => {
    const person = await service.personWithPasskey(admin)
    const asked = await options(COOKIE_MODE)
    const given = { challenge: asked.challenge, response: person.authenticator.get(asked.passkeyOptions) }
    expectProblem(await signIn(given, { headers: { 'sec-fetch-site': 'cross-site' } }), [
      403,
      'cross_site_request',
    ])
    expectField(await signIn(given, { headers: { 'x-session-mode': 'token' } }), '/headers/x-session-mode')
    const answer = await signIn(given)
    expect(answer.status).toBe(200)
    expect(answer.body).not.toHaveProperty('accessToken')
    expect((await service.getSession({ cookie: cookieFrom(answer), at: 1 })).status).toBe(200)
    const foreign = { headers: { ...COOKIE_MODE, 'sec-fetch-site': 'cross-site' } }
    expectProblem(await call('/auth/login/passkey/options', foreign), [403, 'cross_site_request'])
  })

  test('works on a dashboard whose host is below that of the passkeys', async () => {
    const person = await service.personWithPasskey(admin)
    const { challenge, passkeyOptions } = await options()
    const response = person.authenticator.get(passkeyOptions, { origin: OTHER_ORIGIN })
    expect((await signIn({ challenge, response })).status).toBe(200)
  })

  test('takes a challenge of this service alone, less than five minutes old, once on any instance', async () => {
    const person = await service.personWithPasskey(admin)
    const fresh = await options()
    const answerTo = (challenge: string) => ({
      challenge,
      response: person.authenticator.get({ challenge, rpId: 'localhost' }),
    })
    const bytes = Buffer.from(fresh.challenge, 'base64url')
    for (const place of [0, 3, 10, 30, bytes.length - 1]) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(place) ^ 1, place)
      expectWrong(await signIn(answerTo(changed.toString('base64url'))))
    }
    for (const challenge of [
      'x',
      'A'.repeat(74),
      `${fresh.challenge}A`,
      `${fresh.challenge}=`,
      bytes.toString('hex'),
    ])
      expectWrong(await signIn(answerTo(challenge)))
    // Of a second step.
    const second = await begin(person)
    expectWrong(await signIn(answerTo(second.challenge)))

    const answers = await Promise.all(times(50, (n) => signIn(answerTo(fresh.challenge), { at: n % 2 })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const old = await options()
    service.clock.advance(301)
    expectWrong(await signIn(answerTo(old.challenge)))
  })

  test('is refused after the same work, known or not: one verification, one record (ASVS 6.3.8)', async () => {
    const person = await newMember()
    const authenticator = createAuthenticator(ORIGIN, { counts: true })
    await service.addPasskey({ token: person.token }, authenticator)
    const first = await options()
    const used = authenticator.get(first.passkeyOptions)
    expect((await signIn({ challenge: first.challenge, response: used })).status).toBe(200)
    const recorded = async () => {
      const { rows } = await sql<{ entries: number; refused: number }>`
        select (select count(*)::int from audit_events) as entries,
          (select coalesce(sum(count), 0)::int from refused_sign_ins where kind = 'other') as refused`.execute(
        service.db,
      )
      return rows[0] ?? { entries: 0, refused: 0 }
    }
    const verifying = vi.spyOn(crypto.subtle, 'verify')
    for (const [which, falsified] of [
      [createAuthenticator(ORIGIN), { userHandle: 'AAAA' }],
      [authenticator, { signature: (bytes) => bytes.fill(bytes.readUInt8(9) ^ 1, 9, 10) }],
      [authenticator, { userHandle: 'AAAA' }],
      [authenticator, { backupEligible: false }],
      [authenticator, { counter: 0 }],
    ] satisfies [Authenticator, Falsified][]) {
      const { challenge, passkeyOptions } = await options()
      const response = which.get(passkeyOptions, falsified)
      const [before, verified] = [await recorded(), verifying.mock.calls.length]
      expectWrong(await signIn({ challenge, response }))
      expect(verifying.mock.calls.length - verified).toBe(1)
      const after = await recorded()
      const isKnown = which === authenticator
      expect([after.entries - before.entries, after.refused - before.refused]).toEqual(
        isKnown ? [1, 0] : [0, 1],
      )
    }
    verifying.mockRestore()
  })

  test('that is asked for stores nothing', async () => {
    const count = async () =>
      (await service.db.selectFrom('used_passkey_challenges').select('challenge_hash').execute()).length
    const before = await count()
    for (const _ of times(20, () => 0)) await options()
    expect(await count()).toBe(before)
  })

  test('without user handle is refused: nothing else would say who its user is', async () => {
    const person = await service.personWithPasskey(admin)
    const { challenge, passkeyOptions } = await options()
    const response = person.authenticator.get(passkeyOptions, { userHandle: null })
    expectWrong(await signIn({ challenge, response }))
    // After the password it is known.
    const second = await begin(person)
    const given = person.authenticator.get(second.passkeyOptions ?? { challenge: '' }, { userHandle: null })
    expect((await complete({ challenge: second.challenge, method: 'passkey', response: given })).status).toBe(
      200,
    )
  })

  test('is counted by network like other sign-ins (ASVS 6.3.1)', async () => {
    const strict = await openFactorService({
      env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_ATTEMPTS: '5/60', LIMIT_REFUSALS: '1000/60' },
    })
    const company = await strict.addCompany()
    const { authenticator } = await strict.personWithPasskey(company)
    const { passkeyOptions, challenge } = await must(strict.call('/auth/login/passkey/options', {}))
    const json = { challenge, response: authenticator.get(passkeyOptions, { userVerified: false }) }
    const answers: number[] = []
    for (const _ of times(6, () => 0))
      answers.push((await strict.call('/auth/login/passkey', { json })).status)
    expect(answers.slice(-1)).toEqual([429])
    expect(answers.slice(0, 3)).toEqual([401, 401, 401])
  })
})
