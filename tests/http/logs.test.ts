import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { createLog, toText } from '../../src/http/logs.ts'
import { type Line, linesAbout, linesOf } from '../support/log-lines.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { openMailbox } from '../support/mailbox.ts'
import { addClient, introspect } from '../support/platform.ts'
import { exchange } from '../support/raw.ts'
import { type Answer, NEW_PASSWORD, openTestService, useSharedService } from '../support/test-service.ts'
import { operations } from './document.ts'

const { service, mailbox } = await useSharedService()
const [address = ''] = service.addresses
const admin = await service.addCompany()
const viewer = await service.addUser(admin)
const secret = await service.newSecret(admin)
const { accessToken: token, refreshToken, session } = await service.loginAs(admin)
const viewerToken = (await service.loginAs(viewer)).accessToken
const { companyId, userId } = admin
const event = { type: 'a', data: {} }

/** Expects the owner and the outcome of a request in its log line. */
async function expectLine(asking: Promise<Answer>, expected: Line): Promise<void> {
  const [line = {}] = await linesAbout(service, await asking)
  const { companyId, userId, sessionId, memberId, isLive, code, reason } = line
  expect({ companyId, userId, sessionId, memberId, isLive, code, reason }).toEqual(expected)
}

const sessionId = expect.any(String)
const own = { companyId, userId, sessionId: session.id }
const failed = { code: 'invalid_credentials', reason: 'wrong_password', companyId, userId }
const denied = { code: 'permission_denied', companyId, userId: viewer.userId, sessionId }
const refused = { ...own, code: 'invalid_request' }
const unsigned = { code: 'invalid_signature' }
const [get, patch] = [{ method: 'GET' }, { method: 'PATCH' }]
const missing = { ...get, code: 'missing_credentials' }
const broken = { ...patch, code: 'invalid_request' }
const status = '/auth/webhook-secret/status'
const otherSecret = `whsec_${randomBytes(32).toString('base64')}`
const [login, read, logout, ingest] = ['/auth/login', '/auth/session', '/auth/logout', '/events/ingest']
const rows: [string, () => Promise<Answer>, route: string, status: number, others: Line][] = [
  ['a sign-in', () => service.login(admin), login, 200, { ...own, sessionId }],
  ['a refused sign-in', () => service.login({ ...admin, password: 'wrong' }), login, 401, failed],
  ['a read', () => service.getSession({ token }), read, 200, { ...get, ...own }],
  ['a missing credential', () => service.getSession({}), read, 401, missing],
  ['a denial', () => service.call(status, { token: viewerToken }), status, 403, denied],
  ['a refused body', () => service.call(logout, { token, json: { a: 1 } }), logout, 400, refused],
  ['a refresh', () => service.refresh(refreshToken), '/auth/refresh', 200, own],
  ['events', () => service.send(companyId, secret, event), ingest, 202, { companyId }],
  ['a wrong signature', () => service.send(companyId, otherSecret, event), ingest, 401, unsigned],
  ['an unknown path', () => service.call('/nothing'), 'none', 404, { code: 'not_found' }],
  ['a broken %-escape', () => service.call('/%', patch), 'none', 400, broken],
]
const inAll = ({ headers }: Pick<Answer, 'headers'>) => ({
  level: 30,
  time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  service: 'gatehouse',
  requestId: headers['x-request-id'],
  ipAddress: '127.0.0.1',
})

test.for(rows)(
  'the log has one line about %s (ASVS 16.2.1, 16.2.2, 16.2.4, 16.3.1, 16.3.2)',
  async ([, ask, path, status, others]) => {
    const answer = await ask()
    const route = path === 'none' ? path : `/api${path}`
    const line = { ...inAll(answer), method: 'POST', ms: expect.any(Number), route, status, ...others }
    expect(await linesAbout(service, answer)).toEqual([line])
  },
)

