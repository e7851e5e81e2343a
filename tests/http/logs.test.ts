import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { mailedCodeOf } from '../support/mail-code.ts'
import { openMailbox } from '../support/mailbox.ts'
import { addClient, introspect } from '../support/platform.ts'
import { type Answer, openTestService, type TestService, useSharedService } from '../support/test-service.ts'
import { exchange } from './raw.ts'

const { service, mailbox } = await useSharedService()
const [address = ''] = service.addresses
const admin = await service.addCompany()
const viewer = await service.addUser(admin)
const secret = await service.newSecret(admin)
const signedIn = await service.loginAs(admin)
const viewerToken = (await service.loginAs(viewer)).accessToken
const { companyId, userId } = admin
const event = { type: 'a', data: {} }

type Line = Record<string, unknown>

const linesOf = ({ logs }: TestService): Line[] =>
  logs
    .join('')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

/** The lines that a request left. They are written once its answer is sent, so they may be a moment away. */
async function linesAbout(requestId: unknown, from = service): Promise<Line[]> {
  const find = () => {
    const lines = linesOf(from).filter((line) => line['requestId'] === requestId)
    return lines.length > 0 && lines
  }
  return await vi.waitUntil(find, { timeout: 100_000 })
}

describe('every request leaves one line (ASVS 16.2.1, 16.2.2, 16.2.4, 16.3.1, 16.3.2):', () => {
  const session = { companyId, userId, sessionId: signedIn.session.id }
  const token = signedIn.accessToken
  const rows: [string, () => Promise<Answer>, Line][] = [
    ['a sign-in', () => service.login(admin), { route: '/api/auth/login', status: 200, companyId, userId }],
    [
      'a refused sign-in',
      () => service.login({ ...admin, password: 'wrong' }),
      {
        route: '/api/auth/login',
        status: 401,
        code: 'invalid_credentials',
        companyId,
        userId,
        reason: 'wrong_password',
      },
    ],
    [
      'a read',
      () => service.call('/auth/session', { method: 'GET', token }),
      { method: 'GET', route: '/api/auth/session', status: 200, ...session },
    ],
    [
      'a HEAD',
      () => service.call('/auth/session', { method: 'HEAD', token }),
      { method: 'HEAD', route: '/api/auth/session', status: 200, ...session },
    ],
    [
      'a missing credential',
      () => service.call('/auth/session', { method: 'GET' }),
      { method: 'GET', route: '/api/auth/session', status: 401, code: 'missing_credentials' },
    ],
    [
      'a forged token',
      () => service.call('/auth/logout', { token: `${token}x` }),
      { route: '/api/auth/logout', status: 401, code: 'invalid_token' },
    ],
    [
      'a denial',
      () => service.call('/auth/webhook-secret/status', { token: viewerToken }),
      {
        route: '/api/auth/webhook-secret/status',
        status: 403,
        code: 'permission_denied',
        companyId,
        userId: viewer.userId,
      },
    ],
    [
      'a refused body',
      () => service.call('/auth/logout', { token, json: { a: 1 } }),
      { route: '/api/auth/logout', status: 400, code: 'invalid_request', ...session },
    ],
    [
      'a refresh',
      () => service.refresh(signedIn.refreshToken),
      { route: '/api/auth/refresh', status: 200, ...session },
    ],
    [
      'events',
      () => service.send(companyId, secret, event),
      { route: '/api/events/ingest', status: 202, companyId },
    ],
    [
      'a wrong signature',
      () => service.send(companyId, `whsec_${randomBytes(32).toString('base64')}`, event),
      { route: '/api/events/ingest', status: 401, code: 'invalid_signature' },
    ],
    ['an unknown path', () => service.call('/nothing'), { route: 'none', status: 404, code: 'not_found' }],
    [
      'a method that is not allowed',
      () => service.call('/auth/login', { method: 'PATCH' }),
      { method: 'PATCH', route: 'none', status: 405, code: 'method_not_allowed' },
    ],
    [
      'a broken %-escape',
      () => service.call('/%', { method: 'GET' }),
      { method: 'GET', route: 'none', status: 400, code: 'invalid_request' },
    ],
  ]

  test.for(rows)('the log line of %s', async ([, ask, expected]) => {
    const { headers } = await ask()
    const lines = await linesAbout(headers['x-request-id'])
    expect(lines).toEqual([
      {
        level: 30,
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        service: 'gatehouse',
        requestId: headers['x-request-id'],
        method: 'POST',
        ms: expect.any(Number),
        ipAddress: '127.0.0.1',
        ...('userId' in expected && !('reason' in expected) && { sessionId: expect.any(String) }),
        ...expected,
      },
    ])
  })

  test('the log line of an ended session or an expired token names whose it was', async () => {
    const person = await service.addCompany()
    const { accessToken, session } = await service.loginAs(person)
    const cookie = await service.cookieOf(person)
    const whose = { companyId: person.companyId, userId: person.userId }
    await service.call('/auth/logout?scope=all', { cookie })
    const refused = async (credential: object) => {
      const { headers } = await service.getSession(credential)
      return (await linesAbout(headers['x-request-id']))[0]
    }
    const ended = { ...whose, sessionId: expect.any(String), code: 'session_ended', reason: 'logout' }
    expect(await refused({ cookie })).toMatchObject(ended)
    expect(await refused({ token: accessToken })).toMatchObject(ended)
    service.clock.advance(3600)
    const expired = { ...whose, sessionId: session.id, code: 'token_expired' }
    expect(await refused({ token: accessToken })).toMatchObject(expired)
  })

  test('the log line of a platform request names the session, and whether it is live', async () => {
    const client = await addClient(service)
    const person = await service.addCompany()
    const { accessToken, refreshToken, session } = await service.loginAs(person)
    const ofToken = { companyId: person.companyId, userId: person.userId, sessionId: session.id }
    const cookie = await service.cookieOf(person)
    const { body } = await service.getSession({ cookie })
    const ofCookie = { ...ofToken, sessionId: body.session.id }
    const verify = (credential: object, query = '') =>
      service.ask(`/verify${query}`, {
        method: 'GET',
        headers: { 'x-original-method': 'GET' },
        ...credential,
      })
    const expectLine = async ({ headers }: Answer, expected: Line) => {
      const [line = {}] = await linesAbout(headers['x-request-id'])
      const { companyId, userId, sessionId, isLive, code, reason } = line
      expect({ companyId, userId, sessionId, isLive, code, reason }).toEqual(expected)
    }
    const live = { isLive: true }
    await expectLine(await verify({ token: accessToken }), { ...ofToken, ...live })
    await expectLine(await verify({ cookie }), { ...ofCookie, ...live })
    const denied = { ...ofCookie, ...live, code: 'permission_denied' }
    await expectLine(await verify({ cookie }, '?permission=a'), denied)
    await expectLine(await introspect(service, client, accessToken), { ...ofToken, ...live })
    await expectLine(await introspect(service, client, cookie), { ...ofCookie, ...live })

    const invalid = { isLive: false, code: 'invalid_token' }
    await expectLine(await verify({ token: 'x' }), invalid)
    await expectLine(await introspect(service, client, refreshToken), invalid)
    await service.call('/auth/logout?scope=all', { cookie })
    const ended = { isLive: false, code: 'session_ended', reason: 'logout' }
    await expectLine(await verify({ token: accessToken }), { ...ofToken, ...ended })
    await expectLine(await introspect(service, client, cookie), { ...ofCookie, ...ended })
    service.clock.advance(3600)
    const expired = { ...ofToken, isLive: false, code: 'token_expired' }
    await expectLine(await verify({ token: accessToken }), expired)
    await expectLine(await introspect(service, client, accessToken), expired)
  })

  test('the log line of a change names the member it concerns', async () => {
    const { companyId, ...person } = await service.addCompany()
    const { userId, email } = await service.addUser({ companyId })
    const { accessToken: token } = await service.loginAs({ companyId, ...person })
    async function expectLine(answering: Promise<Answer>, about: Line) {
      const { headers } = await answering
      expect(await linesAbout(headers['x-request-id'])).toMatchObject([{ companyId, ...about }])
    }
    const member = `/auth/members/${userId.toUpperCase()}`
    const byAdmin = { userId: person.userId, memberId: userId }
    const change = { method: 'PATCH', token, json: { role: 'analyst' } }
    await expectLine(service.call(member, change), byAdmin)
    await service.call('/auth/password/forgot', { json: { companyId, email } })
    const reset = { token: (await mailbox.mailTo(email)).token, newPassword: 'another fine battery' }
    await expectLine(service.call('/auth/password/reset', { json: reset }), { userId })
    const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
    const newEmail = `new-${email}`
    await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
    const json = { token: (await mailbox.mailTo(newEmail)).token }
    await expectLine(service.call('/auth/email/confirm', { json }), { userId: person.userId })
    await expectLine(service.call(member, { method: 'DELETE', token }), byAdmin)
  })

  test('the log line of bytes that are not HTTP', async () => {
    const [answer] = await exchange(address, 'no HTTP\r\n\r\n')
    expect(await linesAbout(answer?.headers['x-request-id'])).toEqual([
      {
        level: 30,
        time: expect.any(String),
        service: 'gatehouse',
        requestId: answer?.headers['x-request-id'],
        status: 400,
        ipAddress: '127.0.0.1',
        code: 'malformed_http',
      },
    ])
  })
})

