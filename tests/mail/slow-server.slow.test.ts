import { expect, test } from 'vitest'
import { openMailbox } from '../support/mailbox.ts'
import { openTestService } from '../support/test-service.ts'

/** As long as another sender leaves a mail to the one that took it. */
const LEASE_MS = 60_000

test('a mail that the server is slow to accept is sent by one sender: its attempt ends before its lease', async () => {
  let received = 0
  const mailbox = await openMailbox({
    onMessage: async () => {
      received += 1
      await new Promise(() => {})
    },
  })
  const service = await openTestService({ instances: 2, env: { SMTP_URL: mailbox.url } })
  const { companyId, email } = await service.addCompany()
  const started = performance.now()
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  await expect.poll(() => received).toBe(1)
  const row = () => service.db.selectFrom('mail_outbox').selectAll().executeTakeFirstOrThrow()
  expect((await row()).leased_until).not.toBeNull()
  // However far the clocks of other instances are ahead.
  service.clock.advance(3600)
  await expect
    .poll(row, { timeout: LEASE_MS, interval: 500 })
    .toMatchObject({ leased_until: null, attempts: 1 })
  expect(performance.now() - started).toBeLessThan(LEASE_MS - 15_000)
  expect(received).toBe(1)
  expect((await row()).last_error).toContain('ETIMEDOUT')
}, 90_000)
