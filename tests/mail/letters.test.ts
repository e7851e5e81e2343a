import { describe, expect, test } from 'vitest'
import type { ReceivedMail } from '../../scripts/kit/mail-server.ts'
import { queueMail } from '../../src/mail/service.ts'
import { invite } from '../../src/operator/users.ts'
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
    RATE_LIMIT_SCALE: '1',
    LIMIT_SIGN_IN_ATTEMPTS: '100000/60',
    TRUST_PROXY: '127.0.0.1',
  },
})
const { join, allSent } = useService(service, mailbox)

const NEAR = { 'x-forwarded-for': '203.0.113.9' }
const fail = (person: Person, count: number) =>
  Promise.all(times(count, () => service.login({ ...person, password: 'not it' }, { headers: NEAR })))

/** Keeps email programs from turning a name into a link. */
const HAIR_SPACE = '\u200a'

/** Both forms of an email, as users read them. */
const wordsOf = ({ email }: ReceivedMail) => {
  const html = (email.html ?? '').replace(/<style[\s\S]*?<\/style>|<[^>]*>/g, ' ').replaceAll('&#39;', "'")
  return [email.text ?? '', html].map((text) => text.replace(/\s+/g, ' '))
}

test('an emailed link leads to PUBLIC_URL, explains its cause, and loads nothing (ASVS 4.1.3, 14.2.1, 14.2.3)', async () => {
  const person = await join()
  const { companyId, email: address } = person
  const forged = ['host', 'x-forwarded-host', 'x-forwarded-proto', 'origin', 'referer']
  const headers = Object.fromEntries(forged.map((name) => [name, 'evil.example']))
  await service.call('/auth/password/forgot', { json: { companyId, email: address }, headers })
  const letter = await mailbox.mailTo(address)
  const { raw, email, token } = letter
  expect(email).toMatchObject({
    from: { name: 'Gatehouse', address: 'gate@example.com' },
    to: [{ name: '', address }],
    subject: `Reset your password for Company of ${address.replace(/[@.]/g, `$&${HAIR_SPACE}`)}`,
    messageId: expect.stringMatching(/^<[0-9a-f-]{36}@example\.com>$/),
  })
  expect([email.cc ?? [], email.bcc ?? []]).toEqual([[], []])
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ')
  expect(head.split('\r\n')).toContain('Auto-Submitted: auto-generated')
  const at = new Date(service.clock.now()).toISOString().slice(0, 10)
  for (const words of wordsOf(letter)) {
    expect(words).toContain('Hello Ada,')
    expect(words).toMatch(new RegExp(`Time: ${at} \\d\\d:\\d\\d UTC IP address: 127\\.0\\.0\\.1`))
    expect(words).toMatch(/works once, until \d{4}-\d\d-\d\d \d\d:\d\d UTC/)
    expect(words).toContain("If this wasn't you, ignore this email.")
  }
  // The token is in the fragment, which is not sent to servers.
  const url = `https://auth.example.com/reset-password#token=${token}`
  expect(email.text).toContain(`\n${url}\n`)
  expect(email.html).toContain(`href="${url}"`)
  expect(head).not.toContain(token)
  expect(raw).not.toContain('evil')
  expect(email.html).not.toMatch(/<(script|img|link|iframe|form)\b|url\(|@import/i)
})

test('an unconfirmed email address gets no text that a stranger chose', async () => {
  const email = newEmail()
  const headers = { 'user-agent': 'Prize/1.0' }
  const chosen = { companyName: 'You won a prize', name: 'Reginald the stranger' }
  const json = { ...chosen, email, password: PASSWORD }
  const { body } = await service.call('/auth/register', { json, headers })
  const letters = [await mailbox.mailTo(email)]
  for (const path of ['/auth/verify-email/resend', '/auth/password/forgot']) {
    await service.call(path, { json: { companyId: body.companyId, email }, headers })
    letters.push(await mailbox.mailTo(email))
  }
  for (const letter of letters) {
    expect(letter.raw).not.toMatch(/Reginald|prize/i)
    for (const words of wordsOf(letter)) {
      expect(words).toMatch(/Hello, /)
      expect(words).not.toMatch(/Reginald|prize/i)
      expect(words.replace(/https:\S+/g, '')).not.toContain(body.companyId)
    }
  }
  expect(letters[0]?.email.subject).toBe('Confirm your email address')
})

test('an unconfirmed email address gets no notice', async () => {
  const { companyId, email } = await service.addCompany()
  const user = service.db.updateTable('users').where('company_id', '=', companyId)
  await user.set({ email_verified_at: null }).execute()
  const mail = { kind: 'sign_in_after_lockout', recipient: email, data: {} } as const
  await queueMail(service.db, service.clock, companyId, { ...mail, now: service.clock.now() })
  await allSent()
  expect(mailbox.mailsTo(email)).toEqual([])
})

test('an invitation names the company, the inviter, and the role', async () => {
  const admin = await service.addCompany({ name: 'Acme Inc.', adminName: 'Ada Lovelace' })
  const email = newEmail()
  await invite(service.context, admin.companyId, { email, role: 'analyst' })
  const sentence = 'invited you to join Acme Inc. with the analyst role.'
  for (const words of wordsOf(await mailbox.mailTo(email)))
    expect(words).toContain(`A gatehouse operator ${sentence}`)
  service.clock.advance(1)
  const { accessToken: token } = await service.loginAs(admin)
  await service.call('/auth/invitations', { token, json: { email, role: 'analyst' } })
  for (const words of wordsOf(await mailbox.mailTo(email)))
    expect(words).toContain(`Ada Lovelace ${sentence}`)
})

describe('security notices (ASVS 6.3.5, 6.3.7)', () => {
  test('a user gets one email about concurrent sign-ins after a lockout', async () => {
    const person = await join()
    await fail(person, 9)
    expect((await service.login(person, { headers: NEAR })).status).toBe(200)
    await fail(person, 10)
    expect((await fail(person, 1)).map(({ status }) => status)).toEqual([429])
    const before = mailbox.mailsTo(person.email).length
    const headers = { 'x-forwarded-for': '198.51.100.7', 'user-agent': 'Curious/1.0 <b>' }
    const signIns = await Promise.all(times(6, (n) => service.login(person, { headers, at: n % 2 })))
    expect(signIns.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200])
    const letter = await mailbox.mailTo(person.email)
    expect(letter.email.subject).toContain('after too many wrong passwords')
    for (const words of wordsOf(letter)) expect(words).toContain('IP address: 198.51.100.7')
    expect(letter.email.text).toContain(`“Curious/1.${HAIR_SPACE}0 <b>”`)
    expect((await service.login(person, { headers })).status).toBe(200)
    await allSent()
    expect(mailbox.mailsTo(person.email)).toHaveLength(before + 1)
  })

  test('a user gets an email about a reused refresh token', async () => {
    const person = await join()
    const { refreshToken: first } = await service.loginAs(person)
    const { refreshToken: next } = (await service.refresh(first)).body
    await service.refresh(next)
    // Two generations back is always theft.
    expect((await service.refresh(first)).body.reason).toBe('refresh_reuse')
    const letter = await mailbox.mailTo(person.email)
    expect(letter.email.subject).toContain('was ended as a precaution')
    for (const words of wordsOf(letter)) expect(words).toContain('IP address: 127.0.0.1')
  })
})
