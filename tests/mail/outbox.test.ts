import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import PostalMime from 'postal-mime'
import { beforeEach, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { createSender } from '../../src/mail/sender.ts'
import { queueMail } from '../../src/mail/service.ts'
import { openTransport, SendFailure, type Transport } from '../../src/mail/transport.ts'
import { openMailbox } from '../support/mailbox.ts'
import {
  type Clock,
  createClock,
  openTestService,
  type TestService,
  times,
  useSharedService,
} from '../support/test-service.ts'

/** The outbox, from a queued email to its end. */

const KIND = 'password_changed' as const

/** Queues emails to users of a new company, and returns their addresses. */
async function queue(service: TestService, count: number): Promise<string[]> {
  const admin = await service.addCompany()
  const users = await Promise.all(times(count, () => service.addUser(admin)))
  for (const { email } of users) await queueTo(service, admin, email)
  return users.map(({ email }) => email)
}

async function queueTo({ db, clock }: TestService, { companyId }: { companyId: string }, recipient: string) {
  await queueMail(db, clock, companyId, { kind: KIND, recipient, data: {}, now: clock.now() })
}

async function unsettled({ db }: TestService): Promise<number> {
  const mails = db.selectFrom('mail_outbox').select('mail_id').where('sent_at', 'is', null)
  return (await mails.where('failed_at', 'is', null).execute()).length
}
async function leased({ db }: TestService): Promise<number> {
  const mails = db.selectFrom('mail_outbox').select('mail_id')
  return (await mails.where('leased_until', 'is not', null).execute()).length
}
const settled = (service: TestService) => expect.poll(() => unsettled(service)).toBe(0)

describe('senders', async () => {
  const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
  await service.senders[0]?.stop()

  beforeEach(async () => {
    await service.db.deleteFrom('mail_outbox').execute()
  })

  /** One more sender, with a transport of the test. */
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

  /** One that sends everything. */
  function openWorking(options?: Parameters<typeof openSender>[1]) {
    const sent: string[] = []
    const send: Transport['send'] = async ({ to }) => {
      sent.push(to)
      return {}
    }
    return { ...openSender(send, options), sent }
  }

  async function sendTheRest(): Promise<string[]> {
    const sender = openWorking()
    sender.start()
    await settled(service)
    await sender.stop()
    return sender.sent
  }

  const rows = () => service.db.selectFrom('mail_outbox').selectAll().execute()

  test('several senders send each email once, even with a fast clock', async () => {
    const addresses = await queue(service, 30)
    const ahead = createClock()
    ahead.advance(60)
    const senders = [openWorking(), openWorking(), openWorking({ clock: ahead })]
    for (const sender of senders) sender.start()
    await settled(service)
    await Promise.all(senders.map((sender) => sender.stop()))
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
    await expect.poll(() => unsettled(service)).toBe(5)
    expect(survivor.sent).toHaveLength(15)
    // However far a clock is ahead, the lease lasts.
    service.clock.advance(3600)
    addresses.push(...(await queue(service, 1)))
    await expect.poll(() => survivor.sent.length).toBe(16)
    await survivor.stop()
    expect(await unsettled(service)).toBe(5)

    const leases = await sql<{ seconds: number }>`
      select extract(epoch from leased_until - clock_timestamp())::float8 as seconds from mail_outbox
      where sent_at is null`.execute(service.db)
    for (const { seconds } of leases.rows) expect(seconds).toBeLessThanOrEqual(60)
    // Leases end by the clock of the database.
    service.clock.advance(60)
    await sql`update mail_outbox set leased_until = leased_until - interval '60 seconds'`.execute(service.db)
    const sent = [...survivor.sent, ...(await sendTheRest())]
    expect(sent.toSorted()).toEqual(addresses.toSorted())
  })

  test('a stopping sender hands unsent emails back, and counts no attempt', async () => {
    const addresses = await queue(service, 7)
    const stopping = openSender((_message, signal) => {
      const { promise, reject } = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => reject(signal.reason))
      return promise
    })
    stopping.start()
    await expect.poll(() => leased(service)).toBe(5)
    await stopping.stop()
    expect(stopping.notes).toEqual(times(5, () => 'waiting'))
    for (const row of await rows())
      expect(row).toMatchObject({ attempts: 0, leased_until: null, last_error: null })
    expect((await sendTheRest()).toSorted()).toEqual(addresses.toSorted())
  })

  test('a stopping sender does not send the email that it composes', async () => {
    await queue(service, 1)
    const { promise: composed, resolve: compose } = Promise.withResolvers<void>()
    const sender = openWorking({ waitFor: composed })
    sender.start()
    await expect.poll(() => leased(service)).toBe(1)
    const stopping = sender.stop()
    compose()
    await stopping
    expect([sender.sent, await unsettled(service), await leased(service)]).toEqual([[], 1, 0])
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
    const unknown = (await rows()).filter(({ sent_at: at }) => at === null)
    expect(unknown).toMatchObject([{ attempts: 0, last_error: null, leased_until: null }])
  })

  test('an email that was sent during an outage is not sent again', async () => {
    await queue(service, 1)
    await sql`create sequence notes`.execute(service.db)
    await sql`create function fail_twice() returns trigger language plpgsql as $$ begin
      if nextval('notes') < 3 then raise exception 'not now'; end if; return new; end $$`.execute(service.db)
    await sql`create trigger fail before update on mail_outbox for each row when (new.sent_at is not null)
      execute function fail_twice()`.execute(service.db)
    const sender = openWorking()
    sender.start()
    await settled(service)
    await sender.stop()
    await sql`drop trigger fail on mail_outbox`.execute(service.db)
    expect([sender.sent.length, sender.notes]).toEqual([1, ['sent']])
  })

  describe('failures', () => {
    const AWAY = {
      code: 'ESOCKET',
      originalCode: 'ECONNREFUSED',
      address: '127.0.0.1',
      port: 25,
      command: 'CONN',
    }

    /** Tries to send what is due, and returns the row of the only email. */
    async function failOnce(details: object, clock: Clock = service.clock) {
      const words = new Error('550 <ada@x.example> is unknown here')
      const sender = openSender(
        async () => {
          throw new SendFailure(Object.assign(words, details))
        },
        { clock },
      )
      sender.start()
      await expect.poll(() => sender.notes).toHaveLength(1)
      await sender.stop()
      const [row] = await rows()
      if (!row) throw new Error('the email is gone')
      return row
    }

    test.for([
      [1, 4],
      [10, 2048],
      [11, 3600],
    ] as const)(
      'attempt %i is retried after half of up to all of %i seconds',
      async ([attempts, longest]) => {
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
          expect(row.last_error).toBe('ESOCKET ECONNREFUSED 127.0.0.1:25 CONN')
        }
      },
    )

    test('an email is retried for a day, whatever the mail server refuses', async () => {
      await queue(service, 1)
      for (const [details, reason] of [
        [
          { code: 'EAUTH', command: 'AUTH PLAIN', responseCode: 535, permanent: true },
          'EAUTH AUTH PLAIN 535',
        ],
        // None of the words, which quote the address.
        [{}, 'unknown'],
      ] as const) {
        expect(await failOnce(details)).toMatchObject({ failed_at: null, last_error: reason })
        service.clock.advance(60)
      }
      service.clock.advance(86_400)
      expect((await failOnce(AWAY)).failed_at).not.toBeNull()
    })

    test('a refused recipient is retried, and delays no others', async () => {
      const [unknown = '', full = '', relayed = '', locked = '', good = ''] = await queue(service, 5)
      const mailbox = await openMailbox({
        refusals: {
          [unknown]: [550, '5.1.1 No such user'],
          [full]: [452, '4.2.2 Mailbox full'],
          [relayed]: [550, '5.7.1 Relaying denied'],
          [locked]: [530, 'Authentication required'],
        },
      })
      const transport = openTransport(loadConfig({ SMTP_URL: mailbox.url }))
      const sender = openSender(transport.send)
      sender.start()
      await expect.poll(() => sender.notes).toHaveLength(5)
      await sender.stop()
      transport.close()
      const errors = (await rows()).map((row) => [row.recipient, row.failed_at ?? row.last_error])
      expect(Object.fromEntries(errors)).toEqual({
        [unknown]: 'EENVELOPE RCPT TO 550',
        [full]: 'EENVELOPE RCPT TO 452',
        [relayed]: 'EENVELOPE RCPT TO 550',
        [locked]: expect.stringMatching(/ 530$/),
        [good]: null,
      })
      expect(mailbox.mails.map(({ recipients }) => recipients)).toEqual([[good]])
    })
  })
})

