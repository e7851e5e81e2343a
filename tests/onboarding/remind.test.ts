import { expect, test } from 'vitest'
import { changeCompanyStatus } from '../../src/operator/companies.ts'
import { changeUserStatus } from '../../src/operator/users.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { openTestService } from '../support/test-service.ts'

/** A person knows neither company ids nor where to sign in. */

const mailbox = await openMailbox()
const service = await openTestService({
  env: { SMTP_URL: mailbox.url, PUBLIC_URL: 'https://auth.example.com' },
})
const { register, allSent } = useService(service, mailbox)
const remind = (email: string) => service.call('/auth/companies/remind', { json: { email } })

test('a reminder names the companies in which the e-mail can sign in, and no others (ASVS 6.3.8)', async () => {
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

test('an e-mail without any company gets the same answer, and no mail', async () => {
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

test('a fourth within an hour is answered alike and not sent (ASVS 2.4.1)', async () => {
  const strict = await openTestService({ env: { SMTP_URL: mailbox.url, RATE_LIMIT_SCALE: '1' } })
  const email = newEmail()
  await strict.addUser(await strict.addCompany(), 'viewer', { email })
  for (let n = 0; n < 4; n += 1) {
    strict.clock.advance(1)
    expect((await strict.call('/auth/companies/remind', { json: { email } })).status).toBe(202)
  }
  const { rows } = {
    rows: await strict.db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email).execute(),
  }
  expect(rows).toHaveLength(3)
})
