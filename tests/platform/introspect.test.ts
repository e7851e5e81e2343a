import { createHash } from 'node:crypto'
import { describe, expect, inject, test } from 'vitest'
import { changeSubscription, companySecurity } from '../../src/operator/companies.ts'
import { changeUserRole } from '../../src/operator/users.ts'
import { expectField, expectProblem } from '../http/problem.ts'
import { addClient, basic, FORM, introspect } from '../support/platform.ts'
import { cutOff } from '../support/postgres.ts'
import { openTestService, useSharedService } from '../support/test-service.ts'
import { decode, forge, openForge, partsOf } from '../token/forge.ts'

/** Introspection (RFC 7662) of access tokens and session cookies. */

const { service } = await useSharedService()
const client = await addClient(service)
const admin = await service.addCompany()
const seconds = () => Math.floor(service.clock.now() / 1000)
const INACTIVE = { status: 200, body: { active: false } }

const ask = async (token: string, at = 0) => {
  const { status, body, headers } = await introspect(service, client, token, at)
  expect(headers['cache-control']).toBe('no-store')
  return { status, body }
}

/** Sends a body as it is. */
const post = (body: string | Buffer, headers: Record<string, string> = FORM) =>
  service.ask('/introspect', { headers: { ...headers, authorization: basic(client) }, body })

describe('a live session', () => {
  test('is told with what it may do, by its access token', async () => {
    const member = await service.addUser(admin, 'developer')
    const { accessToken, session } = await service.loginAs(member)
    const { iat, exp, iss } = decode(partsOf(accessToken)[1])
    const expected = {
      active: true,
      token_type: 'Bearer',
      iss,
      aud: 'gatehouse',
      sub: member.userId,
      exp,
      iat,
      auth_time: seconds(),
      amr: ['pwd'],
      sid: session.id,
      company_id: admin.companyId,
      role: 'developer',
      scope: 'risk:read risk:assess analytics:read',
      subscription_status: 'trialing',
      plan: 'growth',
      plan_features: ['risk_assessment', 'event_ingest', 'reviews', 'analytics'],
    }
    for (const at of [0, 1]) expect(await ask(accessToken, at)).toEqual({ status: 200, body: expected })
  })

  test('is told alike by its cookie, whose end is the earlier of two', async () => {
    const opened = seconds()
    const { cookieIdleSeconds: idle, cookieMaxAgeSeconds: longest } = service.config
    const cookie = await service.cookieOf(admin)
    const { body } = await ask(cookie)
    expect(body).toMatchObject({
      active: true,
      token_type: 'session_cookie',
      iss: `${service.config.publicUrl}/api`,
      aud: 'gatehouse',
      sub: admin.userId,
      auth_time: opened,
      amr: ['pwd'],
      iat: opened,
      exp: opened + idle,
    })
    while (seconds() + idle < opened + longest) {
      service.clock.advance(idle - 1)
      expect((await service.getSession({ cookie })).status).toBe(200)
    }
    expect((await ask(cookie, 1)).body).toMatchObject({ iat: opened, exp: opened + longest })
  })

  test('is not renewed by it (ASVS 7.3.1)', async () => {
    const cookie = await service.cookieOf(admin)
    const row = async () =>
      await service.db
        .selectFrom('sessions')
        .selectAll()
        .where('cookie_hash', '=', createHash('sha256').update(cookie).digest())
        .executeTakeFirstOrThrow()
    const before = await row()
    service.clock.advance(3600)
    expect((await ask(cookie)).body.exp).toBe(Math.floor(before.expires_at.getTime() / 1000))
    expect(await row()).toEqual(before)
    service.clock.advance(service.config.cookieIdleSeconds - 3600)
    expect(await ask(cookie)).toEqual(INACTIVE)
  })

  test('has the rights of that moment, not of the token (ASVS 8.3.2)', async () => {
    const person = await service.addCompany({ plan: 'starter' })
    const member = await service.addUser(person, 'viewer')
    const { accessToken } = await service.loginAs(member)
    await changeUserRole(service.context, person.companyId, member, 'developer', service.clock.now())
    await changeSubscription(service.context, person.companyId, { status: 'past_due', plan: 'enterprise' })
    expect((await ask(accessToken, 1)).body).toMatchObject({
      role: 'developer',
      scope: 'risk:read risk:assess analytics:read',
      subscription_status: 'past_due',
      plan: 'enterprise',
      plan_features: expect.arrayContaining(['graph']),
    })
  })

  test('says when its person last proved who they are: of token and session the older', async () => {
    const forgery = await openForge(service, admin)
    const proven = forgery.access.claims['auth_time'] as number
    const told = async (claims: object) =>
      (await ask(forge(forgery.access, { payload: { ...forgery.access.claims, ...claims } }))).body
    expect((await told({ auth_time: proven - 100 })).auth_time).toBe(proven - 100)
    expect((await told({ auth_time: proven + 100 })).auth_time).toBe(proven)
    // Tokens and sessions of before can be without.
    expect(await told({ auth_time: undefined })).not.toHaveProperty('auth_time')
    await service.db
      .updateTable('sessions')
      .set({ auth_time: null, amr: null })
      .where('session_id', '=', forgery.sessionId)
      .execute()
    const { body } = await ask(forgery.accessToken)
    expect([body.active, 'auth_time' in body, 'amr' in body]).toEqual([true, false, false])
  })
})

