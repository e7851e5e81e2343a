import { describe, expect, test } from 'vitest'
import type { ReceivedMail } from '../../scripts/kit/mail-server.ts'
import { queueMail } from '../../src/mail/service.ts'
import { changeUserStatus, invite } from '../../src/operator/users.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { openTestService, PASSWORD, type Person, times } from '../support/test-service.ts'

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: {
    SMTP_URL: mailbox.url,
    PUBLIC_URL: 'https://auth.example.com',
    MAIL_FROM: 'Gatehouse <gate@example.com>',
    LIMIT_SIGN_IN_FAILURES: '10/900',
    RATE_LIMIT_SCALE: '1',
    LIMIT_SIGN_IN_ATTEMPTS: '100000/60',
    LIMIT_REGISTER: '100000/60',
    LIMIT_PASSWORD_CHECKS: '100000/60',
    LIMIT_ONE_TIME_TOKENS: '100000/60',
    TRUST_PROXY: '127.0.0.1',
  },
})
const { join, use, tokenOf, allSent } = useService(service, mailbox)

const fail = (person: Person, count: number, address = '203.0.113.9') =>
  Promise.all(
    Array.from({ length: count }, () =>
      service.login({ ...person, password: 'not it' }, { headers: { 'x-forwarded-for': address } }),
    ),
  )

const headerLines = ({ raw }: ReceivedMail) =>
  raw
    .slice(0, raw.indexOf('\r\n\r\n'))
    .replace(/\r\n[ \t]+/g, ' ')
    .split('\r\n')

/** What keeps mail programs from making a link of a name. */
const HAIR_SPACE = '\u200a'

/** Both forms of a mail, as one reads them. */
const wordsOf = ({ email }: ReceivedMail) => {
  const html = (email.html ?? '').replace(/<style[\s\S]*?<\/style>|<[^>]*>/g, ' ')
  return [email.text ?? '', html].map((text) => text.replace(/\s+/g, ' '))
}

describe('every letter', async () => {
  const person = await join()
  await service.call('/auth/password/forgot', { json: { companyId: person.companyId, email: person.email } })
  const letter = await mailbox.mailTo(person.email)

  test('is text and HTML, from the configured sender to one address, by no human', () => {
    expect(letter.email).toMatchObject({
      from: { name: 'Gatehouse', address: 'gate@example.com' },
      to: [{ name: '', address: person.email }],
      subject: `Reset your password for Company of ${person.email.replace(/[@.]/g, `$&${HAIR_SPACE}`)}`,
      messageId: expect.stringMatching(/^<[0-9a-f-]{36}@example\.com>$/),
    })
    expect(letter.email.cc ?? []).toEqual([])
    expect(letter.email.bcc ?? []).toEqual([])
    expect(headerLines(letter)).toContain('Auto-Submitted: auto-generated')
  })

  test('says who asked, from where and when, until when its link works, and what to do about it', () => {
    const at = new Date(service.clock.now()).toISOString().slice(0, 10)
    for (const words of wordsOf(letter)) {
      expect(words).toContain('Hello Ada,')
      expect(words).toContain(`from IP address 127.0.0.1 on ${at}`)
      expect(words).toMatch(/works once, until \d{4}-\d\d-\d\d \d\d:\d\d UTC/)
      expect(words).toContain('If it was not you, do nothing')
    }
  })

  test('has its link in both forms, with the token in the fragment (ASVS 14.2.1)', () => {
    const url = `https://auth.example.com/reset-password#token=${letter.token}`
    expect(letter.email.text).toContain(`\n${url}\n`)
    expect(letter.email.html).toContain(`href="${url}"`)
    expect(headerLines(letter).join()).not.toContain(letter.token)
  })

  test('loads and runs nothing', () => {
    expect(letter.email.html).not.toMatch(/<(script|img|link|iframe|form)\b|url\(|@import/i)
  })
})

describe('what a user chose has no meaning in a letter (ASVS 1.2.1, 1.3.11):', () => {
  const NAMES = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '&lt;b&gt;',
    '</title><h1>',
    'a@evil.example, Bcc: b@evil.example',
    '=?utf-8?q?evil?=',
    'Ada <eve@evil.example>',
    '"Eve" eve@evil.example;',
    '{{name}} %s',
    'علی\u200cرضا & 👨\u200d👩\u200d👧',
    'evil\u200d.\u200dexample',
  ]

  const escaped = (name: string) =>
    name
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
      .replaceAll("'", '&#39;')

  test.each(NAMES)('%s', async (name) => {
    const { companyId, email } = await service.addCompany({ name, adminName: name })
    await service.call('/auth/password/forgot', { json: { companyId, email } })
    const letter = await mailbox.mailTo(email)
    const shown = name.replace(/[.@:](?=\S)/g, `$&${HAIR_SPACE}`)
    expect(letter.recipients).toEqual([email])
    expect(letter.email.to).toEqual([{ name: '', address: email }])
    expect(letter.email.subject).toBe(`Reset your password for ${shown.replaceAll('=?', '= ?')}`)
    expect(letter.email.text).toContain(`Hello ${shown},`)
    expect(letter.email.html).toContain(`Hello ${escaped(shown)},`)
    expect(letter.email.html).not.toMatch(/<(script|img|b|h1)\b/)
    const names = headerLines(letter).map((line) => line.slice(0, line.indexOf(':')).toLowerCase())
    expect(names.toSorted()).toEqual([
      'auto-submitted',
      'content-type',
      'date',
      'from',
      'message-id',
      'mime-version',
      'subject',
      'to',
    ])
  })
})

