import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
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
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  await expect.poll(() => received).toBe(1)
  const row = () => service.db.selectFrom('mail_outbox').selectAll().executeTakeFirstOrThrow()
  expect((await row()).leased_until).not.toBeNull()
  // However far the clocks of other instances are ahead.
  service.clock.advance(3600)
  // Whoever took it after the lease would have made a second attempt, so the first one gave it back.
  await expect.poll(async () => (await row()).leased_until, { interval: 500 }).toBeNull()
  expect(await row()).toMatchObject({ attempts: 1, last_error: expect.stringContaining('ETIMEDOUT') })
  expect(received).toBe(1)
  // And only then it is taken again.
  service.clock.advance(3600)
  await expect.poll(() => received).toBe(2)
  expect(await row()).toMatchObject({ attempts: 2 })
})

test('a mail that was sent while the database was away for half of its lease is noted, and not sent again', async () => {
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url } })
  const { companyId, email } = await service.addCompany()
  await sql`create function away() returns trigger language plpgsql as
    'begin raise exception ''away'' using errcode = ''57P01''; end'`.execute(service.db)
  await sql`create trigger away before update on mail_outbox for each row when (new.sent_at is not null)
    execute function away()`.execute(service.db)
  const received = () => mailbox.mails.filter(({ recipients }) => recipients.includes(email)).length
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  await expect.poll(received).toBe(1)
  // A busy machine has the rest of the lease.
  await sleep(LEASE_MS / 2)
  await sql`drop trigger away on mail_outbox`.execute(service.db)
  const row = () => service.db.selectFrom('mail_outbox').selectAll().executeTakeFirstOrThrow()
  await expect.poll(row, { timeout: LEASE_MS }).toMatchObject({ attempts: 1, sent_at: expect.any(Date) })
  expect(received()).toBe(1)
})
