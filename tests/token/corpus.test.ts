import { createHmac, createPublicKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { addClient, introspect } from '../support/platform.ts'
import { type Answer, useSharedService } from '../support/test-service.ts'
import { encode, forge, type Json, type Kind, openForge, partsOf, signInput } from './forge.ts'

/**
 * Tokens that must not pass, at each guard that takes one. All but the tampered ones carry a signature by
 * the service's own key, and the same token without its defect passes.
 */

const { service } = await useSharedService()
const admin = await service.addCompany()
const colleague = await service.addUser(admin, 'admin')
const stranger = await service.addCompany()
const forgery = await openForge(service, admin)
const { access, refresh } = forgery
const client = await addClient(service)
const colleaguesSession = (await service.loginAs(colleague)).session.id
const now = Math.floor(service.clock.now() / 1000)

/** One behind each guard that takes access tokens: http/access.test.ts shows which routes stand behind them. */
const ACCESS_ROUTES = [
  ['GET', '/auth/session'],
  ['POST', '/auth/logout'],
] as const
const REFRESH_ROUTES = [['POST', '/auth/refresh']] as const

type Row = [name: string, token: string]

const keyOfAnotherService = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const signEs256 =
  (key = keyOfAnotherService.privateKey) =>
  (input: string) =>
    sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
const signHs256 = (key: Buffer | string) => (input: string) =>
  createHmac('sha256', key).update(input).digest()
const signRs256 = (input: string) => sign('sha256', Buffer.from(input), rsa.privateKey)
const signNothing = () => Buffer.alloc(0)

const publicKey = createPublicKey(forgery.privateKey)
const attackersJwk = keyOfAnotherService.publicKey.export({ format: 'jwk' })

/** The claims as text, with one of them replaced by what JSON.stringify would not write. */
function rawClaims({ claims }: Kind, name: string, raw: string): string {
  return JSON.stringify({ ...claims, [name]: 'here' }).replace('"here"', raw)
}

function without(object: Json, name: string): Json {
  const { [name]: _, ...others } = object
  return others
}

/** ASVS 9.1.2: only the one algorithm of the kind. */
function wrongAlgorithms(kind: Kind, other: Kind): Row[] {
  const headers: [string, unknown][] = [
    ['none', 'none'],
    ['NoNe', 'NoNe'],
    ['an empty name', ''],
    ['a number', 256],
    ['null', null],
    ['a list', [kind.header['alg']]],
    ['its own name in other letters', String(kind.header['alg']).toLowerCase()],
    ['HS512', 'HS512'],
    ['RS256', 'RS256'],
    ['ES384', 'ES384'],
    ["the other kind's", other.header['alg']],
  ]
  return [
    ...headers.flatMap(([name, alg]): Row[] => [
      [`alg ${name}`, forge(kind, { header: { ...kind.header, alg } })],
      [`alg ${name}, unsigned`, forge(kind, { header: { ...kind.header, alg }, sign: signNothing })],
    ]),
    ['no alg', forge(kind, { header: without(kind.header, 'alg') })],
    ['no signature', forge(kind, { sign: signNothing })],
    ['the signature of RS256', forge(kind, { sign: signRs256 })],
    [
      'alg RS256 and its signature',
      forge(kind, { header: { ...kind.header, alg: 'RS256' }, sign: signRs256 }),
    ],
    [
      'alg HS512 and its signature',
      forge(kind, {
        header: { ...kind.header, alg: 'HS512' },
        sign: (input) => createHmac('sha512', forgery.refreshKey).update(input).digest(),
      }),
    ],
    [
      'the signature of HS512',
      forge(kind, { sign: (input) => createHmac('sha512', forgery.refreshKey).update(input).digest() }),
    ],
    ["the other kind's signature", forge(kind, { sign: other.sign })],
    [
      "the other kind's alg and signature",
      forge(kind, { header: { ...kind.header, alg: other.header['alg'] }, sign: other.sign }),
    ],
    ['a signature of another service', forge(kind, { sign: signEs256() })],
    ['a MAC with a key of zeros', forge(kind, { sign: signHs256(Buffer.alloc(32)) })],
    ['a signature of zeros', forge(kind, { sign: () => Buffer.alloc(kind === access ? 64 : 32) })],
    [
      'a signature in DER',
      forge(kind, { sign: (input) => sign('sha256', Buffer.from(input), forgery.privateKey) }),
    ],
  ]
}

/** RFC 8725, section 2.1: a public key is no secret. */
function publicKeyAsSecret(kind: Kind): Row[] {
  const forms: [string, string | Buffer][] = [
    ['PEM', publicKey.export({ format: 'pem', type: 'spki' })],
    ['DER', publicKey.export({ format: 'der', type: 'spki' })],
    ['JWK', JSON.stringify(forgery.publicJwk)],
    ['coordinates', Buffer.from(forgery.publicJwk.x + forgery.publicJwk.y, 'base64url')],
  ]
  const headers = { its: kind.header, HS256: { ...kind.header, alg: 'HS256' } }
  return forms.flatMap(([form, key]) =>
    Object.entries(headers).map(
      ([name, header]): Row => [
        `${name} header and a MAC with the public key (${form})`,
        forge(kind, { header, sign: signHs256(key) }),
      ],
    ),
  )
}

/** ASVS 9.1.3: the key is the service's, whatever the header says; ASVS 9.2.2: so is the type. */
function wrongHeaders(kind: Kind, other: Kind): Row[] {
  const added: [string, Json][] = [
    ['crit', { crit: ['exp'] }],
    ['an empty crit', { crit: [] }],
    ['b64: false', { b64: false }],
    ['b64: false and crit', { b64: false, crit: ['b64'] }],
    ['its own jwk', { jwk: forgery.publicJwk }],
    ['jku', { jku: 'https://attacker.example/keys.json' }],
    ['jku of the key set', { jku: `${service.config.publicUrl}/api/.well-known/jwks.json` }],
    ['x5u', { x5u: 'https://attacker.example/chain.pem' }],
    ['x5c', { x5c: ['MIIB'] }],
    ['zip', { zip: 'DEF' }],
    ['typ missing', { typ: undefined }],
    ['typ JWT', { typ: 'JWT' }],
    ["the other kind's typ", { typ: other.header['typ'] }],
    ['typ in capitals', { typ: String(kind.header['typ']).toUpperCase() }],
    ['typ as a media type', { typ: `application/${kind.header['typ']}` }],
    ['typ null', { typ: null }],
    ['kid missing', { kid: undefined }],
    ['kid of an unknown key', { kid: 'unknown' }],
    ["the other kind's kid", { kid: other.header['kid'] }],
    ['kid with a path', { kid: '../../../../dev/null' }],
    ['kid with SQL', { kid: `${kind.header['kid']}' or 'a'='a` }],
    ['kid __proto__', { kid: '__proto__' }],
    ['kid a number', { kid: 0 }],
    ['kid null', { kid: null }],
  ]
  const { alg, typ, kid } = kind.header
  const text = JSON.stringify(kind.header)
  return [
    ...added.map(([name, members]): Row => [name, forge(kind, { header: { ...kind.header, ...members } })]),
    [
      "an attacker's jwk and signature",
      forge(kind, { header: { ...kind.header, alg: 'ES256', jwk: attackersJwk }, sign: signEs256() }),
    ],
    ["the other kind's header", forge(kind, { header: other.header })],
    ["the other kind's header and signature", forge(kind, { header: other.header, sign: other.sign })],
    ['a header in another order', forge(kind, { header: { kid, typ, alg } })],
    ['a header with spaces', forge(kind, { header: text.replaceAll(',', ', ') })],
    ['a header that says alg twice', forge(kind, { header: text.replace('{', '{"alg":"none",') })],
    ['a header that is a list', forge(kind, { header: `[${text}]` })],
    ['a header that is null', forge(kind, { header: 'null' })],
    ['a header that is not JSON', forge(kind, { header: text.slice(1) })],
    ['an empty header', forge(kind, { header: '' })],
  ]
}

/** ASVS 9.2.3, 9.2.4: who issued it, to whom, about whom. */
function wrongClaims(kind: Kind, other: Kind): Row[] {
  const unknown = randomUUID()
  const { iss, aud } = kind.claims
  const wrong: [name: string, what: string, value: unknown][] = [
    ['iss', 'of another service', 'https://attacker.example/api'],
    ['iss', 'with a slash more', `${iss}/`],
    ['iss', 'without its path', service.config.publicUrl],
    ['iss', 'in a list', [iss]],
    ['aud', 'of the other kind', other.claims['aud']],
    ['aud', 'of another service', 'other'],
    ['aud', 'empty', ''],
    ['aud', 'in a list', [aud]],
    ['aud', 'among others', [aud, 'other']],
    ['sub', 'of a colleague', colleague.userId],
    ['sub', 'of a stranger', stranger.userId],
    ['sub', 'of nobody', unknown],
    ['sub', 'in capitals', admin.userId.toUpperCase()],
    ['sub', 'that is an address', admin.email],
    ['sub', 'a number', 1],
    ['cid', 'of another company', stranger.companyId],
    ['cid', 'of no company', unknown],
    ['cid', 'that is no id', 'company'],
    ['cid', 'a number', 1],
    ['sid', "of a colleague's session", colleaguesSession],
    ['sid', 'of no session', unknown],
    ['sid', 'with a quote', `${forgery.sessionId}'`],
    ['sid', 'a number', 1],
    ['jti', 'empty', ''],
    ['jti', 'a number', 1],
    ['jti', 'that is no id', 'id'],
  ]
  const ofOneKind: typeof wrong =
    kind === access
      ? [
          ['role', 'a number', 1],
          ['role', 'in a list', ['admin']],
          ['perms', 'not in a list', 'webhook-secret:manage'],
          ['perms', 'of numbers', [1]],
          ['perms', 'an object', {}],
        ]
      : [
          ['gen', 'to come', 1],
          ['gen', 'below zero', -1],
          ['gen', 'broken', 0.5],
          ['gen', 'a string', '0'],
          ['gen', 'in a list', [0]],
          ['gen', 'past 2^31', 2 ** 31],
          ['gen', 'past 2^53', 2 ** 53],
          ['jti', 'of another generation', `${forgery.sessionId}.1`],
          ['jti', 'at random', unknown],
        ]
  const names = Object.keys(kind.claims)
  // Tokens of before the interface had these are good until they expire.
  const isRequired = (name: string) => name !== 'amr' && name !== 'auth_time'
  return [
    ...names
      .filter(isRequired)
      .map((name): Row => [`no ${name}`, forge(kind, { payload: without(kind.claims, name) })]),
    ...names.map((name): Row => [`${name} null`, forge(kind, { payload: { ...kind.claims, [name]: null } })]),
    ...[...wrong, ...ofOneKind].map(
      ([name, what, value]): Row => [
        `${name} ${what}`,
        forge(kind, { payload: { ...kind.claims, [name]: value } }),
      ],
    ),
    ["the other kind's claims", forge(kind, { payload: other.claims })],
  ]
}

/** ASVS 9.2.1: the time span, exactly as it was issued. */
function wrongTimes(kind: Kind): Row[] {
  const raws: [string, string[]][] = [
    [
      'exp',
      [`"${kind.claims['exp']}"`, '9e15', '-9e15', '1e400', '-1e400', '-1', 'true', '[]', `${now + 60}.5`],
    ],
    ['iat', [`"${now}"`, '9e15', '-9e15', '1e400', '-1', `${now + 600}`, `${now - 1}.5`]],
    ['nbf', [`${now + 600}`, '9e15', '1e400', '-1', '"0"', 'null', '[]', `${now - 1}.5`]],
  ]
  return [
    ...raws.flatMap(([name, values]) =>
      values.map((raw): Row => [`${name} ${raw}`, forge(kind, { payload: rawClaims(kind, name, raw) })]),
    ),
    ['exp before iat', forge(kind, { payload: { ...kind.claims, iat: now, exp: now - 1 } })],
  ]
}

/** RFC 7519, section 4: what a newer version writes besides, an older one ignores. */
function furtherClaims(kind: Kind): Row[] {
  const claims: [string, string][] = [
    ['admin', 'true'],
    ['scope', '"members:manage"'],
    ['cell', 'null'],
    ['act', '{"sub":"somebody","amr":[]}'],
    ['', '[]'],
    ['__proto__', '{"sub":"somebody","exp":0}'],
    ['constructor', '{"prototype":{}}'],
    ['deep', '['.repeat(3000) + ']'.repeat(3000)],
    ['nbf', `${now - 600}`],
    // The clocks of two instances can differ by a minute.
    ['nbf', `${now + 60}`],
  ]
  return claims.map(([name, raw]) => [
    `${name} ${raw.slice(0, 40)}`,
    forge(kind, { payload: rawClaims(kind, 'added', raw).replace('"added"', JSON.stringify(name)) }),
  ])
}

/** RFC 7515, section 5.2; RFC 7519, section 7.2; RFC 4648, section 3.5: one form, one spelling. */
function wrongForms(kind: Kind): Row[] {
  const genuine = forge(kind)
  const [header, payload, signature] = partsOf(genuine)
  const text = JSON.stringify(kind.claims)
  const bodies: [string, string | Buffer][] = [
    ['a list', `[${text}]`],
    ['an empty list', '[]'],
    ['null', 'null'],
    ['a string', '"claims"'],
    ['a number', '1'],
    ['an empty object', '{}'],
    ['nothing', ''],
    ['not JSON', text.slice(0, -1)],
    ['JSON and more', `${text}}`],
    ['JSON twice', text + text],
    ['after a byte order mark', `\ufeff${text}`],
    ['not UTF-8', Buffer.from(text.replace('"iss":"', '"iss":"\u00ff'), 'latin1')],
    ['in UTF-16', Buffer.from(text, 'utf16le')],
  ]
  const junk = ['!', '=', '==', '+', '/', '%2e', 'é']
  // With these many spaces the last character carries bits that no byte needs.
  const spaces =
    [1, 2, 3].map((count) => ' '.repeat(count)).find((pad) => (text + pad).length % 3 === 1) ?? ''
  const loose = encode(text + spaces)
  return [
    ...bodies.map(([name, body]): Row => [`a payload that is ${name}`, forge(kind, { payload: body })]),
    ...junk.flatMap((mark): Row[] => [
      [`${mark} in its header`, signInput(`${header}${mark}.${payload}`, kind.sign)],
      [`${mark} before its header`, signInput(`${mark}${header}.${payload}`, kind.sign)],
      [
        `${mark} in its payload`,
        signInput(`${header}.${payload.slice(0, 4)}${mark}${payload.slice(4)}`, kind.sign),
      ],
      [`${mark} after its payload`, signInput(`${header}.${payload}${mark}`, kind.sign)],
      [
        `${mark} in its signature`,
        `${header}.${payload}.${signature.slice(0, 4)}${mark}${signature.slice(4)}`,
      ],
      [`${mark} after its signature`, `${genuine}${mark}`],
    ]),
    [
      'stray bits in its payload',
      signInput(`${header}.${loose.slice(0, -1)}${nextLetter(loose.slice(-1))}`, kind.sign),
    ],
    ['one part', header],
    ['two parts', `${header}.${payload}`],
    ['two parts, signed', signInput(header, kind.sign)],
    ['no header part', signInput(`.${payload}`, kind.sign)],
    ['no payload part', signInput(`${header}.`, kind.sign)],
    ['an empty third part', `${header}.${payload}.`],
    ['four parts', `${genuine}.${signature}`],
    ['four parts, signed', signInput(`${header}.${payload}.${payload}`, kind.sign)],
    ['a fourth part that is empty', `${genuine}.`],
    ['only dots', '...'],
    ['a long id', forge(kind, { payload: { ...kind.claims, jti: 'x'.repeat(10_000) } })],
    ['15 KB', `${genuine}${'A'.repeat(15_000 - genuine.length)}`],
    ['15 KB of dots', '.'.repeat(15_000)],
    ['the characters of JSON', JSON.stringify({ payload, signatures: [{ protected: header, signature }] })],
  ]
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

function nextLetter(letter: string): string {
  return LETTERS[(LETTERS.indexOf(letter) + 1) % 64] ?? 'A'
}

async function sessionRow() {
  return await service.db
    .selectFrom('sessions')
    .selectAll()
    .where('session_id', '=', forgery.sessionId)
    .executeTakeFirstOrThrow()
}
const untouched = await sessionRow()

const { generation, issued_at, rotated_at, recent_keys, recent_spent_at } = untouched
const { window_started_at, window_rotations } = untouched

/** One token that passed by mistake must not make the tests of all others fail. */
beforeEach(async () => {
  await service.db
    .updateTable('sessions')
    .set({ ended_at: null, end_reason: null, generation, issued_at, rotated_at, recent_keys })
    .set({ recent_spent_at, window_started_at, window_rotations })
    .where('session_id', '=', forgery.sessionId)
    .execute()
})

/** The session is as it was, and goes on. */
async function expectUntouched() {
  expect(await sessionRow()).toEqual(untouched)
  const { status } = await service.call('/auth/session', { method: 'GET', token: forgery.accessToken })
  expect(status).toBe(200)
}

/** What a client learns of a refusal, which must not depend on what was wrong. */
function refusalOf({ status, headers, body: { requestId, ...body } }: Answer) {
  expect(status).toBe(401)
  expect(requestId).toMatch(/^[0-9a-f-]{36}$/)
  return { status, body, type: headers['content-type'], challenge: headers['www-authenticate'] }
}

const send = (routes: readonly (readonly [string, string])[], headers: Record<string, string | string[]>) =>
  Promise.all(routes.map(([method, path]) => service.call(path, { method, headers })))

const asSent = (text: string) => Buffer.from(text).toString('latin1')

const kinds = [
  { name: 'access', kind: access, other: refresh, routes: ACCESS_ROUTES },
  { name: 'refresh', kind: refresh, other: access, routes: REFRESH_ROUTES },
] as const

describe.each(kinds)('of $name tokens', ({ name, kind, other, routes }) => {
  const genuine = name === 'access' ? forgery.accessToken : forgery.refreshToken

  const REFUSAL = {
    status: 401,
    type: 'application/problem+json; charset=utf-8',
    challenge: expect.stringMatching(/^Bearer realm="gatehouse", error="invalid_token", error_description="/),
    body: {
      type: 'urn:gatehouse:problem:invalid_token',
      title: 'Invalid token',
      status: 401,
      category: 'authentication',
      code: 'invalid_token',
      detail: 'The token is not valid here: sign in again, or send the token as it was issued.',
    },
  }

  /** None of these does anything at any of the routes. */
  async function expectRefused(...tokens: string[]) {
    for (const token of tokens) {
      for (const answer of await send(routes, { authorization: `Bearer ${asSent(token)}` })) {
        expect(refusalOf(answer)).toEqual(REFUSAL)
      }
      // The services of the platform are told the same. They have no use for refresh tokens.
      if (token === forgery.accessToken) continue
      const headers = { authorization: `Bearer ${asSent(token)}` }
      expect(refusalOf(await service.ask('/verify', { method: 'GET', headers }))).toEqual(REFUSAL)
      const { status, body } = await introspect(service, client, token)
      expect([status, body]).toEqual([200, { active: false }])
    }
    await expectUntouched()
  }

  test('the same without a defect passes (ASVS 9.1.1)', async () => {
    const person = name === 'access' ? admin : colleague
    const own = await openForge(service, person)
    const token = forge(own[name])
    const issued = name === 'access' ? own.accessToken : own.refreshToken
    expect(partsOf(token).slice(0, 2)).toEqual(partsOf(issued).slice(0, 2))
    const [method, path] = routes[0]
    expect((await service.call(path, { method, token })).status).toBe(200)
    if (name === 'access') expect((await service.call('/auth/logout', { token })).status).toBe(204)
  })

  test.each(wrongAlgorithms(kind, other))('one with %s is refused (ASVS 9.1.2)', (_, token) =>
    expectRefused(token),
  )
  test.each(publicKeyAsSecret(kind))('one with %s is refused (RFC 8725, section 2.1)', (_, token) =>
    expectRefused(token),
  )
  test.each(wrongHeaders(kind, other))('one with %s is refused (ASVS 9.1.3, 9.2.2)', (_, token) =>
    expectRefused(token),
  )
  test.each(wrongClaims(kind, other))('one with %s is refused (ASVS 9.2.3, 9.2.4)', (_, token) =>
    expectRefused(token),
  )
  test.each(wrongTimes(kind))('one with %s is refused (ASVS 9.2.1)', (_, token) => expectRefused(token))
  test.each(wrongForms(kind))('one with %s is refused (RFC 7515, section 5.2)', (_, token) =>
    expectRefused(token),
  )

  test.each(furtherClaims(kind))(
    'one with a further claim %s is good (RFC 7519, section 4)',
    async (_, token) => {
      const [method, path] = routes[0]
      const { status, body } = await service.call(path, { method, token })
      expect([status, body.session.id, body.user.id]).toEqual([200, forgery.sessionId, admin.userId])
    },
  )

  test('a genuine one of the other kind is refused (ASVS 9.2.2)', () =>
    expectRefused(name === 'access' ? forgery.refreshToken : forgery.accessToken))

  test('one with any bit of its signature flipped is refused (ASVS 9.1.1)', async () => {
    const [header, payload, signature] = partsOf(genuine)
    const bytes = Buffer.from(signature, 'base64url')
    for (let byte = 0; byte < bytes.length; byte += 1) {
      const tokens = [1, 2, 4, 8, 16, 32, 64, 128].map((bit) => {
        const flipped = Buffer.from(bytes)
        flipped.writeUInt8(flipped.readUInt8(byte) ^ bit, byte)
        return `${header}.${payload}.${flipped.toString('base64url')}`
      })
      await expectRefused(...tokens)
    }
  })

  test('one with any character changed is refused (ASVS 9.1.1)', async () => {
    const changed = [...genuine].flatMap((letter, at) =>
      letter === '.' ? [] : `${genuine.slice(0, at)}${nextLetter(letter)}${genuine.slice(at + 1)}`,
    )
    for (let at = 0; at < changed.length; at += 8) await expectRefused(...changed.slice(at, at + 8))
  })

  test('one whose signature is spelled with stray bits is refused (RFC 4648, section 3.5)', async () => {
    const last = genuine.slice(-1)
    const bytes = Buffer.from(partsOf(genuine)[2], 'base64url')
    const spellings = [...LETTERS]
      .filter((letter) => letter !== last)
      .map((letter) => genuine.slice(0, -1) + letter)
      .filter((token) => Buffer.from(partsOf(token)[2], 'base64url').equals(bytes))
    expect(spellings).toHaveLength(name === 'access' ? 15 : 3)
    await expectRefused(...spellings)
  })

  test('one of 20 KB is refused as too large (RFC 6585, section 5)', async () => {
    for (const answer of await send(routes, { authorization: `Bearer ${'A'.repeat(20_000)}` })) {
      expect([answer.status, answer.body.code]).toEqual([431, 'headers_too_large'])
    }
    await expectUntouched()
  })

  test.each([
    ['no Authorization header', {}],
    ['an empty one', { authorization: '' }],
    ['Bearer alone', { authorization: 'Bearer' }],
    ['Bearer and a space', { authorization: 'Bearer ' }],
    ['Bearer a b', { authorization: 'Bearer a b' }],
    ['a token and more', { authorization: `Bearer ${genuine} x` }],
    ['two tokens', { authorization: `Bearer ${genuine}, Bearer ${genuine}` }],
    [
      'Basic',
      { authorization: `Basic ${Buffer.from(`${admin.email}:${admin.password}`).toString('base64')}` },
    ],
    ['another scheme', { authorization: `DPoP ${genuine}` }],
    ['a token without a scheme', { authorization: genuine }],
    ['a scheme that runs into the token', { authorization: `Bearer${genuine}` }],
    ['a tab after the scheme', { authorization: `Bearer\t${genuine}` }],
    ['two Authorization headers', { authorization: [`Bearer ${genuine}`, `Bearer ${genuine}`] }],
    ['two Authorization headers, one of them Basic', { authorization: [`Bearer ${genuine}`, 'Basic eDp4'] }],
  ])('a request with %s is asked for a credential (RFC 6750, section 3)', async (_, headers) => {
    for (const answer of await send(routes, { ...headers })) {
      expect(refusalOf(answer)).toEqual({
        status: 401,
        type: 'application/problem+json; charset=utf-8',
        challenge: 'Bearer realm="gatehouse"',
        body: {
          type: 'urn:gatehouse:problem:missing_credentials',
          title: 'Missing credentials',
          status: 401,
          category: 'authentication',
          code: 'missing_credentials',
          detail: 'Send one header `Authorization: Bearer <token>`.',
        },
      })
    }
    await expectUntouched()
  })

  test('the name of the scheme may be written in any case (RFC 9110, section 11.1)', async () => {
    const own = await openForge(service, colleague)
    const [method, path] = routes[0]
    const authorization = `bEARER ${forge(own[name])}`
    expect((await service.call(path, { method, headers: { authorization } })).status).toBe(200)
  })
})

test('a token in the address is not read (ASVS 14.2.1)', async () => {
  const { status, body } = await service.call(`/auth/session?access_token=${forgery.accessToken}`, {
    method: 'GET',
  })
  expect([status, body.code]).toEqual([401, 'missing_credentials'])
})

test('a token is found in no log line, refused or not (ASVS 16.2.5)', async () => {
  const [header, payload, signature] = partsOf(forgery.accessToken)
  for (const token of [forgery.accessToken, `${header}.${payload}A.${signature}`]) {
    const { headers } = await service.call('/auth/session', { method: 'GET', token })
    const ours = () =>
      service.logs
        .join('')
        .split('\n')
        .filter((line) => line.includes(String(headers['x-request-id'])))
    await vi.waitFor(() => expect(ours()).not.toEqual([]), { timeout: 100_000 })
    for (const part of [payload, signature]) expect(ours().join()).not.toContain(part)
  }
})