test('log lines become readable text, with the reasons of refusals and the causes of errors', async () => {
  const lines: string[] = []
  const log = createLog('info', { write: (line) => lines.push(line) })
  const answer = await service.login({ ...admin, password: 'wrong' })
  log.info(Object((await linesAbout(service, answer))[0]))
  log.info({ id: 7, mailId: 'a', to: 'a b' }, 'sent')
  log.error({ err: Object.assign(new Error('no'), { code: 'ETIMEDOUT' }) }, 'failed')
  const text = toText(lines.join('')).replaceAll(/^\d\d:\d\d:\d\d /gm, '')
  const [request, sent, failed, cause, frame] = text.split('\n')
  expect(request).toMatch(/^POST \/api\/auth\/login 401 \d+ ms invalid_credentials wrong_password$/)
  expect([sent, failed, cause]).toEqual(['sent id=7 to="a b"', 'ERROR failed', '  Error ETIMEDOUT no'])
  expect(frame).toMatch(/^ {4}at .*logs\.test\.ts/)
})

test('the log has one line about bytes that are not HTTP', async () => {
  const [answer] = await exchange(address, 'no HTTP\r\n\r\n')
  if (!answer) throw new Error('there is no answer')
  const line = { ...inAll(answer), status: 400, code: 'malformed_http' }
  expect(await linesAbout(service, answer)).toEqual([line])
})

test('the log names the user behind an ended session or expired token', async () => {
  const { companyId, userId, ...person } = await service.addCompany()
  const { accessToken, session } = await service.loginAs({ companyId, ...person })
  const cookie = await service.cookieOf({ companyId, userId, ...person })
  await service.call('/auth/logout?scope=all', { cookie })
  const ended = { companyId, userId, code: 'session_ended', reason: 'logout' }
  await expectLine(service.getSession({ cookie }), { ...ended, sessionId: expect.any(String) })
  await expectLine(service.getSession({ token: accessToken }), { ...ended, sessionId: session.id })
  service.clock.advance(3600)
  const expired = { companyId, userId, sessionId: session.id, code: 'token_expired' }
  await expectLine(service.getSession({ token: accessToken }), expired)
})

test('platform requests log their session, and whether it is active', async () => {
  const client = await addClient(service)
  const person = await service.addCompany()
  const { accessToken, refreshToken, session } = await service.loginAs(person)
  const ofToken = { companyId: person.companyId, userId: person.userId, sessionId: session.id }
  const cookie = await service.cookieOf(person)
  const ofCookie = { ...ofToken, sessionId: (await service.getSession({ cookie })).body.session.id }
  const headers = { 'x-original-method': 'GET' }
  const verify = (credential: object, query = '') =>
    service.ask(`/verify${query}`, { method: 'GET', headers, ...credential })
  const live = { isLive: true }
  await expectLine(verify({ token: accessToken }), { ...ofToken, ...live })
  await expectLine(verify({ cookie }), { ...ofCookie, ...live })
  const denied = { ...ofCookie, ...live, code: 'permission_denied' }
  await expectLine(verify({ cookie }, '?permission=a'), denied)
  await expectLine(introspect(service, client, accessToken), { ...ofToken, ...live })
  await expectLine(introspect(service, client, cookie), { ...ofCookie, ...live })

  const invalid = { isLive: false, code: 'invalid_token' }
  await expectLine(verify({ token: 'x' }), invalid)
  await expectLine(introspect(service, client, refreshToken), invalid)
  await service.call('/auth/logout?scope=all', { cookie })
  const ended = { isLive: false, code: 'session_ended', reason: 'logout' }
  await expectLine(verify({ token: accessToken }), { ...ofToken, ...ended })
  await expectLine(introspect(service, client, cookie), { ...ofCookie, ...ended })
  service.clock.advance(3600)
  const expired = { ...ofToken, isLive: false, code: 'token_expired' }
  await expectLine(verify({ token: accessToken }), expired)
  await expectLine(introspect(service, client, accessToken), expired)
})

test('the log names the member that a change affects', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const { userId, email } = await service.addUser(person)
  const { accessToken: token, session } = await service.loginAs(person)
  const member = `/auth/members/${userId.toUpperCase()}`
  const byAdmin = { companyId, userId: person.userId, sessionId: session.id, memberId: userId }
  const change = { method: 'PATCH', token, json: { role: 'analyst' } }
  await expectLine(service.call(member, change), byAdmin)
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  const reset = { token: (await mailbox.mailTo(email)).token, newPassword: NEW_PASSWORD }
  await expectLine(service.call('/auth/password/reset', { json: reset }), { companyId, userId })
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  const newEmail = `new-${email}`
  await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
  const json = { token: (await mailbox.mailTo(newEmail)).token }
  await expectLine(service.call('/auth/email/confirm', { json }), { companyId, userId: person.userId })
  await expectLine(service.call(member, { method: 'DELETE', token }), byAdmin)
})

