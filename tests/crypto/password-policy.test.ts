import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { adjacencyGraphs, dictionary } from '@zxcvbn-ts/language-common'
import * as english from '@zxcvbn-ts/language-en'
import { describe, expect, onTestFinished, test } from 'vitest'
import { checkPassword } from '../../src/company/checks.ts'
import { createPasswordHasher, isTooLong } from '../../src/crypto/password.ts'
import { createIsBreached, MIN_GUESSES, passwordFault } from '../../src/crypto/password-policy.ts'
import { createStrongEnds } from '../../src/crypto/strong-ends.ts'
import { createCompany } from '../../src/operator/companies.ts'
import { expectField } from '../support/problem.ts'
import { openTestService, useSharedService } from '../support/test-service.ts'

const hasher = await createPasswordHasher()
const person = { email: 'someone@xn--rhre-5qa.de', companyName: 'Ämter & Söhne GmbH', name: 'Grace Hopper' }
const TOO_SHORT = 'must have at least 8 characters'
const TOO_LONG = 'must have at most 128 characters'
const IS_CONTEXT = 'must not be the email, the name, or the company name'
const WORD = 'a word from your email, your name, your company, or this service'

test.each([
  ['7', 'k9#Lq2!', TOO_SHORT],
  ['8, one of them two code points', 'k9#Lq2!e\u0301', null],
  ['129', 'z'.repeat(129), TOO_LONG],
  ['128 emoji', '🦊🐻🐼🐨🐯🦁🐮🐷'.repeat(16), null],
  ['129 of two code points each', 'e\u0301'.repeat(129), TOO_LONG],
  ['only small letters', 'qvtzkwpjmx', null],
  ['a different script', 'пароль-длинный', null],
])(
  'a password has 8 to 128 characters of any kind: %s (ASVS 6.2.1, 6.2.5, 6.2.9)',
  async (_, password, fault) => {
    expect(await passwordFault(password, person, { hasher })).toBe(fault)
    expect(isTooLong(password)).toBe(fault === TOO_LONG)
  },
)

test.each([
  ['iloveyou', 'a common password'],
  ['abcabcabcabcabcabc', 'repeated characters'],
  [`${'z'.repeat(127)}!`, 'little more than repeated characters'],
  ['abcdefghijklmn', 'a sequence such as abc'],
  ["sdfghjkl;'", 'neighboring keys'],
  ['1984-05-23', 'a date'],
  ['someone2026', `${WORD} and a year`],
  ['söhne1234', WORD],
  ['röhre2026!', WORD],
  ['gatehouse2026!', WORD],
  ['Hopper#1906#', 'your name'],
  ['Sommer2026!!', 'a common word and a year'],
  ['Bienvenue2026!!', 'a common word'],
  ['Verano2026!!', 'a year'],
  ['Benvenuto2026!', 'a name and a year'],
  ['Bem-vindo2026', 'a year'],
  ['Wachtwoord2026!', 'a common word'],
  ['Witamy2026!!', 'a year'],
])('the weak password %s is refused as %s (ASVS 2.2.3, 6.1.2, 6.2.4, 6.2.11)', async (password, what) => {
  const refusal = checkPassword('password', password, person, { hasher })
  const { message } = await refusal.then(
    () => new Error(''),
    (error: Error) => error,
  )
  expect(message).toMatch(/is too easy to guess because it is /)
  expect(message).toContain(what)
  expect(message.toLowerCase()).not.toContain(password.toLowerCase())
})

test('common passwords are refused (ASVS 6.2.4)', async () => {
  const all = dictionary['passwords-common'].filter((word) => word.length >= 8)
  // All passwords that are longer than one estimate reads, and a sample of the rest.
  const common = all.filter((word, index) => word.length > 24 || index % 400 === 0)
  expect(all.length).toBeGreaterThan(3000)
  expect(common.length).toBeGreaterThan(8)
  const easy: string[] = []
  for (const word of common) if ((await passwordFault(word, person, { hasher })) !== null) easy.push(word)
  expect(easy).toEqual(common)
})

