import { expect, test } from 'vitest'
import { createAuthenticator } from '../support/authenticator.ts'
import { COOKIE_MODE, codeAt, must, openFactorService } from '../support/second-factors.ts'

/** Instances of three deployments on one database. Only the names of their cells differ. */
const [NONE, EU1, EU2] = [0, 1, 2]
const service = await openFactorService({ instances: 3, envs: [{}, { CELL: 'eu1' }, { CELL: 'eu2' }] })
const admin = await service.addCompany()
const { call } = service
/** Sends a request to each instance. */
const statuses = async (ask: (at: number) => Promise<{ status: number }>) =>
  [await ask(NONE), await ask(EU1), await ask(EU2)].map(({ status }) => status)

test('cookies name their cell and work only there', async () => {
  const answer = await service.login(admin, { headers: COOKIE_MODE, at: EU1 })
  const cookies = [answer.headers['set-cookie'] ?? ''].flat().map((cookie) => cookie.split(';')[0])
  expect(cookies).toEqual([
    expect.stringMatching(/^__Host-session=eu1\.[\w-]{43}$/),
    expect.stringMatching(/^__Host-device=eu1\.[\w-]{43}$/),
  ])
  const cookie = await service.cookieOf(admin, { at: EU1 })
  expect(await statuses((at) => service.getSession({ cookie, at }))).toEqual([401, 200, 401])
  const forged = cookie.slice('eu1.'.length)
  expect(await statuses((at) => service.getSession({ cookie: forged, at }))).toEqual([401, 401, 401])
  const older = await service.cookieOf(admin, { at: NONE })
  expect(await statuses((at) => service.getSession({ cookie: older, at }))).toEqual([200, 200, 200])
})

test('challenges name their cell and work only there', async () => {
  const person = await service.personWithTotp(admin)
  const begun = async () => (await service.begin(person, { at: EU1 })).challenge
  const code = () => codeAt(person.secret, service.clock.now())
  expect(await begun()).toMatch(/^eu1\.[\w-]{43}$/)
  const given = { challenge: await begun(), method: 'totp', code: code() }
  const answered = await statuses((at) => service.complete(given, { at }))
  expect(answered).toEqual([401, 200, 401])

  const { accessToken: token } = await service.loginAs(await service.addUser(admin), { at: EU1 })
  const path = '/auth/second-factors/passkeys'
  const passkey = createAuthenticator()
  const { passkeyOptions } = await must(call(`${path}/options`, { token, at: EU1 }))
  const handle = Buffer.from(passkeyOptions.user.id, 'base64url')
  expect([handle.length, handle.toString('latin1').slice(0, 4)]).toEqual([64, 'eu1.'])
  const added = { response: passkey.create(passkeyOptions), name: 'Laptop' }
  const proof = await service.mailCodeIfNeeded({ token })
  await must(call(path, { token, json: { ...added, ...proof }, at: EU1 }))

  const asked = await must(call('/auth/login/passkey/options', { at: EU1 }))
  expect(asked.challenge).toMatch(/^eu1\./)
  expect(asked.passkeyOptions.challenge).toBe(asked.challenge.slice('eu1.'.length))
  const json = { challenge: asked.challenge, response: passkey.get(asked.passkeyOptions) }
  expect(await statuses((at) => call('/auth/login/passkey', { json, at }))).toEqual([401, 200, 401])
})

test('service passwords name their cell and work only there', async () => {
  const { accessToken: token } = await service.loginAs(admin, { at: EU1 })
  const json = { name: 'Worker', role: 'viewer' }
  const { email, password } = await must(call('/auth/members', { token, json, at: EU1 }))
  expect(password).toMatch(/^gsp_eu1\.[\w-]{43}$/)
  const signIn = (tag: string) => (at: number) =>
    service.login({ ...admin, email, password: password.replace('eu1.', tag) }, { at })
  expect(await statuses(signIn('eu1.'))).toEqual([401, 200, 401])
  for (const tag of ['eu2.', '']) expect(await statuses(signIn(tag))).toEqual([401, 401, 401])
})
