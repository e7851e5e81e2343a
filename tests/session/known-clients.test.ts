import { describe, expect, test } from 'vitest'
import { openMailbox } from '../support/mailbox.ts'
import {
  type Answer,
  createCountingHasher,
  openTestService,
  PASSWORD,
  type Person,
  times,
} from '../support/test-service.ts'

/** Networks and browsers that are known for a member, and what strangers cannot do to these. */

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

let hosts = 0
/** An address in a network of its own. */
const newAddress = () => {
  hosts += 1
  return `198.51.${Math.floor(hosts / 250)}.${(hosts % 250) + 1}`
}

const from = (address: string, cookie?: string) => ({
  headers: {
    'x-forwarded-for': address,
    ...(cookie !== undefined && { cookie, 'x-session-mode': 'cookie' }),
  },
})

const cookiesOf = ({ headers }: Answer) => [headers['set-cookie'] ?? []].flat()
const deviceOf = (answer: Answer) =>
  cookiesOf(answer).flatMap((cookie) => /^__Host-device=([^;]+)/.exec(cookie)?.[1] ?? [])[0]

/** Signs in as a browser does; returns the answer. */
const signInBy = (person: Omit<Person, 'userId'>, address: string, device?: string) =>
  service.login(person, from(address, device === undefined ? '' : `__Host-device=${device}`))

/** Sends wrong passwords from five networks, ten each. */
async function guess(person: Omit<Person, 'userId'>): Promise<Answer[]> {
  const networks = times(5, newAddress)
  const wrong = { ...person, password: 'not the password' }
  return await Promise.all(
    networks.flatMap((address) => times(10, (i) => service.login(wrong, { at: i % 2, ...from(address) }))),
  )
}

const knownOf = ({ userId }: Person) =>
  db.selectFrom('known_clients').selectAll().where('user_id', '=', userId).execute()

/** What a client can see of a refusal, without what differs from request to request. */
function visible({ status, headers, body }: Answer) {
  const { 'x-request-id': _id, date: _date, ...rest } = headers
  return { status, headers: rest, body: { ...body, requestId: 'requestId' } }
}

describe('guesses at one account from many networks (ASVS 6.3.1)', () => {
  test('after fifty guesses, unknown networks cannot sign in for 15 minutes (ASVS 6.3.1)', async () => {
    const person = await service.addUser(admin)
    const home = newAddress()
    await service.loginAs(person, from(home))
    const answers = await guess(person)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]))

    const [right, wrong] = [newAddress(), newAddress()]
    hasher.verified = 0
    const refused = await service.login(person, from(right))
    expect(visible(refused)).toEqual(
      visible(await service.login({ ...person, password: 'not the password' }, from(wrong))),
    )
    expect(refused.body.code).toBe('invalid_credentials')
    // The same work for both.
    expect(hasher.verified).toBe(2)
    expect((await service.login(person, { at: 1, ...from(home) })).status).toBe(200)

    clock.advance(15 * 60)
    expect((await service.login(person, from(right))).status).toBe(200)
  })

  test('guesses do not lock out a known browser', async () => {
    const person = await service.addUser(admin)
    const device = deviceOf(await signInBy(person, newAddress()))
    await guess(person)
    expect((await signInBy(person, newAddress(), device)).status).toBe(200)
    expect((await signInBy(person, newAddress(), 'x'.repeat(43))).status).toBe(401)
  })

  test('members get at most one email about guesses a day (ASVS 6.3.5)', async () => {
    const person = await service.addUser(admin)
    await guess(person)
    await guess(person)
    const { email, recipients } = await mailbox.mailTo(person.email)
    expect(recipients).toEqual([person.email])
    expect(email.subject).toContain('guessing your password')
    const count = async () =>
      (
        await db
          .selectFrom('mail_outbox')
          .select('kind')
          .where('recipient', '=', person.email)
          .where('kind', '=', 'password_guessing')
          .execute()
      ).length
    expect(await count()).toBe(1)
    clock.advance(15 * 60)
    await guess(person)
    expect(await count()).toBe(1)
    clock.advance(DAY)
    await guess(person)
    expect(await count()).toBe(2)
  })

  test('guesses at a missing account get the same responses (ASVS 6.3.8)', async () => {
    const [person, nobody] = [await service.addUser(admin), { ...admin, email: 'nobody@known.example' }]
    const seen = (answers: Answer[]) => answers.map((answer) => JSON.stringify(visible(answer))).toSorted()
    expect(seen(await guess(nobody))).toEqual(seen(await guess(person)))
    const [one, other] = [newAddress(), newAddress()]
    expect(visible(await service.login(nobody, from(one)))).toEqual(
      visible(await service.login(person, from(other))),
    )
    const mails = await db
      .selectFrom('mail_outbox')
      .select('kind')
      .where('recipient', '=', nobody.email)
      .execute()
    expect(mails).toEqual([])
  })

  test('a password reset makes its network known despite guesses', async () => {
    const person = await service.addUser(admin)
    const address = newAddress()
    await guess(person)
    const forgotten = await service.call('/auth/password/forgot', {
      json: { companyId: person.companyId, email: person.email },
      ...from(address),
    })
    expect(forgotten.status).toBe(202)
    // Before it or after it comes the mail on the guesses.
    let token = ''
    while (token === '') ({ token } = await mailbox.mailTo(person.email))
    const reset = await service.call('/auth/password/reset', {
      json: { token, newPassword: PASSWORD },
      ...from(address),
    })
    expect(reset.status).toBe(204)
    expect((await service.login(person, from(newAddress()))).status).toBe(401)
    expect((await service.login(person, from(address))).status).toBe(200)
  })
})

