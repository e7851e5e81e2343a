import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { type Answer, openTestService, PASSWORD, times } from '../support/test-service.ts'

/** Whether an email has an account, and where, is told to its owner only. */

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: { SMTP_URL: mailbox.url, PUBLIC_URL: 'https://auth.example.com' },
})
const { register, join, use, allSent } = useService(service, mailbox)

const FORGOT = '/auth/password/forgot'
const RESEND = '/auth/verify-email/resend'

const ask = (path: string, { companyId, email }: { companyId: string; email: string }, headers = {}) =>
  service.call(path, { json: { companyId, email }, headers })

/** What a client sees, without what differs between any two answers. */
function seen({ status, headers, body }: Answer) {
  const { date: _, 'x-request-id': __, ratelimit: ___, ...others } = headers
  return { status, headers: others, body }
}

const mailsTo = (address: string) => mailbox.mails.filter(({ recipients }) => recipients.includes(address))

describe.for([
  [FORGOT, ['verified', 'unverified']],
  [RESEND, ['unverified']],
] as const)('%s', async ([path, entitled]) => {
  const verified = await join()
  const unverified = await register()
  const disabled = await service.addUser(verified)
  await changeUserStatus(service.context, disabled.companyId, disabled, 'disabled')
  const suspended = await join()
  await changeCompanyStatus(service.context, suspended.companyId, 'suspended')
  const people: [string, { companyId: string; email: string }][] = [
    ['verified', verified],
    ['unverified', unverified],
    ['disabled', disabled],
    ['in a suspended company', suspended],
    ['unknown', { ...verified, email: newEmail() }],
    ['in an unknown company', { ...verified, companyId: randomUUID() }],
    ['of another company', { ...verified, companyId: unverified.companyId }],
  ]

  test('has one response for everyone, and emails only users who need it (ASVS 6.3.8)', async () => {
    const before = mailbox.mails.length
    const answers = []
    for (const [, person] of people) answers.push(seen(await ask(path, person)))
    expect(answers[0]).toMatchObject({ status: 202, body: {} })
    for (const answer of answers) expect(answer).toEqual(answers[0])
    await allSent()
    const recipients = mailbox.mails.slice(before).flatMap((mail) => mail.recipients)
    const expected = people
      .filter(([who]) => entitled.some((one) => one === who))
      .map(([, { email }]) => email)
    expect(recipients.sort()).toEqual(expected.sort())
  })

  test('looks up no account before it responds: each request writes the same row', async () => {
    await sql`create table asked (like mail_outbox)`.execute(service.db)
    await sql`create function note_asked() returns trigger language plpgsql as
      $$ begin insert into asked select new.*; return new; end $$`.execute(service.db)
    await sql`create trigger note_asked after insert on mail_outbox for each row execute function note_asked()`.execute(
      service.db,
    )
    for (const [, person] of people) await ask(path, person)
    const { rows } = await sql<Record<string, unknown>>`select * from asked order by mail_id`.execute(
      service.db,
    )
    await sql`drop trigger note_asked on mail_outbox`.execute(service.db)
    await sql`drop function note_asked`.execute(service.db)
    await sql`drop table asked`.execute(service.db)
    expect(new Set(rows.map(({ recipient, company_id: id }) => `${id} ${recipient}`))).toEqual(
      new Set(people.map(([, { email, companyId }]) => `${companyId} ${email}`)),
    )
    const alike = rows.map(
      ({ mail_id: _, recipient: __, company_id: ___, request_number: ____, ...others }) => others,
    )
    for (const row of alike) expect(row).toEqual(alike[0])
    await allSent()
  })
})

test('no fourth reset is emailed in an hour, and the response does not say so (ASVS 2.4.1)', async () => {
  const own = await openTestService({ env: { SMTP_URL: mailbox.url, RATE_LIMIT_SCALE: '1' }, instances: 2 })
  const admin = await own.addCompany()
  await own.db.updateTable('users').set({ email_verified_at: null }).execute()
  const person = { companyId: admin.companyId, email: admin.email }
  const askAt = (index: number, companyId = person.companyId) =>
    own.call(FORGOT, {
      json: { companyId, email: index % 2 ? person.email : person.email.toUpperCase() },
      at: index % 2,
    })
  // Requests for other companies do not count for this one.
  await Promise.all(times(4, (index) => askAt(index, randomUUID())))
  const { allSent } = useService(own, mailbox)
  const before = mailsTo(person.email).length
  const answers: Answer[] = []
  // Of two that wait for the mail server, the older one is not sent.
  for (let index = 0; index < 3; index += 1) {
    answers.push(await askAt(index))
    await allSent()
  }
  answers.push(...(await Promise.all(times(4, (index) => askAt(index)))))
  for (const answer of answers) expect(seen(answer)).toEqual(seen(answers[0] ?? answer))
  await allSent()
  expect(mailsTo(person.email).length - before).toBe(3)
  own.clock.advance(3601)
  await askAt(1)
  await allSent()
  expect(mailsTo(person.email).length - before).toBe(4)
})