test('all emails are sent once an unreachable mail server returns', async () => {
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url } })
  await mailbox.stop()
  const addresses = await queue(service, 3)
  const person = await service.addCompany()
  const mails = service.db.selectFrom('mail_outbox')
  const failed = mails.select('mail_id').where('last_error', 'is not', null)
  await expect.poll(() => failed.execute()).toHaveLength(3)
  const { companyId, email } = person
  expect((await service.call('/auth/password/forgot', { json: { companyId, email } })).status).toBe(202)
  expect((await service.login(person)).status).toBe(200)
  service.clock.advance(30)
  /** Unknown where the database does not respond within a second. */
  const metric = async (name: string) => {
    const text = (await service.registries[0]?.metrics()) ?? ''
    return Number(new RegExp(`^gatehouse_mail_${name} (\\S+)$`, 'm').exec(text)?.[1])
  }
  await expect.poll(() => metric('waiting')).toBe(4)
  await expect.poll(() => metric('oldest_seconds')).toBeGreaterThanOrEqual(30)

  // An attempt that failed after the clock has moved would be postponed to a time that does not come.
  const due = mails.select('mail_id').where((where) => {
    const isDue = where('next_attempt_at', '<=', new Date(service.clock.now()))
    return where.or([isDue, where('leased_until', 'is not', null)])
  })
  await expect.poll(() => due.execute()).toEqual([])
  expect(mailbox.mails).toEqual([])
  await mailbox.start()
  service.clock.advance(120)
  await settled(service)
  const delivered = mailbox.mails.map(({ recipients }) => recipients.join())
  expect(delivered.toSorted()).toEqual([...addresses, email].toSorted())
  await expect.poll(() => metric('waiting')).toBe(0)
  expect(service.logs.join('')).toContain('"msg":"mail: postponed"')
})