test('the statement that confirms a session is that of sessions, for whoever asks', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  const lookUps = async () => {
    const text = (await service.registries[0]?.metrics()) ?? ''
    return Number(/^gatehouse_batch_size_sum\{batch="sessions"\} (\d+)$/m.exec(text)?.[1])
  }
  await service.getSession({ token })
  const before = await lookUps()
  await ask(token)
  await service.ask('/verify', { method: 'GET', token })
  await service.getSession({ token })
  expect(await lookUps()).toBe(before + 3)
})

describe('inactive, and nothing else, is', () => {
  test('what is no credential of a session (HARDENING: no 401, no 5xx)', async () => {
    const { accessToken, refreshToken } = await service.loginAs(admin)
    const [header, payload, signature] = partsOf(accessToken)
    for (const token of [
      '',
      '.',
      '..',
      '...',
      'a.b',
      refreshToken,
      `${accessToken}.`,
      `${header}.${payload}.`,
      `${header}.${payload}.${signature}A`,
      ` ${accessToken}`,
      `${accessToken} `,
      `Bearer ${accessToken}`,
      `__Host-session=${await service.cookieOf(admin)}`,
      'A'.repeat(43),
      'A'.repeat(42),
      'A'.repeat(60_000),
      `${header}.${'A'.repeat(60_000)}.${signature}`,
      '.'.repeat(60_000),
      'é\u0000\ud800',
      "' or '1'='1",
      client.secret,
    ]) {
      expect([token, await ask(token)]).toEqual([token, INACTIVE])
    }
  })

  test('what is encoded in no way that a form is', async () => {
    for (const body of [
      'token=%',
      'token=%zz',
      'token=%ff',
      Buffer.from([0x74, 0x6f, 0x6b, 0x65, 0x6e, 0x3d, 0xff]),
    ]) {
      expect(await post(body)).toMatchObject(INACTIVE)
    }
  })

  test('a token that has expired', async () => {
    const { accessToken } = await service.loginAs(admin)
    service.clock.advance(900)
    expect(await ask(accessToken)).toEqual(INACTIVE)
  })

  test('a session that the policy on second factors holds (ASVS 6.3.3)', async () => {
    const person = await service.addCompany()
    const [token, cookie] = [(await service.loginAs(person)).accessToken, await service.cookieOf(person)]
    const active = async () => [(await ask(token)).body.active, (await ask(cookie, 1)).body.active]
    expect(await active()).toEqual([true, true])
    await companySecurity(service.context, person.companyId, 'admins', service.clock.now())
    expect([await ask(token), await ask(cookie, 1)]).toEqual([INACTIVE, INACTIVE])
    await companySecurity(service.context, person.companyId, 'optional', service.clock.now())
    expect(await active()).toEqual([true, true])
  })
})

