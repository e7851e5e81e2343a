import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import PostalMime from 'postal-mime'
import { beforeEach, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { createSender } from '../../src/mail/sender.ts'
import { queueMail } from '../../src/mail/service.ts'
import { openTransport, SendFailure, type Transport } from '../../src/mail/transport.ts'
import { linesOf } from '../support/log-lines.ts'
import { openMailbox } from '../support/mailbox.ts'
import type { Clock, Person, TestService } from '../support/test-service.ts'
import { createClock, openTestService, times } from '../support/test-service.ts'
import { allSettled, leasedIn, noneDue, rowsOf, unsettledIn } from './outbox.ts'

const KIND = 'password_changed' as const
const AWAY = { code: 'ESOCKET', originalCode: 'ECONNREFUSED', address: '10.0.0.1', port: 25, command: 'CONN' }

/** Queues emails to users of a new company, and returns their addresses. */
async function queue(service: TestService, count: number): Promise<string[]> {
  const admin = await service.addCompany()
  const users = await Promise.all(times(count, () => service.addUser(admin)))
  for (const { email } of users) await queueTo(service, admin, email)
  return users.map(({ email }) => email)
}

async function queueTo({ db, clock }: TestService, { companyId }: Person, recipient: string) {
  await queueMail(db, clock, companyId, { kind: KIND, recipient, data: {}, now: clock.now() })
}

const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
await service.senders[0]?.stop()

beforeEach(async () => {
  await service.db.deleteFrom('mail_outbox').execute()
})

/** An additional sender with the test's transport. */
function openSender(
  send: Transport['send'],
  { clock = service.clock as Clock, waitFor = Promise.resolve() } = {},
) {
  const notes: string[] = []
  const sender = createSender({
    db: service.db,
    system: clock,
    transport: { destination: 'nowhere', send, close() {} },
    limit: service.config.limits.mailToAddress,
    compose: async () => async () => {
      await waitFor
      return { name: 'Reader', subject: 'A letter', paragraphs: ['Text.'] }
    },
    note: (end) => notes.push(end),
  })
  return { ...sender, notes }
}

/** A sender that succeeds with every email. */
function openWorking(options?: Parameters<typeof openSender>[1]) {
  const sent: string[] = []
  const send: Transport['send'] = async ({ to }) => {
    sent.push(to)
    return {}
  }
  return { ...openSender(send, options), sent }
}

async function sendAllWith(...senders: Pick<ReturnType<typeof openSender>, 'start' | 'stop'>[]) {
  for (const sender of senders) sender.start()
  await allSettled(service)
  await Promise.all(senders.map((sender) => sender.stop()))
}

async function sendTheRest(): Promise<string[]> {
  const sender = openWorking()
  await sendAllWith(sender)
  return sender.sent
}

test('several senders send each email once, even with a fast clock', async () => {
  const addresses = await queue(service, 30)
  const ahead = createClock()
  ahead.advance(60)
  const senders = [openWorking(), openWorking(), openWorking({ clock: ahead })]
  await sendAllWith(...senders)
  expect(senders.flatMap(({ sent }) => sent).toSorted()).toEqual(addresses.toSorted())
})

test('senders take over the emails of a killed instance after a minute', async () => {
  const addresses = await queue(service, 20)
  let taken = 0
  const killed = openSender(() => {
    taken += 1
    return new Promise(() => {})
  })
  killed.start()
  await expect.poll(() => taken).toBe(5)

  const survivor = openWorking()
  survivor.start()
  await expect.poll(() => unsettledIn(service)).toHaveLength(5)
  expect(survivor.sent).toHaveLength(15)
  // The lease lasts, however far ahead a clock is.
  service.clock.advance(3600)
  addresses.push(...(await queue(service, 1)))
  await expect.poll(() => survivor.sent.length).toBe(16)
  await survivor.stop()
  expect(await unsettledIn(service)).toHaveLength(5)

  const leases = await sql<{ seconds: number }>`
    select extract(epoch from leased_until - clock_timestamp())::float8 as seconds from mail_outbox
    where sent_at is null`.execute(service.db)
  for (const { seconds } of leases.rows) expect(seconds).toBeLessThanOrEqual(60)
  // Leases end by the database's clock.
  service.clock.advance(60)
  await sql`update mail_outbox set leased_until = leased_until - interval '60 seconds'`.execute(service.db)
  const sent = [...survivor.sent, ...(await sendTheRest())]
  expect(sent.toSorted()).toEqual(addresses.toSorted())
})

test('a stopping sender returns unsent emails to the queue, uncounted', async () => {
  const addresses = await queue(service, 7)
  const stopping = openSender((_message, signal) => {
    const { promise, reject } = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => reject(signal.reason))
    return promise
  })
  stopping.start()
  await expect.poll(() => leasedIn(service)).toHaveLength(5)
  await stopping.stop()
  expect(stopping.notes).toEqual(times(5, () => 'waiting'))
  const untouched = { attempts: 0, leased_until: null, last_error: null }
  expect(await rowsOf(service)).toMatchObject(times(7, () => untouched))
  expect((await sendTheRest()).toSorted()).toEqual(addresses.toSorted())
})

