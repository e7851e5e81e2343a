import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { type Answer, openTestService, PASSWORD, times } from '../support/test-service.ts'

/** Only an email's owner learns whether and where it has an account. */

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: { SMTP_URL: mailbox.url, PUBLIC_URL: 'https://auth.example.com' },
})
const { register, use, allSent } = useService(service, mailbox)

const FORGOT = '/auth/password/forgot'
const RESEND = '/auth/verify-email/resend'

const ask = (path: string, { companyId, email }: { companyId: string; email: string }, headers = {}) =>
  service.call(path, { json: { companyId, email }, headers })

/** A response without the headers that differ between any two. */
function seen({ status, headers, body }: Answer) {
  const { date: _, 'x-request-id': __, ratelimit: ___, ...others } = headers
  return { status, headers: others, body }
}

test.for([
  [FORGOT, ['verified', 'unverified']],
  [RESEND, ['unverified']],
] as const)(
  '%s has one response for everyone, without looking up an account (ASVS 6.3.8)',
  async ([path, entitled]) => {
    const verified = await service.addCompany()
    const unverified = await register()
    const disabled = await service.addUser(verified)
    await changeUserStatus(service.context, disabled.companyId, disabled, 'disabled')
    const suspended = await service.addCompany()
    await changeCompanyStatus(service.context, suspended.companyId, 'suspended')
    const people: Record<string, { companyId: string; email: string }> = {
      verified,
      unverified,
      disabled,
      'in a suspended company': suspended,
      unknown: { ...verified, email: newEmail() },
      'in an unknown company': { ...verified, companyId: randomUUID() },
      'of a different company': { ...verified, companyId: unverified.companyId },
    }

    // Each request writes an equal row. Only later does the sender use it to find the account.
    await sql`create table asked (like mail_outbox)`.execute(service.db)
    await sql`create function note_asked() returns trigger language plpgsql as
      $$ begin insert into asked select new.*; return new; end $$`.execute(service.db)
    await sql`create trigger note_asked after insert on mail_outbox
      for each row execute function note_asked()`.execute(service.db)
    const before = mailbox.mails.length
    const answers = []
    for (const person of Object.values(people)) answers.push(seen(await ask(path, person)))
    const asked = sql<Record<string, unknown>>`select * from asked order by mail_id`
    const { rows } = await asked.execute(service.db)
    await sql`drop function note_asked cascade`.execute(service.db)
    await sql`drop table asked`.execute(service.db)
    expect(answers[0]).toMatchObject({ status: 202, body: {} })
    for (const answer of answers) expect(answer).toEqual(answers[0])
    expect(new Set(rows.map(({ recipient, company_id: id }) => `${id} ${recipient}`))).toEqual(
      new Set(Object.values(people).map(({ email, companyId }) => `${companyId} ${email}`)),
    )
    const alike = rows.map(
      ({ mail_id: _, recipient: __, company_id: ___, request_number: ____, ...others }) => others,
    )
    for (const row of alike) expect(row).toEqual(alike[0])
    // Only users who need the email get it.
    await allSent()
    const recipients = mailbox.mails.slice(before).flatMap((mail) => mail.recipients)
    expect(recipients.sort()).toEqual(entitled.map((who) => people[who]?.email).sort())
  },
)

describe('requests above the limit (ASVS 2.4.1)', async () => {
  const strict = await openTestService({ instances: 2, env: { RATE_LIMIT_SCALE: '1' } })
  // Stops the senders, so that queued emails stay in the outbox.
  for (const sender of strict.senders) await sender.stop()
  const queuedFor = async (email: string) => {
    const mails = strict.db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email)
    return (await mails.execute()).length
  }

  test('a fourth reset or reminder an hour is dropped without a hint', async () => {
    const companyId = randomUUID()
    const email = newEmail()
    const askAt = (index: number, of = companyId) => {
      const json = { companyId: of, email: index % 2 ? email : email.toUpperCase() }
      return strict.call(FORGOT, { json, at: index % 2 })
    }
    const answers = await Promise.all(times(6, (index) => askAt(index)))
    for (const answer of answers) expect(seen(answer)).toEqual(seen(answers[0] ?? answer))
    expect(await queuedFor(email)).toBe(3)
    // Requests for other companies, and reminders, have their own count.
    await Promise.all(times(4, (index) => askAt(index, randomUUID())))
    expect(await queuedFor(email)).toBe(7)
    for (const _ of times(4, () => 0))
      expect((await strict.call('/auth/companies/remind', { json: { email } })).status).toBe(202)
    expect(await queuedFor(email)).toBe(10)
    strict.clock.advance(3601)
    await askAt(1)
    expect(await queuedFor(email)).toBe(11)
  })

  test('an email request that could not be queued does not count', async () => {
    const json = { companyId: randomUUID(), email: newEmail() }
    const ask = async () => (await strict.call(FORGOT, { json })).status
    await sql`alter table mail_outbox
      add constraint none_here check (recipient <> ${sql.lit(json.email)})`.execute(strict.db)
    expect(await Promise.all(times(3, ask))).toEqual([500, 500, 500])
    await sql`alter table mail_outbox drop constraint none_here`.execute(strict.db)
    expect(await Promise.all(times(4, ask))).toEqual([202, 202, 202, 202])
    expect(await queuedFor(json.email)).toBe(3)
  })
})

test('an address that only resembles a stored one gets no email (ASVS 1.3.11)', async () => {
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
    // A well-formed address that cannot exist gets the same response as any other.
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
  const person = await service.addUser(await service.addCompany(), 'viewer', { email: registered })
  await ask(FORGOT, { ...person, email: asked })
  const { token, recipients } = await mailbox.mailTo(stored)
  expect(recipients).toEqual([stored])
  expect((await use('reset', token)).status).toBe(204)
})

test('a reminder lists only companies that the email can sign in to (ASVS 6.3.8)', async () => {
  const remind = (email: string) => service.call('/auth/companies/remind', { json: { email } })
  const [email, unknown] = [newEmail(), newEmail()]
  const add = async (name: string) => {
    const company = await service.addCompany({ name })
    const member = await service.addUser(company, 'viewer', { email })
    return { ...member, handle: await service.handleOf(company) }
  }
  const [acme, other] = [await add('Acme'), await add('Booking.com')]
  const [suspended, disabled] = [await add('Suspended'), await add('Disabled')]
  await changeCompanyStatus(service.context, suspended.companyId, 'suspended')
  await changeUserStatus(service.context, disabled.companyId, disabled, 'disabled')
  await register(email)
  for (const address of [unknown, email.toUpperCase()])
    expect(await remind(address)).toMatchObject({ status: 202, body: {} })
  const { email: letter } = await mailbox.mailTo(email)
  const text = letter.text ?? ''
  const url = `https://auth.example.com/sign-in#company=${acme.handle}`
  expect(text).toContain(`Sign in to Acme (${acme.handle}):\n${url}`)
  expect(letter.html).toContain(`<a href="${url}"`)
  expect(text).toContain(`https://auth.example.com/sign-in#company=${other.handle}`)
  // A name never becomes a link.
  expect(text).not.toContain('Booking.com')
  for (const { handle } of [suspended, disabled]) expect(text).not.toContain(handle)
  expect(text.match(/#company=/g)).toHaveLength(2)
  await allSent()
  expect(mailbox.mails.filter(({ recipients }) => recipients.includes(unknown))).toEqual([])
})