test('an error has the code of RFC 6749 beside ours', async () => {
  const away = await openTestService()
  const asking = await addClient(away)
  const reader = await addClient(away, ['events:read'])
  const post = async (authorization: string, body = 'token=x', headers: object = FORM) => {
    const answer = await away.ask('/introspect', { headers: { ...headers, authorization }, body })
    return [answer.status, answer.body.code, answer.body.error]
  }
  expect(await post('Basic x')).toEqual([401, 'invalid_client', 'invalid_client'])
  expect(await post(basic(reader))).toEqual([403, 'permission_denied', 'unauthorized_client'])
  expect(await post(basic(asking), '')).toEqual([400, 'invalid_request', 'invalid_request'])
  expect(await post(basic(asking), 'token=x', {})).toEqual([415, 'unsupported_media_type', 'invalid_request'])
  await cutOff(inject('serverUrl'), new URL(away.url).pathname.slice(1))
  const token = 'A'.repeat(43)
  expect(await post(basic(asking), `token=${token}`)).toEqual([503, 'unavailable', 'temporarily_unavailable'])
})

describe('the request', () => {
  test('is a form with one token, whose other parameters are ignored', async () => {
    const { accessToken: token } = await service.loginAs(admin)
    const form = new URLSearchParams({ token_type_hint: 'refresh_token', token, x: '1' })
    form.append('x', '2')
    const answer = await post(String(form))
    expect([answer.status, answer.body.sub]).toEqual([200, admin.userId])
    const encoded = [...token].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join('')
    const charset = { 'content-type': 'Application/X-WWW-Form-URLEncoded; charset="UTF-8"' }
    expect((await post(`tok%65n=${encoded}`, charset)).body.sub).toBe(admin.userId)
    expectField(await post('Token=x'), '/token')
    expectField(await post('token=x&token=x'), '/token')
    expectField(await post('token=x&tok%65n='), '/token')
    for (const headers of [FORM, {}]) expectProblem(await post('', headers), [400, 'invalid_request'])
  })

  test.for([
    ['JSON', 'application/json', '{"token":"x"}'],
    ['text', 'text/plain', 'token=x'],
    ['several parts', 'multipart/form-data; boundary=x', '--x--'],
    ['another charset', 'application/x-www-form-urlencoded; charset=utf-16', 'token=x'],
    ['no type', '', 'token=x'],
  ])('is answered 415 as %s', async ([, type = '', body = '']) => {
    const answer = await post(body, type ? { 'content-type': type } : {})
    expectProblem(answer, [415, 'unsupported_media_type'])
    expect(answer.body.detail).toContain('x-www-form-urlencoded')
  })

  test('is answered 415 if it is compressed, 413 beyond 64 KiB, 400 for a query, 405 for another method', async () => {
    const gzip = { ...FORM, 'content-encoding': 'gzip' }
    expectProblem(await post('token=x', gzip), [415, 'unsupported_media_type'])
    expectProblem(await post(`token=${'A'.repeat(64 * 1024)}`), [413, 'payload_too_large'])
    const authorization = basic(client)
    const headers = { ...FORM, authorization }
    expectProblem(await service.ask('/introspect?token=x', { headers, body: 'token=x' }), [
      400,
      'invalid_request',
    ])
    expectProblem(await service.ask('/introspect?%ff', { headers, body: 'token=x' }), [
      400,
      'invalid_request',
    ])
    const answer = await service.ask('/introspect', { method: 'GET', headers: { authorization } })
    expectProblem(answer, [405, 'method_not_allowed'])
    expect(answer.headers['allow']).toBe('POST')
  })

  test('is answered 503 while the database is away, and never inactive', async () => {
    const away = await openTestService()
    const asking = await addClient(away)
    const person = await away.addCompany()
    const [token, cookie] = [(await away.loginAs(person)).accessToken, await away.cookieOf(person)]
    expect((await introspect(away, asking, token)).body.active).toBe(true)
    await cutOff(inject('serverUrl'), new URL(away.url).pathname.slice(1))
    // At first by the statement that asks about the session, later also by that about the client.
    for (const credential of [token, cookie]) {
      expectProblem(await introspect(away, asking, credential), [503, 'unavailable'])
    }
    away.clock.advance(1)
    expectProblem(await introspect(away, asking, token), [503, 'unavailable'])
  })
})
