import { expect, test } from 'vitest'
import { openMailbox } from '../support/mailbox.ts'
import { openTestService } from '../support/test-service.ts'

test('an attempt to email a slow server ends before its lease', async () => {
  let received = 0
  const mailbox = await openMailbox({
    onMessage: async () => {
      received += 1
      // The last attempt is accepted, because a closing service would wait for it.
      if (received === 1) await new Promise(() => {})
    },
  })
  const service = await openTestService({ instances: 2, env: { SMTP_URL: mailbox.url } })
  const { companyId, email } = await service.addCompany()
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  await expect.poll(() => received).toBe(1)
  const row = () => service.db.selectFrom('mail_outbox').selectAll().executeTakeFirstOrThrow()
  expect((await row()).leased_until).not.toBeNull()
  // The clocks of other instances can be far ahead.
  service.clock.advance(3600)
  // A sender that took it after the lease would have made a second attempt, so the first attempt released it.
  await expect.poll(async () => (await row()).leased_until, { interval: 500 }).toBeNull()
  expect(await row()).toMatchObject({ attempts: 1, last_error: expect.stringContaining('ETIMEDOUT') })
  expect(received).toBe(1)
  // It is taken again only now.
  service.clock.advance(3600)
  await expect.poll(row).toMatchObject({ attempts: 2, sent_at: expect.any(Date) })
  expect(received).toBe(2)
})
