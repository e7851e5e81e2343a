import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { adjacencyGraphs, dictionary } from '@zxcvbn-ts/language-common'
import * as english from '@zxcvbn-ts/language-en'
import { describe, expect, onTestFinished, test } from 'vitest'
import { checkPassword } from '../../src/company/checks.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { createIsBreached, isTooLong, MIN_GUESSES, passwordFault } from '../../src/crypto/password-policy.ts'
import { createStrongEnds } from '../../src/crypto/strong-ends.ts'
import { createCompany } from '../../src/operator/companies.ts'
import { openTestService } from '../support/test-service.ts'

const hasher = await createPasswordHasher()
const person = { email: 'someone@company.example', companyName: 'Ämter & Söhne GmbH', name: 'Grace Hopper' }
/** 128 characters that are hard to guess. */
const LONG = createHash('sha512').update('long').digest('hex')

const TOO_SHORT = 'must have at least 8 characters'
const TOO_LONG = 'must have at most 128 characters'
const IS_CONTEXT = 'must not be the e-mail address, the name or the company name'

describe('a password to be chosen', () => {
  test.each([
    ['none', '', TOO_SHORT],
    ['7', 'k9#Lq2!', TOO_SHORT],
    ['8', 'k9#Lq2!v', null],
    ['7 emoji', '🦊'.repeat(7), TOO_SHORT],
    ['8 emoji', '🦊🐻🐼🐨🐯🦁🐮🐷', null],
    ['7, one of them two code points', 'k9#Lq2e\u0301', TOO_SHORT],
    ['8, one of them two code points', 'k9#Lq2!e\u0301', null],
    ['128', LONG, null],
    ['129', 'z'.repeat(129), TOO_LONG],
    ['128 emoji', '🦊🐻🐼🐨🐯🦁🐮🐷'.repeat(16), null],
    ['129 emoji', '🦊'.repeat(129), TOO_LONG],
    ['128, one of them two code points', `${LONG.slice(1)}e\u0301`, null],
    ['129 of two code points each', 'e\u0301'.repeat(129), TOO_LONG],
  ])('has 8 to 128 characters: %s (ASVS 6.2.1, 6.2.9)', async (_, password, fault) => {
    expect(await passwordFault(password, person, { hasher })).toBe(fault)
  })

  test.each([
    ['only small letters', 'qvtzkwpjmx'],
    ['only digits', '8305719264'],
    ['only capitals', 'QVTZKWPJMX'],
    ['spaces', 'a b c d e f g'],
    ['another script', 'пароль-длинный'],
  ])('needs no mixture: %s will do (ASVS 6.2.5)', async (_, password) => {
    expect(await passwordFault(password, person, { hasher })).toBeNull()
  })

  test.each([
    ['iloveyou', 'a common password'],
    ['Password1', 'a common password'],
    ['P@ssw0rd123', 'a common password'],
    ['QWERTYUIOP', 'a common password'],
    ['zzzzzzzzzzzz', 'repeated characters'],
    ['abcabcabcabcabcabc', 'repeated characters'],
    ['passwordpasswordpasswordpassword', 'repeated characters'],
    [`${'z'.repeat(127)}!`, 'little more than repeated characters'],
    ['🦊'.repeat(128), 'repeated characters'],
    ['abcdefghijklmn', 'a sequence such as abc'],
    ['monday-tuesday', 'a sequence of words'],
    ["sdfghjkl;'", 'neighbouring keys'],
    ['1984-05-23', 'a date'],
    ['january2026', 'a common word and a year'],
    ['someone2026', 'a word of your e-mail address, your name, your company, or this service and a year'],
    ['hopper1906', 'a word of your e-mail address, your name, your company, or this service'],
    ['söhne1234', 'a word of your e-mail address, your name, your company, or this service'],
  ])(
    'takes 100 million guesses, or the refusal says what is weak: %s is %s (ASVS 6.2.4, 6.2.11)',
    async (password, what) => {
      const fault = await passwordFault(password, person, { hasher })
      expect(fault).toMatch(/^is too easy to guess, since it is /)
      expect(fault).toContain(what)
      expect(fault?.toLowerCase()).not.toContain(password.toLowerCase())
    },
  )

  test.each([
    ['gatehouse2026!', 'a word of your e-mail address, your name, your company, or this service'],
    ['enterprise2026!!', 'this service'],
    ['Analyst1234!', 'this service'],
    ['Welcome2026!!', 'a common password, a year'],
    ['2026!Welcome!!', 'a year, a common password and repeated'],
    ['Sommer2026!!', 'a common word and a year'],
    ['Passwort2026!', 'a common password'],
    ['Fussball1234!', 'a common password'],
    ['Bienvenue2026!!', 'a common word'],
    ['Verano2026!!', 'a year'],
    ['Benvenuto2026!', 'a name and a year'],
    ['Bem-vindo2026', 'a year'],
    ['Wachtwoord2026!', 'a common word'],
    ['Witamy2026!!', 'a year'],
    ['Hopper#1906#', 'your name'],
  ])(
    'is no word of seven languages or of this service with a year and a mark: %s is %s (ASVS 6.1.2, 6.2.11)',
    async (password, what) => {
      const admin = { ...person, companyName: 'Acme' }
      const refusal = checkPassword('password', password, admin, { hasher })
      await expect(refusal).rejects.toThrow(what)
    },
  )

  test('is none of the common ones, of which more than 3000 are long enough (ASVS 6.2.4)', async () => {
    const all = dictionary['passwords-common'].filter((word) => word.length >= 8)
    // The longest, and a sample of the others.
    const common = all.filter((word, index) => word.length > 24 || index % 500 === 0)
    expect(all.length).toBeGreaterThan(3000)
    expect(common.length).toBeGreaterThan(10)
    const easy: string[] = []
    for (const word of common) if ((await passwordFault(word, person, { hasher })) !== null) easy.push(word)
    expect(easy).toEqual(common)
  })

  describe('of 20 characters or more', () => {
    const graphs = adjacencyGraphs
    const hasStrongEnds = createStrongEnds({ dictionary: { ...dictionary, ...english.dictionary }, graphs })
    const hints = ['vereinigte stahlwerke', 'qxkzvwjpydbmtnrlgh']

    test.each([
      'aV3-xkQ9_mZp7LtRw2Bn',
      '9f86d081884c7d659a2feaa0c55ad015',
      'qvtzkwpjmxqhdbnyrlgfsc',
      'marble tuesday orange lamp',
      'Zaun-Kaffee-Lampe-Wiese',
      'корова синяя летит домой',
      '🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🦄🐙',
    ])(
      'is known to be strong by its ends, without an estimate of the whole (ASVS 15.2.2): %s',
      (password) => {
        expect(hasStrongEnds(password, hints)).toBe(true)
      },
    )

    // Without their patterns, the beginnings of most of these take 10^8 guesses.
    test.each([
      'verwaltungsgemeinschaft',
      'Verwaltungsgemeinschaft!',
      'tfahcsniemegsgnutlawrev',
      'v3rw4ltungsg3m3insch4ft',
      'pelecaniformesfamily1',
      'internationalinternet',
      'entertainnnent5ervice',
      'get-out-of-jail-free1',
      'charlie1991charlie1991',
      '🦊🐻🐼🦊🐻🐼🦊🐻🐼🦊🐻🐼',
      'Monday-Tuesday-Wednesday',
      'zyxwvutsrqponmlkjihg',
      'Vereinigte Stahlwerke1',
      'qxkzvwjpydbmtnrlgh2026',
      'hglrntmbdypjwvzkxq2026',
    ])('is estimated as a whole, if one or two patterns can make it (ASVS 6.2.4): %s', async (password) => {
      expect(hasStrongEnds(password, hints)).toBe(false)
      expect((await hasher.estimate(password, hints)).guesses).toBeLessThan(MIN_GUESSES)
    })
  })

  test.each([
    person.email,
    person.email.toUpperCase(),
    person.companyName,
    person.companyName.toLowerCase(),
    person.companyName.normalize('NFD'),
    person.name,
  ])('is neither the address nor a name: %s (ASVS 6.2.11)', async (password) => {
    expect(await passwordFault(password, person, { hasher })).toBe(IS_CONTEXT)
    expect(await passwordFault(`${password}!`, person, { hasher })).toContain('word of your e-mail address')
  })

  test.each([
    ['ida@xn--stahlrhre-57a.example', IS_CONTEXT],
    ['ida@stahlröhre.example', IS_CONTEXT],
    ['stahlröhre2026', 'word of your e-mail address'],
  ])(
    'has no part of an email with a Unicode domain, in either spelling: %s (ASVS 6.2.11)',
    async (password, fault) => {
      const international = { ...person, email: 'ida@xn--stahlrhre-57a.example' }
      expect(await passwordFault(password, international, { hasher })).toContain(fault)
    },
  )

  test('is estimated aside: the costliest ones keep nobody else waiting (ASVS 15.2.2)', async () => {
    await passwordFault(LONG, person, { hasher })
    let turns = 0
    const timer = setInterval(() => {
      turns += 1
    }, 1)
    const costly = '4@8({[<369!1|0$57+%2'.repeat(6)
    const faults = await Promise.all([1, 2, 3, 4].map(() => passwordFault(costly, person, { hasher })))
    clearInterval(timer)
    expect(faults.length).toBe(4)
    expect(turns).toBeGreaterThan(10)
  })
})

