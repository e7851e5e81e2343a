import { Secret, TOTP } from 'otpauth'
import { expect } from 'vitest'
import { type Authenticator, createAuthenticator } from './authenticator.ts'
import { decode, partsOf } from './forge.ts'
import { mailedCodeOf } from './mail-code.ts'
import { openMailbox } from './mailbox.ts'
import { expectProblem } from './problem.ts'
import {
  type Answer,
  NEW_PASSWORD,
  openTestService,
  PASSWORD,
  type Person,
  type TestService,
  useSharedService,
} from './test-service.ts'

export const COOKIE_MODE = { 'x-session-mode': 'cookie' }

export type Credential = { token?: string; cookie?: string }

/** An authenticator app's code at a time in milliseconds. */
export function codeAt(secret: string, now: number): string {
  return TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: now })
}

export const cookieFrom = ({ headers }: Pick<Answer, 'headers'>) =>
  /__Host-session=([^;]+)/.exec(String(headers['set-cookie']))?.[1] ?? ''

export const claimsOf = (token: string) => decode(partsOf(token)[1])

export const expectWrong = (answer: Answer) => expectProblem(answer, [401, 'invalid_second_factor'])

/** Throws unless the response is a success. */
export async function must(answering: Promise<Answer>) {
  const answer = await answering
  if (answer.status >= 300) throw new Error(`answered ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

export async function useFactorService() {
  const { service, mailbox } = await useSharedService()
  return { ...service, mailbox, ...actsOn(service) }
}

export async function openFactorService(options: Parameters<typeof openTestService>[0] = {}) {
  const mailbox = await openMailbox()
  const service = await openTestService({ ...options, env: { SMTP_URL: mailbox.url, ...options.env } })
  return { ...service, mailbox, ...actsOn(service) }
}

function actsOn(service: TestService) {
  const { call } = service

  /** The code that an authenticator app shows now, or some milliseconds later. */
  const totpOf = ({ secret }: { secret: string }, later = 0) => ({
    method: 'totp',
    code: codeAt(secret, service.clock.now() + later),
  })

  /** A member's wrong codes in a row. */
  async function wrongCodesOf({ userId }: { userId: string }): Promise<number> {
    const users = service.db.selectFrom('users').select('wrong_codes').where('user_id', '=', userId)
    return (await users.executeTakeFirstOrThrow()).wrong_codes
  }

  /** Only the first factor requires the emailed code. */
  async function mailCodeIfNeeded(credential: Credential): Promise<{ mailCode?: string }> {
    const { mailCodeRequired } = await must(call('/auth/second-factors', { method: 'GET', ...credential }))
    return mailCodeRequired ? { mailCode: await mailedCodeOf(service, credential, 'mailbox_code') } : {}
  }

  /** An authenticator app that is not confirmed yet. */
  async function beginTotp(credential: Credential, body?: object) {
    const json = body ?? (await mailCodeIfNeeded(credential))
    return await must(call('/auth/second-factors/totp', { ...credential, json }))
  }

  const confirmTotp = (credential: Credential, app: { id: string; secret: string }, at = 0) =>
    call(`/auth/second-factors/totp/${app.id}/confirm`, {
      ...credential,
      json: { code: totpOf(app).code },
      at,
    })

  /** Adds an authenticator app with a session's credential. Returns its secret and the first recovery codes. */
  async function addTotp(credential: Credential, body?: object) {
    const { id, secret } = await beginTotp(credential, body)
    const confirmed = await must(confirmTotp(credential, { id, secret }))
    // Each step has one code.
    service.clock.advance(30)
    return { id, secret, recoveryCodes: confirmed.recoveryCodes as string[] | undefined }
  }

  async function addPasskey(
    credential: Credential,
    authenticator = createAuthenticator(),
    body: { name?: string; mailCode?: string } = {},
  ) {
    const path = '/auth/second-factors/passkeys'
    const proof = body.mailCode === undefined ? await mailCodeIfNeeded(credential) : {}
    const { passkeyOptions } = await must(call(`${path}/options`, credential))
    const json = { response: authenticator.create(passkeyOptions), name: 'Laptop', ...proof, ...body }
    const { id, recoveryCodes } = await must(call(path, { ...credential, json }))
    return { id: id as string, recoveryCodes: recoveryCodes as string[] | undefined, authenticator }
  }

  async function signedIn(company: { companyId: string }, role = 'viewer') {
    const person = await service.addUser(company, role)
    const { accessToken, refreshToken } = await service.loginAs(person)
    return { ...person, token: accessToken as string, refreshToken: refreshToken as string }
  }

  /** A member who signs in with an authenticator app, and their session. */
  async function personWithTotp(company: { companyId: string }, role = 'viewer') {
    const person = await signedIn(company, role)
    return { ...person, ...(await addTotp({ token: person.token })) }
  }

  async function personWithPasskey(company: { companyId: string }, role = 'viewer') {
    const person = await signedIn(company, role)
    return { ...person, ...(await addPasskey({ token: person.token })) }
  }

  /** Sends the correct password. The response requires the second factor. */
  async function begin(person: Omit<Person, 'userId'>, options: Parameters<typeof service.login>[1] = {}) {
    const answer = await service.login(person, options)
    expect([answer.status, answer.body.code]).toEqual([401, 'second_factor_required'])
    return answer.body
  }

  const complete = (json: object, options: Parameters<typeof call>[1] = {}) =>
    call('/auth/login/second-factor', { json, ...options })

  async function signInByTotp(
    person: Omit<Person, 'userId'> & { secret: string },
    options: Parameters<typeof service.login>[1] = {},
  ) {
    const { challenge } = await begin(person, options)
    const answer = await complete({ challenge, ...totpOf(person) }, { at: options.at ?? 0 })
    service.clock.advance(30)
    return answer
  }

  /** Does the same in cookie mode, and returns the cookie's value. */
  const cookieByTotp = async (person: Parameters<typeof signInByTotp>[0]) =>
    cookieFrom(await signInByTotp(person, { headers: COOKIE_MODE }))

  /** Signs in without a password, with options from instance `from`. */
  async function signInByPasskey(
    { authenticator }: { authenticator: Authenticator },
    { from = 0, at = 0 } = {},
  ) {
    const { challenge, passkeyOptions } = await must(call('/auth/login/passkey/options', { at: from }))
    const response = authenticator.get(passkeyOptions)
    return await call('/auth/login/passkey', { json: { challenge, response }, at })
  }

  const changePassword = (token: string) => {
    const json = { currentPassword: PASSWORD, newPassword: NEW_PASSWORD }
    return must(call('/auth/password/change', { token, json }))
  }

  /** The session has ended for this reason, even on the second instance. */
  const expectEnded = async (credential: Credential, reason: string) =>
    expect(await service.getSession({ ...credential, at: 1 })).toMatchObject({
      status: 401,
      body: { code: 'session_ended', reason },
    })

  const removeFactor = (id: string, token: string, at = 0) =>
    call(`/auth/second-factors/${id}`, { method: 'DELETE', token, at })

  /** A service account, created with an admin's token. */
  async function addServiceAccount({ companyId }: { companyId: string }, token: string) {
    const json = { name: 'Billing', role: 'developer' }
    const account = await must(call('/auth/members', { token, json }))
    return { companyId, ...account } as { companyId: string; id: string; email: string; password: string }
  }

  return {
    cookieByTotp,
    changePassword,
    expectEnded,
    removeFactor,
    addServiceAccount,
    signInByPasskey,
    totpOf,
    wrongCodesOf,
    mailCodeIfNeeded,
    beginTotp,
    confirmTotp,
    signedIn,
    addTotp,
    addPasskey,
    personWithTotp,
    personWithPasskey,
    begin,
    complete,
    signInByTotp,
  }
}
