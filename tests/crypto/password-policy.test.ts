import { dictionary } from '@zxcvbn-ts/language-common'
import { describe, expect, test } from 'vitest'
import { isTooLong, passwordFault } from '../../src/crypto/password-policy.ts'
import { createCompany } from '../../src/operator/companies.ts'
import { openTestService } from '../support/test-service.ts'

const person = { email: 'someone@company.example', companyName: 'Ämter & Söhne GmbH' }
const TOO_SHORT = 'must have at least 8 characters'
const TOO_LONG = 'must have at most 128 characters'
const IS_CONTEXT = 'must not be the e-mail address or the company name'
const IS_COMMON = expect.stringContaining('common passwords')

describe('a password to be chosen', () => {
  test.each([
    ['none', '', TOO_SHORT],
    ['7', 'k9#Lq2!', TOO_SHORT],
    ['8', 'k9#Lq2!v', null],
    ['7 emoji', '🦊'.repeat(7), TOO_SHORT],
    ['8 emoji', '🦊🐻🐼🐨🐯🦁🐮🐷', null],
    ['7, one of them two code points', 'k9#Lq2e\u0301', TOO_SHORT],
    ['8, one of them two code points', 'k9#Lq2!e\u0301', null],
    ['128', `${'z'.repeat(127)}!`, null],
    ['129', 'z'.repeat(129), TOO_LONG],
    ['128 emoji', '🦊'.repeat(128), null],
    ['129 emoji', '🦊'.repeat(129), TOO_LONG],
    ['128 of two code points each', 'e\u0301'.repeat(128), null],
    ['129 of two code points each', 'e\u0301'.repeat(129), TOO_LONG],
  ])('has 8 to 128 characters: %s (ASVS 6.2.1, 6.2.9)', (_, password, fault) => {
    expect(passwordFault(password, person)).toBe(fault)
  })

  test.each([
    ['only small letters', 'qvtzkwpjmx'],
    ['only digits', '8305719264'],
    ['only capitals', 'QVTZKWPJMX'],
    ['spaces', 'a b c d e f g'],
    ['another script', 'пароль-длинный'],
  ])('needs no mixture: %s will do (ASVS 6.2.5)', (_, password) => {
    expect(passwordFault(password, person)).toBeNull()
  })

  test.each(['password', 'Password1', '12345678', 'QWERTYUIOP', 'iloveyou', 'PaSsWoRd'])(
    'is none of the common ones: %s (ASVS 6.2.4)',
    (password) => expect(passwordFault(password, person)).toEqual(IS_COMMON),
  )

  test('is none of at least 3000 common ones that are long enough (ASVS 6.2.4)', () => {
    const common = dictionary['passwords-common'].filter((word) => word.length >= 8)
    expect(common.length).toBeGreaterThan(3000)
    expect(common.filter((word) => passwordFault(word, person) === null)).toEqual([])
  })

  test.each([
    person.email,
    person.email.toUpperCase(),
    person.companyName,
    person.companyName.toLowerCase(),
    person.companyName.normalize('NFD'),
  ])('is neither the address nor the company: %s (ASVS 6.2.11)', (password) => {
    expect(passwordFault(password, person)).toBe(IS_CONTEXT)
    expect(passwordFault(`${password}!`, person)).toBeNull()
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