test('an email to a user who is disabled or unknown is dropped', async () => {
  const { service, mailbox } = await useSharedService()
  const admin = await service.addCompany()
  const disabled = await service.addUser(admin)
  const user = service.db.updateTable('users').where('user_id', '=', disabled.userId)
  await user.set({ status: 'disabled' }).execute()
  const recipients = [disabled.email, `nobody@${admin.companyId}.example`]
  for (const recipient of recipients) await queueTo(service, admin, recipient)
  const left = service.db.selectFrom('mail_outbox').select('kind').where('company_id', '=', admin.companyId)
  await expect.poll(() => left.execute()).toEqual([])
  expect(mailbox.mails.filter((mail) => mail.recipients.some((to) => recipients.includes(to)))).toEqual([])
})

describe('the mail folder', async () => {
  const service = await openTestService()
  const folder = join(service.config.dataDir, 'mail')

  test('an email waits while its folder cannot be written', async () => {
    await writeFile(folder, 'in the way')
    await queue(service, 1)
    const errors = service.db.selectFrom('mail_outbox').select(['last_error', 'failed_at'])
    await expect.poll(() => errors.execute()).toEqual([{ last_error: 'EEXIST mkdir', failed_at: null }])
    const lines = () => service.logs.filter((line) => line.includes('mail: postponed'))
    await expect.poll(() => lines().length).toBeGreaterThan(0)
    for (const line of lines()) {
      expect(JSON.parse(line)).toMatchObject({ reason: 'EEXIST mkdir' })
      expect(line).not.toContain('stack')
    }
    await rm(folder)
    service.clock.advance(3600)
    await settled(service)
    expect((await readdir(folder)).map((name) => name.slice(-4)).sort()).toEqual(['.eml', '.txt'])
  })

  test('without a mail server, an email becomes files for its owner only', async () => {
    await rm(folder, { recursive: true })
    const longest = `${'x'.repeat(60)}@${`${'y'.repeat(60)}.`.repeat(3)}example`
    const admin = await service.addCompany()
    const user = service.db.updateTable('users').where('user_id', '=', admin.userId)
    await user.set({ email: longest }).execute()
    await queueTo(service, admin, longest)
    await settled(service)
    const [name = '', plain = '', ...others] = (await readdir(folder)).sort()
    expect(others).toEqual([])
    expect([name, plain]).toEqual([expect.stringMatching(/\.eml$/), name.replace('.eml', '.txt')])
    for (const one of [name, plain]) expect((await stat(join(folder, one))).mode & 0o777).toBe(0o600)
    const email = await PostalMime.parse(await readFile(join(folder, name), 'utf8'))
    expect(email.to?.[0]?.address).toBe(longest)
    await expect.poll(() => service.logs.join('')).toContain(JSON.stringify(join(folder, name)))
  })
})