describe('no name is a link:', () => {
  // What mail programs make links of in plain text: a scheme, a domain of at least two labels, an e-mail.
  const LINK = /[a-z][a-z+.-]*:\S|[^\s@]+@[^\s@]+|[\p{L}\p{N}-]+[.\u3002\uff0e\uff61][\p{L}\p{N}]/giu

  test.each([
    'evil.example',
    'evil.example/x',
    'www.evil.example/x?y=1',
    'ASP.NET/Core',
    'Booking.com',
    'Acme Inc.',
    'J.R. Smith',
    'evil\u3002example',
    'EVIL\uff0eEXAMPLE',
    'mailto:eve@evil.example',
    'tel:0123456',
    'Your bill: evil.example?id=1',
    '203.0.113.7:8080',
  ])('%s', async (name) => {
    const admin = await service.addCompany({ name, adminName: name })
    const invited = newEmail()
    await invite(service.context, admin.companyId, { email: invited, role: 'viewer' })
    await fail(admin, 10)
    const headers = { 'x-forwarded-for': '198.51.100.9', 'user-agent': encodeURI(name) }
    expect((await service.login(admin, { headers })).status).toBe(200)
    const notice = await mailbox.mailTo(admin.email)
    for (const { email } of [await mailbox.mailTo(invited), notice]) {
      // Apart from the client's IP address and the link, the rest of the text is the same in every mail.
      const words = `${email.subject} ${email.text}`
        .replaceAll('198.51.100.9', '')
        .replace(/https:\/\/auth\.example\.com\/\S+/, '')
        .replace(/\d\d:\d\d UTC/g, '')
      expect(words.replaceAll(HAIR_SPACE, '')).toContain(name)
      expect(words.match(LINK) ?? []).toEqual([])
      expect(email.html?.match(/<a /g) ?? []).toHaveLength(email.text?.includes('#token=') ? 1 : 0)
    }
  })
})

describe('mail to an e-mail that nobody has proven has no word of who gave it', () => {
  const name = 'Reginald the stranger'
  const companyName = 'You won a prize'

  test.each(['/auth/verify-email/resend', '/auth/password/forgot'])(
    'at registration and %s',
    async (path) => {
      const email = newEmail()
      const headers = { 'user-agent': 'Prize/1.0' }
      const json = { companyName, name, email, password: PASSWORD }
      const { body } = await service.call('/auth/register', { json, headers })
      const letters = [await mailbox.mailTo(email)]
      await service.call(path, { json: { companyId: body.companyId, email }, headers })
      letters.push(await mailbox.mailTo(email))
      for (const letter of letters) {
        expect(letter.raw).not.toMatch(/Reginald|prize/i)
        for (const words of wordsOf(letter)) {
          expect(words).toMatch(/Hello, /)
          expect(words).not.toMatch(/Reginald|prize/i)
          expect(words.replace(/https:\S+/g, '')).not.toContain(body.companyId)
        }
      }
      expect(letters[0]?.email.subject).toBe('Confirm your email address')
    },
  )

  test('and no notice goes to it', async () => {
    const { companyId, email } = await service.addCompany({ name: companyName, adminName: name })
    await service.db
      .updateTable('users')
      .set({ email_verified_at: null })
      .where('company_id', '=', companyId)
      .execute()
    const mail = {
      kind: 'sign_in_after_lockout',
      recipient: email,
      data: {},
      now: service.clock.now(),
    } as const
    await queueMail(service.db, service.clock, companyId, mail)
    await allSent()
    expect(mailbox.mails.filter(({ recipients }) => recipients.includes(email))).toEqual([])
  })

  test('but an invitation names the company, who invites, and the role', async () => {
    const admin = await service.addCompany({ name: 'Acme Inc.', adminName: 'Ada Lovelace' })
    const email = newEmail()
    await invite(service.context, admin.companyId, { email, role: 'analyst' })
    const sentence = 'invites you to Acme Inc., with the role analyst.'
    for (const words of wordsOf(await mailbox.mailTo(email)))
      expect(words).toContain(`An operator ${sentence}`)
    service.clock.advance(1)
    const { accessToken: token } = await service.loginAs(admin)
    await service.call('/auth/invitations', { token, json: { email, role: 'analyst' } })
    for (const words of wordsOf(await mailbox.mailTo(email)))
      expect(words).toContain(`Ada Lovelace ${sentence}`)
  })
})

