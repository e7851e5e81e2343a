import { expect, test } from 'vitest'
import { newAddress } from '../limits/limited.ts'
import { openMailbox } from '../support/mailbox.ts'
import { COOKIE_MODE } from '../support/second-factors.ts'
import {
  type Answer,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'
import { visible } from './state.ts'

/** Strangers must not affect a member's known networks and browsers. */

const mailbox = await openMailbox()
const hasher = await createCountingHasher()
const service = await openTestService({
  instances: 2,
  hasher,
  env: {
    TRUST_PROXY: '127.0.0.1/32',
    RATE_LIMIT_SCALE: '1',
    LIMIT_SIGN_IN_ATTEMPTS: '15/60',
    SMTP_URL: mailbox.url,
  },
})
const admin = await service.addCompany()
const { db, clock } = service
const DAY = 86_400
const WRONG = { password: 'not the password' }

const from = (address: string, browser = {}) => ({ headers: { 'x-forwarded-for': address, ...browser } })

const cookiesOf = ({ headers }: Answer) => [headers['set-cookie'] ?? []].flat()
const deviceOf = (answer: Answer) =>
  cookiesOf(answer).flatMap((cookie) => /^__Host-device=([^;]+)/.exec(cookie)?.[1] ?? [])[0]

/** Signs in as a browser does. */
const signInBy = (person: Omit<Person, 'userId'>, address: string, device?: string) => {
  const cookie = device === undefined ? '' : `__Host-device=${device}`
  return service.login(person, from(address, { ...COOKIE_MODE, cookie }))
}

/** Sends ten wrong passwords from each of five networks. */
async function guess(person: Omit<Person, 'userId'>): Promise<Answer[]> {
  const networks = times(5, newAddress)
  const wrong = { ...person, ...WRONG }
  return await Promise.all(
    networks.flatMap((address) => times(10, (i) => service.login(wrong, { at: i % 2, ...from(address) }))),
  )
}

const knownOf = ({ userId }: Person) =>
  db.selectFrom('known_clients').selectAll().where('user_id', '=', userId).execute()

/** Warnings to an address about guesses at its password. */
const warningsTo = (email: string) => {
  const mails = db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email)
  return mails.where('kind', '=', 'password_guessing').execute()
}

test('after fifty guesses, unknown networks cannot sign in for 15 minutes (ASVS 6.3.1)', async () => {
  const [person, colleague] = [await service.addUser(admin), await service.addUser(admin)]
  const [home, visited] = [newAddress(), newAddress()]
  const [right, wrong] = [newAddress(), newAddress()]
  const device = deviceOf(await signInBy(person, home))
  // Neither a refusal nor a colleague makes a network known.
  await service.login({ ...person, ...WRONG }, from(visited))
  await service.loginAs(colleague, from(visited))
  expect(await knownOf(person)).toHaveLength(2)
  const answers = await guess(person)
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]))

  hasher.verified = 0
  const refused = await service.login(person, from(right))
  expect(visible(refused)).toEqual(visible(await service.login({ ...person, ...WRONG }, from(wrong))))
  expect(refused.body.code).toBe('invalid_credentials')
  // Both take the same work.
  expect(hasher.verified).toBe(2)
  expect((await service.login(person, from(visited))).status).toBe(401)
  expect((await service.login(person, { at: 1, ...from(home) })).status).toBe(200)
  expect((await signInBy(person, newAddress(), device)).status).toBe(200)
  expect((await signInBy(person, newAddress(), 'x'.repeat(43))).status).toBe(401)

  clock.advance(15 * 60)
  expect((await service.login(person, from(right))).status).toBe(200)
})

test('members get at most one email about guesses a day (ASVS 6.3.5)', async () => {
  const person = await service.addUser(admin)
  await guess(person)
  await guess(person)
  const { email, recipients } = await mailbox.mailTo(person.email)
  expect(recipients).toEqual([person.email])
  expect(email.subject).toContain('guessing your password')
  for (const [seconds, count] of [
    [15 * 60, 1],
    [DAY, 2],
  ] as const) {
    clock.advance(seconds)
    await guess(person)
    expect(await warningsTo(person.email)).toHaveLength(count)
  }
})

test('guesses at a missing account get the same responses (ASVS 6.3.8)', async () => {
  const [person, nobody] = [await service.addUser(admin), { ...admin, email: 'nobody@known.example' }]
  const seen = (answers: Answer[]) => answers.map((answer) => JSON.stringify(visible(answer))).toSorted()
  expect(seen(await guess(nobody))).toEqual(seen(await guess(person)))
  expect(visible(await service.login(nobody, from(newAddress())))).toEqual(
    visible(await service.login(person, from(newAddress()))),
  )
  expect(await warningsTo(nobody.email)).toEqual([])
})