const graphs = adjacencyGraphs
const hasStrongEnds = createStrongEnds({ dictionary: { ...dictionary, ...english.dictionary }, graphs })
const hints = ['vereinigte stahlwerke', 'qxkzvwjpydbmtnrlgh']

test('a long password is strong if its ends are (ASVS 15.2.2)', () => {
  for (const password of ['aV3-xkQ9_mZp7LtRw2Bn', 'marble tuesday orange lamp', '🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🦄🐙'])
    expect([password, hasStrongEnds(password, hints)]).toEqual([password, true])
})

// If patterns did not count, the beginnings of most of these would take 10^8 guesses.
test.each([
  'verwaltungsgemeinschaft',
  'tfahcsniemegsgnutlawrev',
  'v3rw4ltungsg3m3insch4ft',
  'entertainnnent5ervice',
  'charlie1991charlie1991',
  'Monday-Tuesday-Wednesday',
  'Vereinigte Stahlwerke1',
  'qxkzvwjpydbmtnrlgh2026',
  'hglrntmbdypjwvzkxq2026',
])('a long password of few patterns is weak: %s (ASVS 6.2.4)', async (password) => {
  expect(hasStrongEnds(password, hints)).toBe(false)
  expect((await hasher.estimate(password, hints)).guesses).toBeLessThan(MIN_GUESSES)
})

test.each([
  person.email,
  'someone@röhre.de',
  person.companyName,
  person.companyName.normalize('NFD'),
  person.name,
])('a password equal to an email address or name is refused: %s (ASVS 6.2.11)', async (password) => {
  expect(await passwordFault(password, person, { hasher })).toBe(IS_CONTEXT)
  expect(await passwordFault(`${password}!`, person, { hasher })).toContain(WORD)
})

test('a costly estimate does not block the event loop (ASVS 15.2.2)', async () => {
  let isEstimated = false
  const estimating = passwordFault('4@8({[<369!1|0$57+%2'.repeat(6), person, { hasher }).finally(() => {
    isEstimated = true
  })
  for (const _ of [1, 2, 3]) await turn()
  expect(isEstimated).toBe(false)
  await estimating
})