test('a name that looks like an encoded word is not shown decoded in a subject (RFC 2047)', async () => {
  const company = await service.addCompany({ name: '=?utf-8?q?evil?=' })
  await service.call('/auth/password/forgot', {
    json: { companyId: company.companyId, email: company.email },
  })
  const { email } = await mailbox.mailTo(company.email)
  expect(email.subject).toBe('Reset your password for = ?utf-8?q?evil?=')
})

describe('a user is told (ASVS 6.3.5, 6.3.7)', () => {
  test('of a sign-in after their account had been locked out, once, from wherever it comes', async () => {
    const person = await join()
    await fail(person, 9)
    expect((await service.login(person, { headers: { 'x-forwarded-for': '203.0.113.9' } })).status).toBe(200)
    await fail(person, 10)
    expect((await fail(person, 1)).map(({ status }) => status)).toEqual([429])
    const before = mailbox.mails.length
    const headers = { 'x-forwarded-for': '198.51.100.7', 'user-agent': 'Curious/1.0 <b>' }
    const signIns = await Promise.all([0, 1].map((at) => service.login(person, { headers, at })))
    expect(signIns.map(({ status }) => status)).toEqual([200, 200])
    const letter = await mailbox.mailTo(person.email)
    expect(letter.email.subject).toContain('after too many wrong passwords')
    for (const words of wordsOf(letter)) expect(words).toContain('from IP address 198.51.100.7')
    expect(letter.email.text).toContain(`“Curious/1.${HAIR_SPACE}0 <b>”`)
    expect((await service.login(person, { headers })).status).toBe(200)
    const row = await service.db
      .selectFrom('mail_outbox')
      .select('kind')
      .where('recipient', '=', person.email)
      .where('kind', '=', 'sign_in_after_lockout')
      .execute()
    expect([row.length, mailbox.mails.length - before]).toEqual([1, 1])
  })

  test('however many sign in then at the same time, and all of them get in', async () => {
    for (let round = 0; round < 4; round += 1) {
      const person = await service.addUser(await service.addCompany())
      await fail(person, 10)
      const headers = { 'x-forwarded-for': '198.51.100.8' }
      const answers = await Promise.all(
        times(6, (index) => service.login(person, { headers, at: index % 2 })),
      )
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200])
      const told = await service.db
        .selectFrom('mail_outbox')
        .select('kind')
        .where('recipient', '=', person.email)
        .execute()
      expect(told).toEqual([{ kind: 'sign_in_after_lockout' }])
    }
  })

  test('of a refresh token that was used twice, with which the session ended', async () => {
    const person = await join()
    const { refreshToken } = await service.loginAs(person)
    expect((await service.refresh(refreshToken)).status).toBe(200)
    const { body } = await service.refresh((await service.loginAs(person)).refreshToken)
    await service.refresh(body.refreshToken)
    // Two generations back is theft, whenever it comes.
    const second = await service.refresh(body.refreshToken)
    expect(second.body.code).toBe('refresh_token_reused')
    const { refreshToken: first } = await service.loginAs(person)
    const { refreshToken: next } = (await service.refresh(first)).body
    await service.refresh(next)
    expect((await service.refresh(first)).body.reason).toBe('refresh_reuse')
    const letter = await mailbox.mailTo(person.email)
    expect(letter.email.subject).toContain('was ended to be safe')
    for (const words of wordsOf(letter)) expect(words).toContain('from IP address 127.0.0.1')
  })

  test('of a changed password, whether by change or by reset', async () => {
    const person = await join()
    const { accessToken } = await service.loginAs(person)
    const json = { currentPassword: person.password, newPassword: 'a newer password' }
    expect((await service.call('/auth/password/change', { token: accessToken, json })).status).toBe(204)
    expect((await mailbox.mailTo(person.email)).email.subject).toContain('was changed')
    expect((await use('reset', await tokenOf('reset', person, person.email))).status).toBe(204)
    expect((await mailbox.mailTo(person.email)).email.subject).toContain('was changed')
  })

  test('nothing any more once they are disabled', async () => {
    const person = await join()
    const { refreshToken } = await service.loginAs(person)
    const subjects = () =>
      mailbox.mails
        .filter(({ recipients }) => recipients.includes(person.email))
        .map(({ email }) => email.subject)
    await service.addUser(person, 'admin')
    await expect.poll(subjects).toHaveLength(3)
    const before = subjects()
    await changeUserStatus(service.context, person.companyId, person, 'disabled')
    expect((await service.refresh(refreshToken)).status).toBe(401)
    await service.call('/auth/password/forgot', {
      json: { companyId: person.companyId, email: person.email },
    })
    await expect
      .poll(
        async () =>
          await service.db.selectFrom('mail_outbox').select('mail_id').where('sent_at', 'is', null).execute(),
      )
      .toEqual([])
    expect(subjects()).toEqual(before)
  })
})
