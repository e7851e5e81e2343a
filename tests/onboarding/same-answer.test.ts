import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { expectProblem } from '../http/problem.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { type Answer, openTestService, type Person, times } from '../support/test-service.ts'

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: { SMTP_URL: mailbox.url, PUBLIC_URL: 'https://auth.example.com' },
})
const { register, join, use, tokenOf, allSent } = useService(service, mailbox)

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

describe.each([
  [FORGOT, ['verified', 'unverified']],
  [RESEND, ['unverified']],
])('%s', async (path, entitled) => {
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

  test('has one answer for everyone, and sends mail to whom it concerns alone (ASVS 6.3.8)', async () => {
    const before = mailbox.mails.length
    const answers = []
    for (const [, person] of people) answers.push(seen(await ask(path, person)))
    expect(answers[0]).toMatchObject({ status: 202, body: {} })
    for (const answer of answers) expect(answer).toEqual(answers[0])
    await allSent()
    const recipients = mailbox.mails.slice(before).flatMap((mail) => mail.recipients)
    const expected = people.filter(([who]) => entitled.includes(who)).map(([, { email }]) => email)
    expect(recipients.sort()).toEqual(expected.sort())
  })

  test('looks nothing up while the client waits: each request leaves the same row, whoever it is for', async () => {
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

  test('sends no fourth mail in an hour, and does not say so (ASVS 2.4.1)', async () => {
    const own = await openTestService({ env: { SMTP_URL: mailbox.url, RATE_LIMIT_SCALE: '1' }, instances: 2 })
    const admin = await own.addCompany()
    await own.db.updateTable('users').set({ email_verified_at: null }).execute()
    const person = { companyId: admin.companyId, email: admin.email }
    const askAt = (index: number, companyId = person.companyId) =>
      own.call(path, {
        json: { companyId, email: index % 2 ? person.email : person.email.toUpperCase() },
        at: index % 2,
      })
    // What is asked of other companies takes nothing away from this one.
    await Promise.all(times(6, (index) => askAt(index, randomUUID())))
    const { allSent } = useService(own, mailbox)
    const before = mailsTo(person.email).length
    const answers: Answer[] = []
    // Of two that wait for the mail server, the older one is not sent.
    for (let index = 0; index < 3; index += 1) {
      answers.push(await askAt(index))
      await allSent()
    }
    answers.push(...(await Promise.all(times(9, (index) => askAt(index)))))
    for (const answer of answers) expect(seen(answer)).toEqual(seen(answers[0] ?? answer))
    await allSent()
    expect(mailsTo(person.email).length - before).toBe(3)
    own.clock.advance(3601)
    await askAt(1)
    await allSent()
    expect(mailsTo(person.email).length - before).toBe(4)
  })

  test('that could not be queued is not counted: a retry is served', async () => {
    const own = await openTestService({
      timeoutScale: 1,
      env: { SMTP_URL: mailbox.url, RATE_LIMIT_SCALE: '1' },
    })
    const json = { companyId: randomUUID(), email: newEmail() }
    const refused = await own.db.transaction().execute(async (tx) => {
      await sql`lock table mail_outbox in exclusive mode`.execute(tx)
      return await Promise.all(times(3, () => own.call(path, { json })))
    })
    expect(refused.map(({ status }) => status)).toEqual([503, 503, 503])
    expect((await own.call(path, { json })).status).toBe(202)
    const [row] = await own.db
      .selectFrom('rate_counters')
      .select('hits')
      .where('counter', 'like', 'mail:%')
      .execute()
    expect(row).toEqual({ hits: 1 })
  })
})

describe('mail goes only to the stored address', () => {
  test.each([
    ['a dotless ı', 'adam\u0131n@x.example'],
    ['an İ', '\u0130da@x.example'],
    ['a Kelvin sign', '\u212Aim@x.example'],
    ['full-width letters', '\uFF41da@x.example'],
    ['a zero-width space', 'a\u200bda@x.example'],
    ['two addresses', 'ada@x.example,eve@evil.example'],
    ['a comment', 'ada@x.example (eve@evil.example)'],
    ['a line break', 'ada@x.example\r\nBcc: eve@evil.example'],
    ['a name', 'Ada <ada@x.example>'],
    ['an encoded word', '=?utf-8?q?ada=40evil.example?=@x.example'],
    ['a quoted part', '"ada@evil.example"@x.example'],
  ])('%s is no address (ASVS 1.3.11)', async (_what, email) => {
    const answers = [
      await ask(FORGOT, { companyId: randomUUID(), email }),
      await ask(RESEND, { companyId: randomUUID(), email }),
      await service.call('/auth/register', {
        json: { companyName: 'Acme', name: 'Ada', email, password: 'a good password' },
      }),
    ]
    const [forgot, resend, register] = answers.map(({ status, body }) => [status, body.errors?.[0]?.path])
    expect(register).toEqual([400, '/email'])
    // What has the form of an address, and can be nobody's, is answered as any other.
    expect([
      [400, '/email'],
      [202, undefined],
    ]).toContainEqual(forgot)
    expect(resend).toEqual(forgot)
    await allSent()
    const recipients = mailbox.mails.flatMap((mail) => mail.recipients)
    expect(recipients.filter((to) => /evil|[^!-~]/.test(to))).toEqual([])
  })

  test.each([
    ['spelt@onboarding.example', 'SPELT@Onboarding.EXAMPLE', 'spelt@onboarding.example'],
    ['ida@bücher.example', 'ida@xn--bcher-kva.example', 'ida@xn--bcher-kva.example'],
    ['ida@xn--grn-ioa.example', 'Ida@GRÜN.example', 'ida@xn--grn-ioa.example'],
    // A look-alike in Cyrillic is an address of its own.
    ['ada@\u0445.example', 'ada@\u0445.example', 'ada@xn--u1a.example'],
  ])('whatever spelling is asked for: %s, %s', async (registered, asked, stored) => {
    const person = await join(registered)
    await ask(FORGOT, { ...person, email: asked })
    const { token, recipients } = await mailbox.mailTo(stored)
    expect(recipients).toEqual([stored])
    expect((await use('reset', token)).status).toBe(204)
  })

  test('and its link leads to the configured address, whatever Host was asked (ASVS 4.1.3)', async () => {
    const person: Person = await join()
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

  test('a request costs no more than its mail: three at once leave one token that works', async () => {
    const person = await join()
    await Promise.all(times(3, () => ask(FORGOT, person)))
    await allSent()
    const tokens = mailsTo(person.email).flatMap(({ token }) => (token.startsWith('reset_') ? [token] : []))
    const statuses = []
    for (const token of tokens) statuses.push((await use('reset', token)).status)
    expect(statuses.filter((status) => status === 204)).toHaveLength(1)
    await allSent()
    expect(mailsTo(person.email).at(-1)?.email.subject).toContain('was changed')
    expectProblem(await use('reset', await tokenOf('reset', person, person.email), { password: 'x' }), [
      400,
      'invalid_request',
    ])
  })
})