test('a stopping sender does not send the email that it is composing', async () => {
  await queue(service, 1)
  const { promise: composed, resolve: compose } = Promise.withResolvers<void>()
  const sender = openWorking({ waitFor: composed })
  sender.start()
  await expect.poll(() => leasedIn(service)).toHaveLength(1)
  const stopping = sender.stop()
  compose()
  await stopping
  expect(sender.sent).toEqual([])
  expect(await unsettledIn(service)).toMatchObject([{ leased_until: null }])
})

test('senders leave kinds of email that only a newer release knows', async () => {
  await sql`alter table mail_outbox drop constraint mail_outbox_kind_check`.execute(service.db)
  await queue(service, 1)
  await sql`update mail_outbox set kind = 'of_tomorrow'`.execute(service.db)
  const [known] = await queue(service, 1)
  const sender = openWorking()
  sender.start()
  await expect.poll(() => sender.sent).toEqual([known])
  await sender.stop()
  const unknown = { kind: 'of_tomorrow', attempts: 0, last_error: null, leased_until: null }
  expect(await unsettledIn(service)).toMatchObject([unknown])
})

test('an email that was sent during an outage is not sent again', async () => {
  await queue(service, 1)
  await sql`create sequence notes`.execute(service.db)
  await sql`create function fail_twice() returns trigger language plpgsql as $$ begin
    if nextval('notes') < 3 then raise exception 'not now'; end if; return new; end $$`.execute(service.db)
  await sql`create trigger fail before update on mail_outbox for each row when (new.sent_at is not null)
    execute function fail_twice()`.execute(service.db)
  const sender = openWorking()
  await sendAllWith(sender)
  await sql`drop trigger fail on mail_outbox`.execute(service.db)
  expect([sender.sent.length, sender.notes]).toEqual([1, ['sent']])
})

/** Makes `count` attempts. */
async function attempt(send: Transport['send'], count: number, clock: Clock = service.clock) {
  const sender = openSender(send, { clock })
  sender.start()
  await expect.poll(() => sender.notes).toHaveLength(count)
  await sender.stop()
}

/** Attempts what is due, and returns the row of the only email. */
async function failOnce(details: object, clock: Clock = service.clock) {
  const failure = new SendFailure(Object.assign(new Error('550 <ada@x.example> is unknown here'), details))
  await attempt(() => Promise.reject(failure), 1, clock)
  const [row] = await rowsOf(service)
  if (!row) throw new Error('the email is gone')
  return row
}

test.for([
  [1, 4],
  [10, 2048],
  [11, 3600],
] as const)('attempt %i is retried after 50% to 100% of %i seconds', async ([attempts, longest]) => {
  await queue(service, 1)
  for (const [randomBytes, least] of [
    [(size: number) => Buffer.alloc(size, 0), longest],
    [(size: number) => Buffer.alloc(size, 255), longest / 2],
  ] as const) {
    const past = { attempts: attempts - 1, next_attempt_at: new Date(service.clock.now()) }
    await service.db.updateTable('mail_outbox').set(past).execute()
    const row = await failOnce(AWAY, { ...service.clock, randomBytes })
    const delay = (row.next_attempt_at.getTime() - service.clock.now()) / 1000
    expect(delay).toBeCloseTo(least, 1)
    expect(row).toMatchObject({ attempts, sent_at: null, failed_at: null })
    expect(row.last_error).toBe('ESOCKET ECONNREFUSED 10.0.0.1:25 CONN')
  }
})

