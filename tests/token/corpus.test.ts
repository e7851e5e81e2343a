import { createHmac, createPublicKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { sessionRow } from '../session/state.ts'
import { encode, forge, type Json, type Kind, openForge, partsOf, signInput } from '../support/forge.ts'
import { addClient, introspect } from '../support/platform.ts'
import { type Answer, useSharedService } from '../support/test-service.ts'

/**
 * One guard must reject each of these tokens. Except for the tampered ones, they are signed by the service's own key,
 * and the same token without its defect is accepted. http/access.test.ts covers which routes have the guards.
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

type Row = [name: string, token: string]
/** Wrong values by name, several on a line. */
type Wrong<Value> = Record<string, Value>[]
const listed = <Value>(wrong: Wrong<Value>) => wrong.flatMap((some) => Object.entries(some))

const keyOfAnotherService = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const signEs256 =
  (key = keyOfAnotherService.privateKey) =>
  (input: string) =>
    sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
const signHmac =
  (key: Buffer | string, hash = 'sha256') =>
  (input: string) =>
    createHmac(hash, key).update(input).digest()
const signHs512 = signHmac(forgery.refreshKey, 'sha512')
const signRs256 = (input: string) => sign('sha256', Buffer.from(input), rsa.privateKey)
const signDer = (input: string) => sign('sha256', Buffer.from(input), forgery.privateKey)
const signNothing = () => Buffer.alloc(0)

const publicKey = createPublicKey(forgery.privateKey)
const attackersJwk = keyOfAnotherService.publicKey.export({ format: 'jwk' })

/** The claims as text, with one replaced by text that JSON.stringify would not write. */
function rawClaims({ claims }: Kind, name: string, raw: string): string {
  return JSON.stringify({ ...claims, [name]: 'here' }).replace('"here"', raw)
}

const withHeader = (kind: Kind, members: Json, sign?: (input: string) => Buffer) =>
  forge(kind, { header: { ...kind.header, ...members }, ...(sign && { sign }) })

const withClaim = (kind: Kind, name: string, value: unknown) =>
  forge(kind, { payload: { ...kind.claims, [name]: value } })

function without(object: Json, name: string): Json {
  const { [name]: _, ...others } = object
  return others
}

/** ASVS 9.1.2: only the kind's own algorithm. */
function wrongAlgorithms(kind: Kind, other: Kind): Row[] {
  const [own, others] = [String(kind.header['alg']), other.header['alg']]
  const algs = ['none', 'NoNe', '', 256, null, [own], own.toLowerCase(), 'HS512', 'RS256', 'ES384', others]
  return [
    ...algs.flatMap((alg): Row[] => [
      [`alg ${JSON.stringify(alg)}`, withHeader(kind, { alg })],
      [`alg ${JSON.stringify(alg)}, unsigned`, withHeader(kind, { alg }, signNothing)],
    ]),
    ['no alg', forge(kind, { header: without(kind.header, 'alg') })],
    ['no signature', forge(kind, { sign: signNothing })],
    ['the signature of RS256', forge(kind, { sign: signRs256 })],
    ['alg RS256 and its signature', withHeader(kind, { alg: 'RS256' }, signRs256)],
    ['the signature of HS512', forge(kind, { sign: signHs512 })],
    ['alg HS512 and its signature', withHeader(kind, { alg: 'HS512' }, signHs512)],
    ["the other kind's signature", forge(kind, { sign: other.sign })],
    ["the other kind's alg and signature", withHeader(kind, { alg: others }, other.sign)],
    ['a signature by a different service', forge(kind, { sign: signEs256() })],
    ['a MAC with a key of zeros', forge(kind, { sign: signHmac(Buffer.alloc(32)) })],
    ['a signature of zeros', forge(kind, { sign: () => Buffer.alloc(kind === access ? 64 : 32) })],
    ['a signature in DER', forge(kind, { sign: signDer })],
  ]
}

/** RFC 8725, section 2.1: a public key is not a secret. */
function publicKeyAsSecret(kind: Kind): Row[] {
  const forms: [string, string | Buffer][] = [
    ['PEM', publicKey.export({ format: 'pem', type: 'spki' })],
    ['DER', publicKey.export({ format: 'der', type: 'spki' })],
    ['JWK', JSON.stringify(forgery.publicJwk)],
    ['coordinates', Buffer.from(forgery.publicJwk.x + forgery.publicJwk.y, 'base64url')],
  ]
  return forms.flatMap(([form, key]): Row[] => {
    const what = `header and a MAC with the public key (${form})`
    const mac = signHmac(key)
    return [
      [`its ${what}`, forge(kind, { sign: mac })],
      [`HS256 ${what}`, withHeader(kind, { alg: 'HS256' }, mac)],
    ]
  })
}

/** Key and type are the service's, whatever the header says (ASVS 9.1.3, 9.2.2). */
function wrongHeaders(kind: Kind, other: Kind): Row[] {
  const { alg, typ, kid } = kind.header
  const added: Wrong<Json> = [
    { crit: { crit: ['exp'] }, 'an empty crit': { crit: [] }, 'b64: false': { b64: false } },
    { 'b64: false and crit': { b64: false, crit: ['b64'] }, 'its own jwk': { jwk: forgery.publicJwk } },
    { jku: { jku: 'https://attacker.example/keys.json' } },
    { 'jku of the key set': { jku: `${service.config.publicUrl}/api/.well-known/jwks.json` } },
    { x5u: { x5u: 'https://attacker.example/chain.pem' }, x5c: { x5c: ['MIIB'] }, zip: { zip: 'DEF' } },
    { 'typ missing': { typ: undefined }, "the other kind's typ": { typ: other.header['typ'] } },
    { 'typ JWT': { typ: 'JWT' }, 'typ in capitals': { typ: String(typ).toUpperCase() } },
    { 'typ as a media type': { typ: `application/${typ}` }, 'typ null': { typ: null } },
    { 'kid missing': { kid: undefined }, "the other kind's kid": { kid: other.header['kid'] } },
    { 'kid of an unknown key': { kid: 'unknown' }, 'kid null': { kid: null } },
    { 'kid with a path': { kid: '../../../../dev/null' }, 'kid with SQL': { kid: `${kid}' or 'a'='a` } },
    { 'kid __proto__': { kid: '__proto__' }, 'kid a number': { kid: 0 } },
  ]
  const text = JSON.stringify(kind.header)
  return [
    ...listed(added).map(([name, members]): Row => [name, withHeader(kind, members)]),
    ["an attacker's jwk and signature", withHeader(kind, { alg: 'ES256', jwk: attackersJwk }, signEs256())],
    ["the other kind's header", forge(kind, { header: other.header })],
    ["the other kind's header and signature", forge(kind, { header: other.header, sign: other.sign })],
    ['a header in a different order', forge(kind, { header: { kid, typ, alg } })],
    ['a header with spaces', forge(kind, { header: text.replaceAll(',', ', ') })],
    ['a header with alg twice', forge(kind, { header: text.replace('{', '{"alg":"none",') })],
    ['a header that is a list', forge(kind, { header: `[${text}]` })],
    ['a header that is null', forge(kind, { header: 'null' })],
    ['a header that is not JSON', forge(kind, { header: text.slice(1) })],
    ['an empty header', forge(kind, { header: '' })],
  ]
}

/** Issuer, audience, and subject (ASVS 9.2.3, 9.2.4). */
function wrongClaims(kind: Kind, other: Kind): Row[] {
  const unknown = randomUUID()
  const { iss, aud } = kind.claims
  const wrong: [name: string, values: Record<string, unknown>][] = [
    ['iss', { 'of a different service': 'https://attacker.example/api', 'with an extra slash': `${iss}/` }],
    ['iss', { 'without its path': service.config.publicUrl, 'in a list': [iss] }],
    ['aud', { 'of the other kind': other.claims['aud'], 'of a different service': 'other', empty: '' }],
    ['aud', { 'in a list': [aud], 'among others': [aud, 'other'] }],
    ['sub', { 'of a colleague': colleague.userId, 'of a stranger': stranger.userId, 'of no user': unknown }],
    ['sub', { 'in capitals': admin.userId.toUpperCase(), 'that is an email': admin.email, 'a number': 1 }],
    ['cid', { 'of a different company': stranger.companyId, 'of no company': unknown, 'a number': 1 }],
    ['cid', { 'that is not an ID': 'company' }],
    ['sid', { "of a colleague's session": colleaguesSession, 'of no session': unknown, 'a number': 1 }],
    ['sid', { 'with a quote': `${forgery.sessionId}'` }],
    ['jti', { empty: '', 'a number': 1, 'that is not an ID': 'id' }],
  ]
  const ofOneKind: typeof wrong =
    kind === access
      ? [
          ['role', { 'a number': 1, 'in a list': ['admin'] }],
          ['perms', { 'not in a list': 'webhook-secret:manage', 'of numbers': [1], 'an object': {} }],
        ]
      : [
          ['gen', { 'to come': 1, 'below zero': -1, broken: 0.5, 'a string': '0', 'in a list': [0] }],
          ['gen', { 'past 2^31': 2 ** 31, 'past 2^53': 2 ** 53 }],
          ['jti', { 'of a different generation': `${forgery.sessionId}.1`, 'at random': unknown }],
        ]
  const names = Object.keys(kind.claims)
  // Tokens issued before version 1.1 lack these.
  const required = names.filter((name) => name !== 'amr' && name !== 'auth_time')
  return [
    ...required.map((name): Row => [`no ${name}`, forge(kind, { payload: without(kind.claims, name) })]),
    ...names.map((name): Row => [`${name} null`, withClaim(kind, name, null)]),
    ...[...wrong, ...ofOneKind].flatMap(([name, values]) =>
      Object.entries(values).map(([what, value]): Row => [`${name} ${what}`, withClaim(kind, name, value)]),
    ),
    ["the other kind's claims", forge(kind, { payload: other.claims })],
  ]
}

/** ASVS 9.2.1: the time span, exactly as issued. */
function wrongTimes(kind: Kind): Row[] {
  const { exp } = kind.claims
  const raws: [string, string[]][] = [
    ['exp', [`"${exp}"`, '9e15', '-9e15', '1e400', '-1e400', '-1', 'true', '[]', `${now + 60}.5`]],
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

/** RFC 7519, section 4: a service ignores claims that a newer one adds. */
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

/** A token has one form and one spelling (RFC 7515, section 5.2; RFC 7519, section 7.2; RFC 4648, section 3.5). */
function wrongForms(kind: Kind): Row[] {
  const genuine = forge(kind)
  const [header, payload, signature] = partsOf(genuine)
  const text = JSON.stringify(kind.claims)
  const bodies: Wrong<string | Buffer> = [
    { 'a list': `[${text}]`, 'an empty list': '[]', null: 'null', 'a string': '"claims"', 'a number': '1' },
    { 'an empty object': '{}', nothing: '', 'not JSON': text.slice(0, -1), 'JSON and more': `${text}}` },
    { 'JSON twice': text + text, 'after a byte order mark': `\ufeff${text}` },
    { 'not UTF-8': Buffer.from(text.replace('"iss":"', '"iss":"\u00ff'), 'latin1') },
    { 'in UTF-16': Buffer.from(text, 'utf16le') },
  ]
  const junk = ['!', '=', '==', '+', '/', '%2e', 'é']
  // With this many spaces, the last character has bits that no byte needs.
  const spaces =
    [1, 2, 3].map((count) => ' '.repeat(count)).find((pad) => (text + pad).length % 3 === 1) ?? ''
  const strict = encode(text + spaces)
  const loose = strict.slice(0, -1) + nextLetter(strict.slice(-1))
  return [
    ...listed(bodies).map(
      ([name, body]): Row => [`a payload that is ${name}`, forge(kind, { payload: body })],
    ),
    ...junk.flatMap((mark): Row[] => {
      const within = (part: string) => `${part.slice(0, 4)}${mark}${part.slice(4)}`
      return [
        [`${mark} in its header`, signInput(`${header}${mark}.${payload}`, kind.sign)],
        [`${mark} before its header`, signInput(`${mark}${header}.${payload}`, kind.sign)],
        [`${mark} in its payload`, signInput(`${header}.${within(payload)}`, kind.sign)],
        [`${mark} after its payload`, signInput(`${header}.${payload}${mark}`, kind.sign)],
        [`${mark} in its signature`, `${header}.${payload}.${within(signature)}`],
        [`${mark} after its signature`, `${genuine}${mark}`],
      ]
    }),
    ['stray bits in its payload', signInput(`${header}.${loose}`, kind.sign)],
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
    ['a long ID', withClaim(kind, 'jti', 'x'.repeat(10_000))],
    ['15 KB', `${genuine}${'A'.repeat(15_000 - genuine.length)}`],
    ['15 KB of dots', '.'.repeat(15_000)],
    ['the JSON serialization', JSON.stringify({ payload, signatures: [{ protected: header, signature }] })],
  ]
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

const nextLetter = (letter: string) => LETTERS[(LETTERS.indexOf(letter) + 1) % 64] ?? 'A'

/** A refusal as clients see it. It must not depend on the defect. */
function refusalOf({ status, headers, body: { requestId, ...body } }: Answer) {
  expect(requestId).toMatch(/^[0-9a-f-]{36}$/)
  return { status, body, challenge: headers['www-authenticate'] }
}

const bearer = (token: string) => ({ authorization: `Bearer ${Buffer.from(token).toString('latin1')}` })
const getSession = (headers: Record<string, string | string[]>) => service.getSession({ headers })

/** The response to every invalid token, and to every request without a token. */
const REFUSAL = refusalOf(await getSession({ authorization: 'Bearer x' }))
const MISSING = refusalOf(await getSession({}))

const untouched = await sessionRow(service, forgery.sessionId)

/** The session is unchanged, and can still be used. */
async function expectUntouched() {
  expect(await sessionRow(service, forgery.sessionId)).toEqual(untouched)
  expect((await service.getSession({ token: forgery.accessToken })).status).toBe(200)
}

const [app] = service.apps
const kinds = [
  {
    what: 'an access token',
    kind: access,
    other: refresh,
    genuine: forgery.accessToken,
    genuineOther: forgery.refreshToken,
    spellings: 15,
    send: getSession,
    verify: (token: string) => app?.tokens.verifyAccess(token, now * 1000),
  },
  {
    what: 'a refresh token',
    kind: refresh,
    other: access,
    genuine: forgery.refreshToken,
    genuineOther: forgery.accessToken,
    spellings: 3,
    send: (headers: Record<string, string>) => service.call('/auth/refresh', { headers }),
    verify: async (token: string) => app?.tokens.verifyRefresh(token, now * 1000),
  },
]

test('invalid and missing tokens result in a challenge (RFC 6750, section 3)', () => {
  expect([REFUSAL.status, REFUSAL.body.code]).toEqual([401, 'invalid_token'])
  const invalid = 'Bearer realm="gatehouse", error="invalid_token", error_description="'
  expect(REFUSAL.challenge).toMatch(new RegExp(`^${invalid}`))
  expect([MISSING.status, MISSING.body.code]).toEqual([401, 'missing_credentials'])
  expect(MISSING.challenge).toBe('Bearer realm="gatehouse"')
})

describe.each(kinds)('$what', ({ what, kind, other, genuine, genuineOther, spellings, send, verify }) => {
  const expectRefused = async (token: string) => expect(refusalOf(await send(bearer(token)))).toEqual(REFUSAL)
  /** Many tokens differ only in their bytes, so they are verified as the guard does, without a request. */
  const expectUnverified = async (token: string) =>
    await expect(verify(token)).rejects.toMatchObject({ code: 'invalid_token' })

  const corpus: [ids: string, rows: Row[]][] = [
    ['ASVS 9.1.2', wrongAlgorithms(kind, other)],
    ['RFC 8725, section 2.1', publicKeyAsSecret(kind)],
    ['ASVS 9.1.3, 9.2.2', wrongHeaders(kind, other)],
    ['ASVS 9.2.3, 9.2.4, 10.3.1', wrongClaims(kind, other)],
    ['ASVS 9.2.1', wrongTimes(kind)],
    ['RFC 7515, section 5.2', wrongForms(kind)],
    ['ASVS 9.2.2', [['the form of the other kind', genuineOther]]],
  ]
  for (const [ids, rows] of corpus)
    test.for(rows)(`${what} with %s is rejected (${ids})`, ([, token]) => expectRefused(token))

  const further = furtherClaims(kind)
  test.for(further)(`${what} with the unknown claim %s is accepted (RFC 7519, 4)`, async ([, token]) => {
    expect(await verify(token)).toMatchObject({ sid: forgery.sessionId, sub: admin.userId })
  })

  test(`${what} with any bit of its signature flipped is rejected (ASVS 9.1.1)`, async () => {
    const [header, payload, signature] = partsOf(genuine)
    const bytes = Buffer.from(signature, 'base64url')
    for (const bit of Array(bytes.length * 8).keys()) {
      const flipped = Buffer.from(bytes)
      flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      await expectUnverified(`${header}.${payload}.${flipped.toString('base64url')}`)
    }
  })

  test(`${what} with any character changed is rejected (ASVS 9.1.1)`, async () => {
    for (const [at, letter] of [...genuine].entries()) {
      if (letter === '.') continue
      await expectUnverified(`${genuine.slice(0, at)}${nextLetter(letter)}${genuine.slice(at + 1)}`)
    }
  })

  test(`${what} with stray bits in its signature is rejected (RFC 4648, section 3.5)`, async () => {
    const bytes = Buffer.from(partsOf(genuine)[2], 'base64url')
    const spelled = [...LETTERS]
      .map((letter) => genuine.slice(0, -1) + letter)
      .filter((token) => token !== genuine && Buffer.from(partsOf(token)[2], 'base64url').equals(bytes))
    expect(spelled).toHaveLength(spellings)
    for (const token of spelled) await expectUnverified(token)
  })

  test(`${what} rejected for any reason leaves its session unchanged`, expectUntouched)
})

test('forged tokens without a defect are accepted (ASVS 9.1.1)', async () => {
  const own = await openForge(service, admin)
  const [token, refreshToken] = [forge(own.access), forge(own.refresh)]
  expect(partsOf(token).slice(0, 2)).toEqual(partsOf(own.accessToken).slice(0, 2))
  expect(partsOf(refreshToken).slice(0, 2)).toEqual(partsOf(own.refreshToken).slice(0, 2))
  expect((await service.refresh(refreshToken)).status).toBe(200)
  expect((await service.getSession({ token })).status).toBe(200)
  expect((await service.call('/auth/logout', { token })).status).toBe(204)
})

test.for<Row>([
  ['with a foreign signature', forge(access, { sign: signEs256() })],
  ['of an unknown session', withClaim(access, 'sid', randomUUID())],
  ['for refreshes', forgery.refreshToken],
])('sign-out and the platform reject a token %s like the session guard', async ([, token]) => {
  expect(refusalOf(await service.call('/auth/logout', { token }))).toEqual(REFUSAL)
  const headers = bearer(token)
  expect(refusalOf(await service.ask('/verify', { method: 'GET', headers }))).toEqual(REFUSAL)
  expect((await introspect(service, client, token)).body).toEqual({ active: false })
  await expectUntouched()
})

const genuine = forgery.accessToken
test.for<[what: string, headers: Record<string, string | string[]>]>([
  ['no Authorization header', {}],
  ['an empty one', { authorization: '' }],
  ['only "Bearer"', { authorization: 'Bearer' }],
  ['"Bearer" and a space', { authorization: 'Bearer ' }],
  ['two words after "Bearer"', { authorization: 'Bearer a b' }],
  ['a word after the token', { authorization: `Bearer ${genuine} x` }],
  ['two tokens', { authorization: `Bearer ${genuine}, Bearer ${genuine}` }],
  ['Basic', { authorization: `Basic ${Buffer.from(`${admin.email}:${admin.password}`).toString('base64')}` }],
  ['the scheme DPoP', { authorization: `DPoP ${genuine}` }],
  ['a token without a scheme', { authorization: genuine }],
  ['no space between scheme and token', { authorization: `Bearer${genuine}` }],
  ['a tab after the scheme', { authorization: `Bearer\t${genuine}` }],
  ['two Authorization headers', { authorization: [`Bearer ${genuine}`, `Bearer ${genuine}`] }],
  ['an Authorization header and a Basic one', { authorization: [`Bearer ${genuine}`, 'Basic eDp4'] }],
])('a request with %s gets a challenge for a token (RFC 6750, section 3)', async ([, headers]) => {
  expect(refusalOf(await getSession(headers))).toEqual(MISSING)
})

test('a token is read only from one header, never from the query (RFC 9110, section 11.1; ASVS 14.2.1)', async () => {
  expect((await getSession({ authorization: `bEARER ${genuine}` })).status).toBe(200)
  const inQuery = await service.call(`/auth/session?access_token=${genuine}`, { method: 'GET' })
  expect(inQuery.body.code).toBe('missing_credentials')
})