test('no log line holds a secret or an injected line (ASVS 1.3.10, 14.2.1, 16.2.5, 16.4.1)', async () => {
  const { url } = await openMailbox()
  const quiet = await openTestService({ env: { SMTP_URL: url } })
  const [own = ''] = quiet.addresses
  const person = await quiet.addCompany()
  const key = await quiet.newSecret(person)
  const tokens = await quiet.loginAs(person)
  const cookie = await quiet.cookieOf(person)
  const token = tokens.accessToken
  const next = (await quiet.refresh(tokens.refreshToken)).body

  const canaries: string[] = []
  /** A different secret for each place. */
  const canary = () => {
    const text = `c4n4ry${canaries.length}x`
    canaries.push(text)
    return text
  }
  const injection = () => `${canary()}%s%d%o%j\r\n{"forged":true}\n"}`
  const login = (fields: object, headers = {}) =>
    quiet.call('/auth/login', { json: { ...person, userId: undefined, ...fields }, headers })
  const post = (body: string, type: string) =>
    quiet.call('/auth/login', { body, headers: { 'content-type': type } })
  const read = (path: string, headers: Record<string, string> = {}) =>
    quiet.call(path, { method: 'GET', headers })
  const ingest = (headers: Record<string, string>, fields = {}) =>
    quiet.send(person.companyId, key, { type: 'a', data: { secret: canary() }, ...fields }, { headers })
  const headers = 'user-agent x-forwarded-for forwarded x-real-ip x-request-id host traceparent'.split(' ')
  const raw = (bytes: string) => exchange(own, bytes)
  /** Sends an operation's example with a secret in each text, whose prefix and domain stay. */
  const sendSecrets = ({ method, path, operation }: (typeof operations)[number]) => {
    const example = operation.requestBody?.content['application/json']?.example
    const json = JSON.parse(JSON.stringify(example), (_, value) => {
      if (typeof value !== 'string') return value
      const [, prefix = '', domain = ''] = /^([a-z]+_)?[^@]*(@.*)?$/.exec(value) ?? []
      return prefix + canary() + domain
    })
    return quiet.call(path.replace(/\{\w+\}/g, canary), { method, token, json })
  }
  const writing = operations.filter(({ operation }) => operation.requestBody?.required)
  expect(writing.length).toBeGreaterThan(20)

  const asked = await Promise.all([
    ...writing.map(sendSecrets),
    login({ password: injection() }),
    login({ email: injection() }),
    login({ [canary()]: canary() }),
    login({}, { 'x-session-mode': canary() }),
    post(`{"password":"${canary()}`, 'application/json'),
    post(canary(), canary()),
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
      ...Object.fromEntries(headers.map((name) => [name, canary()])),
      referer: `https://x.example/${canary()}`,
      origin: `https://${canary()}.example`,
      [`x-${canary()}`]: canary(),
    }),
    quiet.call('/auth/logout', { cookie, headers: { origin: `https://${canary()}.example` } }),
    quiet.call(`/auth/sessions/${canary()}`, { method: 'DELETE', token }),
    ...['x-company-id', 'webhook-id', 'webhook-timestamp'].map((name) => ingest({ [name]: canary() })),
    ingest({ 'webhook-signature': `v1,${canary()}` }),
    ingest({}),
    ingest({}, { type: canary() }),
    ingest({}, { id: injection() }),
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
  await linesAbout(quiet, last)

  // Each request has left a line, and all lines are whole.
  const lines = linesOf(quiet)
  expect(lines.length).toBeGreaterThan(asked.length)
  expect(lines.filter((line) => 'forged' in line)).toEqual([])
  const text = quiet.logs.join('')
  const bearer = [token, tokens.refreshToken, next.accessToken, next.refreshToken]
  // Not even a usable part of a token.
  const signatures = bearer.map((one) => String(one.split('.')[2]))
  const secrets = [person.password, person.email, key, cookie, ...bearer, ...signatures]
  expect([...canaries, ...secrets].filter((one) => text.includes(one))).toEqual([])
})