test('an email is retried for a day, whatever the mail server refuses (ASVS 13.2.6)', async () => {
  await queue(service, 1)
  const refusal = { code: 'EAUTH', command: 'AUTH PLAIN', responseCode: 535, permanent: true }
  expect(await failOnce(refusal)).toMatchObject({ failed_at: null, last_error: 'EAUTH AUTH PLAIN 535' })
  service.clock.advance(60)
  // The server's words are not stored, because they quote the address.
  expect(await failOnce({})).toMatchObject({ failed_at: null, last_error: 'unknown' })
  service.clock.advance(86_400)
  expect((await failOnce(AWAY)).failed_at).not.toBeNull()
})

test('a refused recipient is retried without a delay for others', async () => {
  const [unknown = '', full = '', good = ''] = await queue(service, 3)
  const mailbox = await openMailbox({
    refusals: {
      [unknown]: [550, '5.1.1 No such user'],
      [full]: [452, '4.2.2 Mailbox full'],
    },
  })
  const transport = openTransport(loadConfig({ SMTP_URL: mailbox.url }))
  await attempt(transport.send, 3)
  transport.close()
  const errors = (await rowsOf(service)).map((row) => [row.recipient, row.failed_at ?? row.last_error])
  expect(Object.fromEntries(errors)).toEqual({
    [unknown]: 'EENVELOPE RCPT TO 550',
    [full]: 'EENVELOPE RCPT TO 452',
    [good]: null,
  })
  expect(mailbox.mails.map(({ recipients }) => recipients)).toEqual([[good]])
})

test('all emails are sent once an unreachable mail server returns', async () => {
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url } })
  await mailbox.stop()
  const addresses = await queue(service, 3)
  const postponed = async () => (await rowsOf(service)).filter((row) => row.last_error)
  await expect.poll(postponed).toHaveLength(3)
  service.clock.advance(30)
  // The metrics are unknown while the database does not respond within a second.
  await expect.poll(() => service.metric('gatehouse_mail_waiting')).toBe(3)
  await expect.poll(() => service.metric('gatehouse_mail_oldest_seconds')).toBeGreaterThanOrEqual(30)

  // If an attempt failed after the clock moved, it would be postponed to a time that never comes.
  await noneDue(service)
  expect(mailbox.mails).toEqual([])
  await mailbox.start()
  service.clock.advance(120)
  await allSettled(service)
  const delivered = mailbox.mails.map(({ recipients }) => recipients.join())
  expect(delivered.toSorted()).toEqual(addresses.toSorted())
  await expect.poll(() => service.metric('gatehouse_mail_waiting')).toBe(0)
  expect(service.logs.join('')).toContain('"msg":"mail: postponed"')
})

test('without a mail server, emails become files for their owner only', async () => {
  const service = await openTestService()
  const folder = join(service.config.dataDir, 'mail')
  await writeFile(folder, 'in the way')
  const longest = `${'x'.repeat(60)}@${`${'y'.repeat(60)}.`.repeat(3)}example`
  const admin = await service.addCompany()
  const user = service.db.updateTable('users').where('user_id', '=', admin.userId)
  await user.set({ email: longest }).execute()
  await queueTo(service, admin, longest)
  const reason = 'EEXIST mkdir'
  await expect.poll(() => rowsOf(service)).toMatchObject([{ last_error: reason, failed_at: null }])
  const lines = () => linesOf(service).filter(({ msg }) => msg === 'mail: postponed')
  await expect.poll(lines).toMatchObject([{ reason }])
  await rm(folder)
  service.clock.advance(3600)
  await allSettled(service)
  const [name = '', plain = '', ...others] = (await readdir(folder)).sort()
  expect([name, plain]).toEqual([expect.stringMatching(/\.eml$/), name.replace('.eml', '.txt')])
  expect(others).toEqual([])
  for (const one of [name, plain]) expect((await stat(join(folder, one))).mode & 0o777).toBe(0o600)
  const email = await PostalMime.parse(await readFile(join(folder, name), 'utf8'))
  expect(email.to?.[0]?.address).toBe(longest)
  await expect.poll(() => service.logs.join('')).toContain(JSON.stringify(join(folder, name)))
})