test('a request that could not be queued does not count: a retry is served', async () => {
  const own = await openTestService({
    timeoutScale: 1,
    env: { SMTP_URL: mailbox.url, RATE_LIMIT_SCALE: '1' },
  })
  const json = { companyId: randomUUID(), email: newEmail() }
  const refused = await own.db.transaction().execute(async (tx) => {
    await sql`lock table mail_outbox in exclusive mode`.execute(tx)
    return await Promise.all(times(3, () => own.call(FORGOT, { json })))
  })
  expect(refused.map(({ status }) => status)).toEqual([503, 503, 503])
  expect((await own.call(FORGOT, { json })).status).toBe(202)
  const [row] = await own.db
    .selectFrom('rate_counters')
    .select('hits')
    .where('counter', 'like', 'mail:%')
    .execute()
  expect(row).toEqual({ hits: 1 })
})
test('email goes to no address that only resembles a stored one (ASVS 1.3.11)', async () => {
  for (const email of [
    'adam\u0131n@x.example',
    '\u0130da@x.example',
    '\u212Aim@x.example',
    '\uFF41da@x.example',
    'a\u200bda@x.example',
    'ada@x.example,eve@evil.example',
    'ada@x.example (eve@evil.example)',
    'ada@x.example\r\nBcc: eve@evil.example',
    'Ada <ada@x.example>',
    '=?utf-8?q?ada=40evil.example?=@x.example',
    '"ada@evil.example"@x.example',
  ]) {
    const json = { companyName: 'Acme', name: 'Ada', email, password: PASSWORD }
    const register = await service.call('/auth/register', { json })
    expect([email, register.status, register.body.errors?.[0]?.path]).toEqual([email, 400, '/email'])
    // What has the form of an address that nobody can have gets the same response as any other.
    expect([202, 400]).toContain((await ask(FORGOT, { companyId: randomUUID(), email })).status)
  }
  await allSent()
  const recipients = mailbox.mails.flatMap((mail) => mail.recipients)
  expect(recipients.filter((to) => /evil|[^!-~]/.test(to))).toEqual([])
})

test.for([
  ['spelt@onboarding.example', 'SPELT@Onboarding.EXAMPLE', 'spelt@onboarding.example'],
  ['ida@bücher.example', 'ida@xn--bcher-kva.example', 'ida@xn--bcher-kva.example'],
  ['ida@xn--grn-ioa.example', 'Ida@GRÜN.example', 'ida@xn--grn-ioa.example'],
  // A look-alike in Cyrillic is a different address.
  ['ada@\u0445.example', 'ada@\u0445.example', 'ada@xn--u1a.example'],
] as const)('a reset for %s is emailed when requested for %s', async ([registered, asked, stored]) => {
  const person = await join(registered)
  await ask(FORGOT, { ...person, email: asked })
  const { token, recipients } = await mailbox.mailTo(stored)
  expect(recipients).toEqual([stored])
  expect((await use('reset', token)).status).toBe(204)
})

test('the link of an email leads to PUBLIC_URL, whatever Host was requested (ASVS 4.1.3)', async () => {
  const person = await join()
  await ask(FORGOT, person, {
    host: 'evil.example',
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'http',
    forwarded: 'host=evil.example',
    origin: 'https://evil.example',
    referer: 'https://evil.example/',
  })
  const { raw, email } = await mailbox.mailTo(person.email)
  expect(raw).not.toContain('evil')
  expect(email.text).toMatch(/^https:\/\/auth\.example\.com\/reset-password#token=reset_/m)
  expect(email.html).toMatch(/href="https:\/\/auth\.example\.com\/reset-password#token=reset_/)
})

describe('a reminder of companies', () => {
  const remind = (email: string) => service.call('/auth/companies/remind', { json: { email } })

  test('lists only the companies in which the email can sign in (ASVS 6.3.8)', async () => {
    const email = newEmail()
    const [acme, other, suspended, disabled] = [
      await service.addCompany({ name: 'Acme' }),
      await service.addCompany({ name: 'Booking.com' }),
      await service.addCompany({ name: 'Suspended' }),
      await service.addCompany({ name: 'Disabled' }),
    ]
    for (const company of [acme, other, suspended]) await service.addUser(company, 'viewer', { email })
    await changeCompanyStatus(service.context, suspended.companyId, 'suspended')
    const member = await service.addUser(disabled, 'viewer', { email })
    await changeUserStatus(service.context, disabled.companyId, member, 'disabled')
    await register(email)
    const { status, body } = await remind(email.toUpperCase())
    expect([status, body]).toEqual([202, {}])
    const mail = await mailbox.mailTo(email)
    const text = mail.email.text ?? ''
    const handle = await service.handleOf(acme)
    const address = `https://auth.example.com/sign-in#company=${handle}`
    expect(text).toContain(`Acme (${handle}):\n${address}`)
    expect(mail.email.html).toContain(`<a href="${address}"`)
    expect(text).toContain(`https://auth.example.com/sign-in#company=${await service.handleOf(other)}`)
    // A name never becomes a link.
    expect(text).not.toContain('Booking.com')
    for (const company of [suspended, disabled]) expect(text).not.toContain(await service.handleOf(company))
    expect(text.match(/#company=/g)).toHaveLength(2)
  })

  test('has the same response for an email without a company, which gets none', async () => {
    const [known, unknown] = [newEmail(), newEmail()]
    await service.addUser(await service.addCompany(), 'viewer', { email: known })
    const answers = [await remind(known), await remind(unknown)]
    expect(answers.map(({ status, body }) => [status, body])).toEqual([
      [202, {}],
      [202, {}],
    ])
    await mailbox.mailTo(known)
    await allSent()
    expect(mailbox.mails.filter(({ recipients }) => recipients.includes(unknown))).toEqual([])
  })

  test('is not sent a fourth time within an hour, with the same response (ASVS 2.4.1)', async () => {
    const strict = await openTestService({ env: { SMTP_URL: mailbox.url, RATE_LIMIT_SCALE: '1' } })
    const email = newEmail()
    await strict.addUser(await strict.addCompany(), 'viewer', { email })
    for (let n = 0; n < 4; n += 1) {
      expect((await strict.call('/auth/companies/remind', { json: { email } })).status).toBe(202)
    }
    const mails = strict.db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email)
    expect(await mails.execute()).toHaveLength(3)
  })
})