describe('the device cookie (ASVS 3.3.1–3.3.4)', () => {
  test('the device cookie is opaque, strict, and lasts 90 days', async () => {
    const person = await service.addUser(admin)
    const answer = await signInBy(person, newAddress())
    const [, cookie = ''] = cookiesOf(answer)
    const [pair, ...attributes] = cookie.split('; ')
    expect(pair).toMatch(/^__Host-device=[A-Za-z0-9_-]{43}$/)
    expect(attributes.toSorted()).toEqual([
      'HttpOnly',
      `Max-Age=${90 * DAY}`,
      'Path=/',
      'SameSite=Strict',
      'Secure',
    ])
    const token = await service.login(person, from(newAddress()))
    expect(token.headers['set-cookie']).toBeUndefined()
  })

  test('the device cookie is not a credential', async () => {
    const person = await service.addUser(admin)
    const device = deviceOf(await signInBy(person, newAddress())) ?? ''
    const answers = await Promise.all([
      service.getSession({ headers: { cookie: `__Host-device=${device}` } }),
      service.getSession({ cookie: device }),
      service.getSession({ token: device }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401])
  })

  test('sign-in replaces a device cookie unknown for the member', async () => {
    const [person, other] = [await service.addUser(admin), await service.addUser(admin)]
    const address = newAddress()
    const device = deviceOf(await signInBy(person, address))
    expect(deviceOf(await signInBy(person, newAddress(), device))).toBe(device)
    // Nobody can plant a value of their own in the browser of a member.
    const planted = deviceOf(await signInBy(other, address))
    expect(deviceOf(await signInBy(person, newAddress(), planted))).not.toBe(planted)
    clock.advance(91 * DAY)
    expect(deviceOf(await signInBy(person, address, device))).not.toBe(device)
  })

  test('a known device is limited apart from its network', async () => {
    const person = await service.addUser(admin)
    const office = newAddress()
    const device = deviceOf(await signInBy(person, office))
    const wrong = { ...person, password: 'not the password' }
    for (let count = 0; count < 10; count += 1) await service.login(wrong, from(office))
    expect((await service.login(person, from(office))).status).toBe(429)
    expect((await signInBy(person, office, device)).status).toBe(200)
    for (let count = 0; count < 10; count += 1) await signInBy(wrong, newAddress(), device)
    expect((await signInBy(person, newAddress(), device)).status).toBe(429)
  })
})

test('devices of one network share four times its sign-in limit (ASVS 2.4.1)', async () => {
  const people = await Promise.all(times(5, () => service.addUser(admin)))
  const devices = []
  for (const person of people) devices.push(deviceOf(await signInBy(person, newAddress())))
  const office = newAddress()
  const statuses: number[] = []
  for (let round = 0; round < 15; round += 1) {
    for (const [index, person] of people.entries())
      statuses.push((await signInBy(person, office, devices[index])).status)
  }
  expect(statuses.filter((status) => status === 200)).toHaveLength(60)
  expect(statuses.slice(60)).toEqual(times(15, () => 429))
})

describe('what is known of a member', () => {
  test('known clients are stored as digests for 90 days', async () => {
    const person = await service.addUser(admin)
    const address = newAddress()
    const device = deviceOf(await signInBy(person, address)) ?? ''
    const [first, second] = await knownOf(person)
    expect([first?.kind, second?.kind].toSorted()).toEqual(['device', 'network'])
    expect(JSON.stringify([first, second])).not.toContain(address)
    const text = [first, second].map((row) => row?.digest.toString('latin1')).join()
    expect(text).not.toContain(address)
    expect(text).not.toContain(device)
    const until = async () => (await knownOf(person)).map(({ known_until: time }) => time.getTime())
    expect(await until()).toEqual(times(2, () => clock.now() + 90 * DAY * 1000))
    const before = await until()
    clock.advance(DAY - 1)
    await signInBy(person, address, device)
    expect(await until()).toEqual(before)
    clock.advance(2)
    await signInBy(person, address, device)
    expect(await until()).toEqual(times(2, () => clock.now() + 90 * DAY * 1000))
  })

  test('a member has at most twenty known networks', async () => {
    const person = await service.addUser(admin)
    const addresses = times(22, newAddress)
    for (const address of addresses) {
      clock.advance(1)
      await service.loginAs(person, from(address))
    }
    const known = await knownOf(person)
    expect(known).toHaveLength(20)
    await guess(person)
    const statuses = []
    for (const address of addresses) statuses.push((await service.login(person, from(address))).status)
    expect(statuses).toEqual([401, 401, ...times(20, () => 200)])
  })

  test('refused sign-ins and other members make nothing known', async () => {
    const [person, other] = [await service.addUser(admin), await service.addUser(admin)]
    const address = newAddress()
    await service.login({ ...person, password: 'not the password' }, from(address))
    await service.loginAs(other, from(address))
    expect(await knownOf(person)).toEqual([])
    await guess(person)
    expect((await service.login({ ...person, password: PASSWORD }, from(address))).status).toBe(401)
  })
})
