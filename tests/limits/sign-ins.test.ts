import { expect, test } from 'vitest'
import { nobodysId } from '../../src/company/handles.ts'
import { createCountingHasher, openTestService, type Person, times } from '../support/test-service.ts'
import { countStatuses, expectLimited, from, newAddress, remaining } from './limited.ts'

const hasher = await createCountingHasher()
const service = await openTestService({
  instances: 2,
  hasher,
  env: { TRUST_PROXY: '127.0.0.1/32', RATE_LIMIT_SCALE: '1' },
})
const admin = await service.addCompany()
const guess = (person: Omit<Person, 'userId'>, address: string, at = 0) =>
  service.login({ ...person, password: 'not the password' }, { at, headers: from(address) })
const signIn = (person: Omit<Person, 'userId'>, address: string, at = 0) =>
  service.login(person, { at, headers: from(address) })
async function refusedFrom(address: string) {
  const refused = service.db.selectFrom('refused_sign_ins').select('count')
  return (await refused.where('network', '=', address).execute()).map(({ count }) => count)
}

test('ten guesses per account and network are counted before hashing (ASVS 6.3.1)', async () => {
  for (const person of [await service.addUser(admin), { ...admin, email: 'no@body.example' }]) {
    const address = newAddress()
    hasher.verified = 0
    const answers = await Promise.all(times(25, (n) => guess(person, address, n % 2)))
    expect(countStatuses(answers)).toEqual({ 401: 10, 429: 15 })
    expect(hasher.verified).toBe(10)
    for (const answer of answers.filter(({ status }) => status === 429))
      expectLimited(answer, 'sign-in-failures', 10, 900)
    expect(await refusedFrom(address)).toEqual([10])
  }
})

test('after ten guesses, only other networks can sign in for 15 minutes (ASVS 6.3.1)', async () => {
  const person = await service.addUser(admin)
  const [address, elsewhere] = [newAddress(), newAddress()]
  const answers = []
  for (const n of times(10, (n) => n)) answers.push(await guess(person, address, n % 2))
  expect(answers.map(remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
  expectLimited(await signIn(person, address), 'sign-in-failures', 10, 900)
  expect((await signIn(person, elsewhere)).status).toBe(200)
  expect((await signIn(await service.addUser(admin), address)).status).toBe(200)
  service.clock.advance(899)
  expectLimited(await signIn(person, address, 1), 'sign-in-failures', 10, 900)
  service.clock.advance(1)
  expect((await signIn(person, address, 1)).status).toBe(200)
})

test('all spellings of company and email share one count of guesses', async () => {
  const person = await service.addUser(admin)
  const address = newAddress()
  const spellings = [
    person,
    { ...person, companyId: person.companyId.toUpperCase() },
    { ...person, email: person.email.toUpperCase() },
  ]
  const answers = await Promise.all(times(15, (n) => guess(spellings[n % 3] ?? person, address, n % 2)))
  expect(countStatuses(answers)).toEqual({ 401: 10, 429: 5 })
})

test('limits do not reveal whether a company has a handle', async () => {
  const [handle, email, address] = ['nobody-has-this', 'no@body.example', newAddress()]
  const byHandle = { company: handle, email, password: 'not the password' }
  const answers = []
  for (const json of [byHandle, { ...byHandle, company: undefined, companyId: nobodysId(handle) }])
    answers.push(await service.call('/auth/login', { json, headers: from(address) }))
  expect(answers.map(({ status }) => status)).toEqual([401, 401])
  expect(answers.map(remaining)).toEqual([9, 9])
})

test('the correct password of an unverified email does not count as failure', async () => {
  const person = await service.addUser(admin)
  const user = service.db.updateTable('users').where('user_id', '=', person.userId)
  await user.set({ email_verified_at: null }).execute()
  const address = newAddress()
  const answers = []
  for (const _ of times(12, () => 0)) answers.push(await signIn(person, address))
  expect(countStatuses(answers)).toEqual({ 403: 12 })
})

const spray = (addressOf: (index: number) => string) =>
  Promise.all(
    times(36, (n) => {
      const email = `user${n}-${addressOf(n).replace(/\W/g, '')}@spray.example`
      return signIn({ ...admin, email }, addressOf(n), n % 2)
    }),
  )

test('each network has 30 sign-in attempts a minute, across accounts and instances (ASVS 6.3.1)', async () => {
  const address = newAddress()
  const answers = await spray(() => address)
  expect(countStatuses(answers)).toEqual({ 401: 30, 429: 6 })
  for (const limited of answers.filter(({ status }) => status === 429))
    expectLimited(limited, 'sign-in-attempts', 30, 60)
  expect((await signIn(admin, address)).status).toBe(429)
  expect((await signIn(admin, newAddress())).status).toBe(200)
  service.clock.advance(60)
  // Successful ones count too.
  for (const left of [29, 28]) {
    const answer = await signIn(admin, address, left % 2)
    expect([answer.status, remaining(answer)]).toEqual([200, left])
  }
})

const mapped = ['::ffff:203.0.113.77', '::ffff:cb00:714d', '0:0:0:0:0:FFFF:203.0.113.77']
const spellings = ['203.0.113.77', ...mapped]
test.for<[what: string, addressOf: (index: number) => string, network: string]>([
  ['addresses of an IPv6 /64', (n) => `2001:db8:1:2:${n}::${n + 1}`, '2001:db8:1:2::'],
  ['spellings of an IPv4 address', (n) => spellings[n % 4] ?? '', '203.0.113.77'],
  // The proxy appends the address that it saw to the client's made-up one (ASVS 4.1.3).
  ['made-up X-Forwarded-For addresses', (n) => `192.0.2.${n}, 203.0.113.78`, '203.0.113.78'],
])('%s share one count of sign-in attempts (ASVS 4.1.3, 6.3.1)', async ([, addressOf, network]) => {
  expect(countStatuses(await spray(addressOf))).toEqual({ 401: 30, 429: 6 })
  expect(await refusedFrom(network)).toEqual([30])
})