test('a password reset makes its network known despite guesses', async () => {
  const person = await service.addUser(admin)
  const { companyId, email } = person
  const address = newAddress()
  await guess(person)
  await service.call('/auth/password/forgot', { json: { companyId, email }, ...from(address) })
  // The email about the guesses can arrive before or after this one.
  let token = ''
  while (token === '') ({ token } = await mailbox.mailTo(email))
  const json = { token, newPassword: PASSWORD }
  expect((await service.call('/auth/password/reset', { json, ...from(address) })).status).toBe(204)
  expect((await service.login(person, from(newAddress()))).status).toBe(401)
  expect((await service.login(person, from(address))).status).toBe(200)
})

test('the device cookie is strict, lasts 90 days, and authorizes nothing (ASVS 3.3.1, 3.3.2, 3.3.3, 3.3.4)', async () => {
  const person = await service.addUser(admin)
  const answer = await signInBy(person, newAddress())
  const [, cookie = ''] = cookiesOf(answer)
  const [pair = '', ...attributes] = cookie.split('; ')
  expect(pair).toMatch(/^__Host-device=[A-Za-z0-9_-]{43}$/)
  const age = `Max-Age=${90 * DAY}`
  expect(attributes.toSorted()).toEqual(['HttpOnly', age, 'Path=/', 'SameSite=Strict', 'Secure'])
  const device = deviceOf(answer) ?? ''
  for (const credential of [{ headers: { cookie: pair } }, { cookie: device }, { token: device }])
    expect((await service.getSession(credential)).status).toBe(401)
  const token = await service.login(person, from(newAddress()))
  expect(token.headers['set-cookie']).toBeUndefined()
})

test('sign-in replaces a device cookie that is unknown for the member', async () => {
  const [person, other] = [await service.addUser(admin), await service.addUser(admin)]
  const address = newAddress()
  const device = deviceOf(await signInBy(person, address))
  expect(deviceOf(await signInBy(person, newAddress(), device))).toBe(device)
  // Nobody can plant their own value in a member's browser.
  const planted = deviceOf(await signInBy(other, address))
  expect(deviceOf(await signInBy(person, newAddress(), planted))).not.toBe(planted)
  clock.advance(91 * DAY)
  expect(deviceOf(await signInBy(person, address, device))).not.toBe(device)
})

test('a known device has a separate limit from its network', async () => {
  const person = await service.addUser(admin)
  const office = newAddress()
  const device = deviceOf(await signInBy(person, office))
  const wrong = { ...person, ...WRONG }
  for (let count = 0; count < 10; count += 1) await service.login(wrong, from(office))
  expect((await service.login(person, from(office))).status).toBe(429)
  expect((await signInBy(person, office, device)).status).toBe(200)
  for (let count = 0; count < 10; count += 1) await signInBy(wrong, newAddress(), device)
  expect((await signInBy(person, newAddress(), device)).status).toBe(429)
})

test('devices of one network share four times its sign-in limit (ASVS 2.4.1)', async () => {
  const people = await Promise.all(times(5, () => service.addUser(admin)))
  const devices = []
  for (const person of people) devices.push(deviceOf(await signInBy(person, newAddress())))
  const office = newAddress()
  const statuses: number[] = []
  for (let round = 0; round < 15; round += 1)
    for (const [index, person] of people.entries())
      statuses.push((await signInBy(person, office, devices[index])).status)
  expect(statuses).toEqual([...times(60, () => 200), ...times(15, () => 429)])
})

test('known clients are stored as digests for 90 days', async () => {
  const person = await service.addUser(admin)
  const address = newAddress()
  const device = deviceOf(await signInBy(person, address)) ?? ''
  const known = await knownOf(person)
  expect(known.map(({ kind }) => kind).toSorted()).toEqual(['device', 'network'])
  const text = JSON.stringify(known) + known.map(({ digest }) => digest.toString('latin1')).join()
  for (const value of [address, device]) expect(text).not.toContain(value)
  const until = async () => (await knownOf(person)).map(({ known_until: time }) => time.getTime())
  const before = times(2, () => clock.now() + 90 * DAY * 1000)
  expect(await until()).toEqual(before)
  clock.advance(DAY - 1)
  await signInBy(person, address, device)
  expect(await until()).toEqual(before)
  clock.advance(2)
  await signInBy(person, address, device)
  expect(await until()).toEqual(times(2, () => clock.now() + 90 * DAY * 1000))
})

test('a member keeps the twenty latest known networks', async () => {
  const person = await service.addUser(admin)
  const used = []
  for (const address of times(22, newAddress)) {
    clock.advance(1)
    used.push(clock.now())
    await service.loginAs(person, from(address))
  }
  const known = (await knownOf(person)).map(({ known_until: until }) => until.getTime() - 90 * DAY * 1000)
  expect(known.toSorted()).toEqual(used.slice(2))
})
