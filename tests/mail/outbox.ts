import { expect } from 'vitest'
import type { TestService } from '../support/test-service.ts'

/** Reads the emails of a service: queued, sent, or failed. */

type Outbox = Pick<TestService, 'db'>

export async function rowsOf({ db }: Outbox, recipient?: string) {
  const rows = await db.selectFrom('mail_outbox').selectAll().execute()
  return rows.filter((row) => recipient === undefined || row.recipient === recipient)
}

export async function unsettledIn(outbox: Outbox, recipient?: string) {
  return (await rowsOf(outbox, recipient)).filter((row) => !row.sent_at && !row.failed_at)
}

export async function leasedIn(outbox: Outbox) {
  return (await rowsOf(outbox)).filter((row) => row.leased_until)
}

export const allSettled = (outbox: Outbox) => expect.poll(() => unsettledIn(outbox)).toEqual([])

/** Resolves once each email was sent, has failed, or waits for a later time. */
export async function noneDue(service: Outbox & Pick<TestService, 'clock'>): Promise<void> {
  const now = service.clock.now()
  const due = async () =>
    (await unsettledIn(service)).filter((row) => row.leased_until || row.next_attempt_at.getTime() <= now)
  await expect.poll(due).toEqual([])
}