describe('with a breached-password service', () => {
  const PASSWORD = 'qvtzkwpjmx and more'
  const HASH = createHash('sha1').update(PASSWORD).digest('hex').toUpperCase()

  /** A range service on loopback. `asked` lists its requests. */
  async function openRangeService(answer: RequestListener) {
    const asked: IncomingMessage[] = []
    const server = createServer((request, response) => {
      asked.push(request)
      answer(request, response)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    const failures: string[] = []
    const { port } = server.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/range`
    const isBreached = createIsBreached(url, (cause) => failures.push(cause))
    const judge = (password: string) => passwordFault(password, person, { hasher, isBreached })
    return { asked, failures, url, judge }
  }

  test('breached passwords are refused, revealing five digits of their hash (ASVS 4.2.5, 6.2.12)', async () => {
    const lines = `${'0'.repeat(35)}:7\r\n${HASH.slice(5).toLowerCase()}:3\r\n`
    const { asked, failures, judge } = await openRangeService((_, response) => response.end(lines))
    expect(await judge(PASSWORD)).toMatch(/^is known from a breach/)
    expect(await judge('another one that nobody has')).toBeNull()
    expect(asked[0]).toMatchObject({ method: 'GET', url: `/range/${HASH.slice(0, 5)}` })
    expect(asked[0]?.headers).toMatchObject({ 'add-padding': 'true' })
    expect(JSON.stringify([asked[0]?.url, asked[0]?.rawHeaders])).not.toContain(HASH.slice(5, 12))
    expect(failures).toEqual([])
  })

  test('padding is ignored, and weak passwords are not looked up', async () => {
    const { asked, judge } = await openRangeService((_, response) => response.end(`${HASH.slice(5)}:0`))
    expect(await judge(PASSWORD)).toBeNull()
    expect(await judge('password1')).toContain('a common password')
    expect(asked.length).toBe(1)
  })

  const [location, endless] = ['http://127.0.0.1:9/', 'x'.repeat(1024 * 1024 + 1)]
  test.for<[string, RequestListener, string]>([
    ['returns 503', (_, response) => response.writeHead(503).end(`${HASH.slice(5)}:1`), 'UnexpectedAnswer'],
    ['redirects (ASVS 15.3.2)', (_, response) => response.writeHead(302, { location }).end(), 'TypeError'],
    ['never ends its response', (_, response) => void response.end(endless), 'UnexpectedAnswer'],
    ['stops in the middle', (_, response) => void response.write(`${HASH.slice(5)}`), 'TimeoutError'],
  ])('a range service that %s refuses no password (ASVS 16.5.2)', async ([, answer, cause]) => {
    const { asked, failures, judge } = await openRangeService(answer)
    expect(await judge(PASSWORD)).toBeNull()
    expect(asked.length).toBe(1)
    expect(failures).toEqual([cause])
  })

  test('registration and password change query the range service', async () => {
    let isSilent = false
    const { url } = await openRangeService((_, response) => {
      if (isSilent) response.writeHead(500)
      response.end(`${HASH.slice(5)}:1`)
    })
    const service = await openTestService({ env: { BREACHED_PASSWORDS_URL: url } })
    const admin = await service.addCompany()
    const { accessToken: token } = await service.loginAs(admin)
    const ada = { companyName: 'Acme', name: 'Ada', email: 'ada@acme.example' }
    const choose = (password: string) => {
      const json = { currentPassword: admin.password, newPassword: password }
      return [
        service.call('/auth/register', { json: { ...ada, password } }),
        service.call('/auth/password/change', { token, json }),
      ]
    }
    for (const answer of await Promise.all(choose(PASSWORD))) {
      expect(answer.status).toBe(400)
      expect(answer.body.errors[0].message).toMatch(/^is known from a breach/)
    }
    isSilent = true
    for (const { status } of await Promise.all(choose(PASSWORD))) expect(status).toBeLessThan(300)
    const said = service.logs.join('').match(/the breached password service did not respond/g)
    expect(said?.length).toBe(1)
  })
})

test('a new password cannot start with gsp_, an existing one still works', async () => {
  const FORM = 'gsp_ and a few words more'
  expect(await passwordFault(FORM, person, { hasher })).toContain('must not start with gsp_')
  expect(await passwordFault('Gsp_ and a few words more', person, { hasher })).toBeNull()
  const { service } = await useSharedService()
  const admin = await service.addCompany()
  const user = service.db.updateTable('users').where('user_id', '=', admin.userId)
  await user.set({ password_hash: await service.context.hasher.hash(FORM) }).execute()
  const { accessToken: token } = await service.loginAs({ ...admin, password: FORM })
  const json = { currentPassword: FORM, newPassword: `${FORM} again` }
  expectField(await service.call('/auth/password/change', { token, json }), '/newPassword')
})

test('a password does not expire (ASVS 6.2.10)', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()
  service.clock.advance(10 * 366 * 86_400)
  expect((await service.login(admin)).status).toBe(200)
})

test('operators cannot set a weak password for a company or user (ASVS 6.2.4, 6.2.11)', async () => {
  const { service } = await useSharedService()
  const company = { name: 'Sturdy Company', adminEmail: 'admin@sturdy.example' }
  const refusal = { code: 'invalid_request', extras: { errors: [{ path: '/password' }] } }
  for (const password of ['password1', 'ADMIN@sturdy.example', 'sturdy company'])
    await expect(createCompany(service.context, { ...company, password })).rejects.toMatchObject(refusal)
  const admin = await service.addCompany({ name: 'Sturdy Company' })
  const adding = service.addUser(admin, 'viewer', { password: 'sturdy company' })
  await expect(adding).rejects.toMatchObject(refusal)
  const users = service.db.selectFrom('users').select('email').where('company_id', '=', admin.companyId)
  expect(await users.execute()).toEqual([{ email: admin.email }])
})