describe('with a service that knows passwords from breaches', () => {
  const PASSWORD = 'qvtzkwpjmx and more'
  const HASH = createHash('sha1').update(PASSWORD).digest('hex').toUpperCase()

  /** A range service on loopback; `asked` has what reached it. */
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
    const isBreached = createIsBreached(`http://127.0.0.1:${port}/range`, (cause) => failures.push(cause))
    return {
      asked,
      failures,
      judge: (password: string) => passwordFault(password, person, { hasher, isBreached }),
    }
  }

  test('one that is known is refused, and only five digits of its hash leave (ASVS 6.2.12)', async () => {
    const lines = `${'0'.repeat(35)}:7\r\n${HASH.slice(5).toLowerCase()}:3\r\n`
    const { asked, failures, judge } = await openRangeService((_, response) => response.end(lines))
    expect(await judge(PASSWORD)).toMatch(/^is known from a breach/)
    expect(await judge('another one that nobody has')).toBeNull()
    expect(asked[0]).toMatchObject({ method: 'GET', url: `/range/${HASH.slice(0, 5)}` })
    expect(asked[0]?.headers).toMatchObject({ 'add-padding': 'true' })
    expect(JSON.stringify([asked[0]?.url, asked[0]?.rawHeaders])).not.toContain(HASH.slice(5, 12))
    expect(failures).toEqual([])
  })

  test('padding counts nothing, and one that is easy to guess is not asked about', async () => {
    const { asked, judge } = await openRangeService((_, response) => response.end(`${HASH.slice(5)}:0`))
    expect(await judge(PASSWORD)).toBeNull()
    expect(await judge('password1')).toContain('a common password')
    expect(asked.length).toBe(1)
  })

  test.for<[string, RequestListener, string]>([
    ['answers 503', (_, response) => response.writeHead(503).end(`${HASH.slice(5)}:1`), 'UnexpectedAnswer'],
    [
      'sends elsewhere (ASVS 15.3.2)',
      (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(),
      'TypeError',
    ],
    [
      'answers without end',
      (_, response) => void response.end('x'.repeat(1024 * 1024 + 1)),
      'UnexpectedAnswer',
    ],
    ['hangs up', (request) => void request.socket.destroy(), 'TypeError'],
    ['does not answer', () => {}, 'TimeoutError'],
    ['stops in the middle', (_, response) => void response.write(`${HASH.slice(5)}`), 'TimeoutError'],
  ])('one that %s refuses nobody, and is noted (ASVS 16.5.2)', async ([, answer, cause]) => {
    const { asked, failures, judge } = await openRangeService(answer)
    expect(await judge(PASSWORD)).toBeNull()
    expect(asked.length).toBe(1)
    expect(failures).toEqual([cause])
  })

  test('every way to choose a password asks it, outside of transactions, and its silence is logged once a minute', async () => {
    let isSilent = false
    const known = createHash('sha1').update('a breached password').digest('hex').toUpperCase()
    const server = createServer((_, response) => {
      if (isSilent) response.writeHead(500)
      response.end(`${known.slice(5)}:1`)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const service = await openTestService({ env: { BREACHED_PASSWORDS_URL: `http://127.0.0.1:${port}` } })
    const admin = await service.addCompany()
    const { accessToken: token } = await service.loginAs(admin)
    const choose = (password: string) => [
      service.call('/auth/register', {
        json: { companyName: 'Acme', name: 'Ada', email: 'ada@acme.example', password },
      }),
      service.call('/auth/password/change', {
        token,
        json: { currentPassword: admin.password, newPassword: password },
      }),
    ]
    for (const answer of await Promise.all(choose('a breached password'))) {
      expect(answer.status).toBe(400)
      expect(answer.body.errors[0].message).toMatch(/^is known from a breach/)
    }
    isSilent = true
    for (const { status } of await Promise.all(choose('a breached password')))
      expect(status).toBeLessThan(300)
    const said = service.logs.join('').match(/the service of breached passwords gives no answer/g)
    expect(said?.length).toBe(1)
  })
})

test('a password that is typed is too long at 129 characters, as they are counted when it is chosen', () => {
  const typed = ['z', '🦊', 'e\u0301'].map((one) => [isTooLong(one.repeat(128)), isTooLong(one.repeat(129))])
  expect(typed).toEqual([
    [false, true],
    [false, true],
    [false, true],
  ])
})

test('a company and a user are refused with a password that may not be chosen (ASVS 6.2.4, 6.2.11)', async () => {
  const service = await openTestService()
  const company = { name: 'Sturdy Company', adminEmail: 'admin@sturdy.example' }
  const refused = (password: string) =>
    expect(createCompany(service.context, { ...company, password })).rejects.toMatchObject({
      code: 'invalid_request',
      extras: { errors: [{ path: '/password' }] },
    })
  for (const password of ['short', 'password1', 'ADMIN@sturdy.example', 'sturdy company'])
    await refused(password)
  const admin = await service.addCompany({ name: 'Sturdy Company' })
  for (const password of ['short', 'password1', 'sturdy company']) {
    await expect(service.addUser(admin, 'viewer', { password })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  }
  const { length } = await service.db.selectFrom('users').select('user_id').execute()
  expect(length).toBe(1)
})