test('an unforeseen fault is logged with its cause, without any values (ASVS 16.2.5, 16.5.4)', async () => {
  const broken = await openTestService()
  const person = await broken.addCompany()
  const key = await broken.newSecret(person)
  await sql`alter table events add constraint no_canary check (data::text not like '%c4n4ry%')`.execute(
    broken.db,
  )
  const { status, headers } = await broken.send(person.companyId, key, { type: 'a', data: { a: 'c4n4ry' } })
  expect(status).toBe(500)
  const findBoth = async () => {
    const found = await linesAbout(headers['x-request-id'], broken)
    return found.length === 2 && found
  }
  const lines = await vi.waitUntil(findBoth, { timeout: 100_000 })
  expect(lines[0]).toMatchObject({
    level: 50,
    msg: 'internal_error',
    err: { code: '23514', constraint: 'no_canary', message: '', stack: expect.stringMatching(/^ +at /) },
  })
  expect(lines[1]).toMatchObject({ level: 30, status: 500, code: 'internal_error' })
  expect(broken.logs.join('')).not.toContain('c4n4ry')
})

test('no log line holds a secret or an injected line (ASVS 14.2.1, 16.2.5, 16.4.1)', async () => {
  const { url } = await openMailbox()
  const quiet = await openTestService({ env: { SMTP_URL: url } })
  const [own = ''] = quiet.addresses
  const person = await quiet.addCompany()
  const key = await quiet.newSecret(person)
  const tokens = await quiet.loginAs(person)
  const cookie = await quiet.cookieOf(person)
  const token = tokens.accessToken
  const next = (await quiet.refresh(tokens.refreshToken)).body

  let count = 0
  const canaries: string[] = []
  /** A secret of its own for each place. */
  const canary = () => {
    count += 1
    const text = `c4n4ry${count}x`
    canaries.push(text)
    return text
  }
  const injection = () => `${canary()}\r\n{"forged":true}\n"}`
  const login = (fields: object, headers = {}) =>
    quiet.call('/auth/login', { json: { ...person, userId: undefined, ...fields }, headers })
  const read = (path: string, headers: Record<string, string> = {}) =>
    quiet.call(path, { method: 'GET', headers })
  const ingest = (headers: Record<string, string>) =>
    quiet.send(person.companyId, key, { type: 'a', data: { secret: canary() } }, { headers })
  const onboard = (path: string, json: object) => quiet.call(path, { json })
  const raw = (bytes: string) => exchange(own, bytes)

  const asked = await Promise.all([
    login({ password: canary() }),
    login({ password: injection() }),
    login({ email: `${canary()}@x.example` }),
    login({ email: injection() }),
    login({ companyId: canary() }),
    login({ [canary()]: canary() }),
    quiet.call('/auth/login', {
      body: `{"password":"${canary()}`,
      headers: { 'content-type': 'application/json' },
    }),
    quiet.call('/auth/login', { body: canary(), headers: { 'content-type': canary() } }),
    read('/auth/session', { authorization: `Bearer ${canary()}` }),
    read('/auth/session', { authorization: `Basic ${canary()}` }),
    read('/auth/session', { authorization: `Bearer ${token}.${canary()}` }),
    read('/auth/session', { cookie: `__Host-session=${canary()}` }),
    read('/auth/session', { cookie: `other=${canary()}; __Host-session=${cookie}` }),
    read('/auth/session', { authorization: `Bearer ${token}` }),
    quiet.refresh(canary()),
    quiet.refresh(next.refreshToken, { key: canary() }),
    quiet.refresh(tokens.refreshToken, { key: `${canary()} ` }),
    read(`/auth/session?token=${canary()}`, { authorization: `Bearer ${token}` }),
    read(`/openapi.json?${canary()}=1`),
    read(`/${canary()}`),
    read(`/%0d%0a${encodeURIComponent(injection())}`),
    read(`/%${canary()}`),
    read('/.well-known/jwks.json', {
      'user-agent': canary(),
      'x-forwarded-for': canary(),
      forwarded: `for=${canary()}`,
      'x-real-ip': canary(),
      'x-request-id': canary(),
      referer: `https://x.example/${canary()}`,
      origin: `https://${canary()}.example`,
      host: `${canary()}.example`,
      traceparent: canary(),
      [`x-${canary()}`]: canary(),
    }),
    quiet.call('/auth/logout', { cookie, headers: { origin: `https://${canary()}.example` } }),
    login({}, { 'x-session-mode': canary() }),
    ingest({}),
    ingest({ 'x-company-id': canary() }),
    ingest({ 'webhook-id': canary() }),
    ingest({ 'webhook-timestamp': canary() }),
    ingest({ 'webhook-signature': `v1,${canary()}` }),
    quiet.send(person.companyId, key, { type: canary(), data: {} }),
    quiet.send(person.companyId, key, { type: 'a', id: injection(), data: {} }),
    onboard('/auth/register', {
      companyName: canary(),
      name: canary(),
      email: `${canary()}@x.example`,
      password: canary(),
    }),
    onboard('/auth/register', {
      companyName: injection(),
      name: 'A',
      email: 'a@x.example',
      password: canary(),
    }),
    onboard('/auth/verify-email', { token: `verify_${canary()}` }),
    onboard(`/auth/verify-email?token=${canary()}`, { token: canary() }),
    onboard('/auth/verify-email/resend', { companyId: person.companyId, email: `${canary()}@x.example` }),
    onboard('/auth/password/forgot', { companyId: canary(), email: `${canary()}@x.example` }),
    onboard('/auth/password/reset', { token: `reset_${canary()}`, newPassword: canary() }),
    onboard('/auth/invitations/preview', { token: `invite_${canary()}` }),
    onboard('/auth/invitations/accept', { token: canary(), name: canary(), password: canary() }),
    quiet.call('/auth/password/change', {
      token,
      json: { currentPassword: canary(), newPassword: canary() },
    }),
    quiet.call(`/auth/sessions/${canary()}`, { method: 'DELETE', token }),
    raw(`${canary()}\r\n\r\n`),
    raw(`GET /${canary()} HTTP/1.1\r\nHost: x\r\n${canary()}\r\n\r\n`),
    raw(`GET / HTTP/1.1\r\nHost: ${canary()}\r\nHost: ${canary()}\r\n\r\n`),
    raw(`POST /api/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ${canary()}\r\n\r\n${canary()}`),
    raw(`GET /${canary()}${'x'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`),
  ])
  await quiet.call('/auth/webhook-secret/regenerate', { token: next.accessToken })
  await sql`alter view accounts rename to others`.execute(quiet.db)
  const last = await login({ password: canary() })
  expect(last.status).toBe(500)
  await linesAbout(last.headers['x-request-id'], quiet)

  // Each request has left its line, and all lines are whole.
  const lines = linesOf(quiet)
  expect(lines.length).toBeGreaterThan(asked.length)
  expect(lines.filter((line) => 'forged' in line)).toEqual([])
  const text = quiet.logs.join('')
  const secrets = {
    password: person.password,
    email: person.email,
    key,
    cookie,
    accessToken: token,
    refreshToken: tokens.refreshToken,
    nextAccessToken: next.accessToken,
    nextRefreshToken: next.refreshToken,
  }
  const leaked = [...canaries, ...Object.values(secrets)].filter((one) => text.includes(one))
  expect(leaked).toEqual([])
  // Nor any part of a token that could be used on.
  for (const one of [token, tokens.refreshToken]) expect(text).not.toContain(one.split('.')[2])
})
