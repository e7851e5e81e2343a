import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { sql } from 'kysely'
import PostalMime from 'postal-mime'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { createSender } from '../../src/mail/sender.ts'
import { queueMail } from '../../src/mail/service.ts'
import { openTransport, SendFailure, type Transport } from '../../src/mail/transport.ts'
import { openMailbox } from '../support/mailbox.ts'
import {
  countWaiting,
  createClock,
  openTestService,
  type TestService,
  times,
} from '../support/test-service.ts'

const KIND = 'password_changed' as const

/** Queues mails to users of a new company, and returns their addresses. */
async function queue(service: TestService, count: number): Promise<string[]> {
  const admin = await service.addCompany()
  const { rows } = await sql<{ email: string }>`
    insert into users (company_id, user_id, email, name, role, assignments, status, password_hash, email_verified_at,
      created_at)
    select company_id, gen_random_uuid(), 'reader' || n || '@' || company_id || '.example', 'Reader', role, assignments,
      status, password_hash, created_at, created_at
    from users, generate_series(1, ${count}) n where user_id = ${admin.userId}
    returning email`.execute(service.db)
  const { companyId } = admin
  for (const { email } of rows) {
    const mail = { kind: KIND, recipient: email, data: {}, now: service.clock.now() } as const
    await queueMail(service.db, service.clock, companyId, mail)
  }
  return rows.map(({ email }) => email)
}

const unsettled = async ({ db }: TestService) =>
  (
    await db
      .selectFrom('mail_outbox')
      .select('mail_id')
      .where('sent_at', 'is', null)
      .where('failed_at', 'is', null)
      .execute()
  ).length

const settled = (service: TestService) => expect.poll(() => unsettled(service)).toBe(0)

const leased = async ({ db }: TestService) =>
  (await db.selectFrom('mail_outbox').select('mail_id').where('leased_until', 'is not', null).execute())
    .length

/** Lets leases end, which are by the clock of the database. */
async function passTime({ db, clock }: TestService, seconds: number) {
  clock.advance(seconds)
  await sql`update mail_outbox set leased_until = leased_until - ${seconds} * interval '1 second'`.execute(db)
}

/** A sender besides those of the service, on a clock of its own, that fares as it is told. */
function openSender(
  service: TestService,
  send: Transport['send'],
  { clock = service.clock, waitFor = Promise.resolve() } = {},
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

/** Sends what waits, by one more sender; returns its recipients. */
async function sendTheRest(service: TestService): Promise<string[]> {
  const sent: string[] = []
  const sender = openSender(service, async ({ to }) => {
    sent.push(to)
    return {}
  })
  sender.start()
  await settled(service)
  await sender.stop()
  return sent
}

test('a kind of mail that only a newer release knows is left to its instances', async () => {
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url } })
  await sql`alter table mail_outbox drop constraint mail_outbox_kind_check`.execute(service.db)
  const [unknown = ''] = await service.db.transaction().execute(async (tx) => {
    const recipients = await queue({ ...service, db: tx }, 1)
    await sql`update mail_outbox set kind = 'of_tomorrow'`.execute(tx)
    return recipients
  })
  const [known = ''] = await queue(service, 1)
  await mailbox.mailTo(known)
  const rows = await service.db
    .selectFrom('mail_outbox')
    .select(['attempts', 'last_error', 'sent_at'])
    .where('recipient', '=', unknown)
    .execute()
  expect(rows).toEqual([{ attempts: 0, last_error: null, sent_at: null }])
})

describe('with several instances', async () => {
  const mailbox = await openMailbox()

  test('each of 500 mails is delivered, and none of them twice', async () => {
    const service = await openTestService({ instances: 3, env: { SMTP_URL: mailbox.url } })
    const addresses = await queue(service, 500)
    await settled(service)
    const delivered = mailbox.mails.map(({ recipients }) => recipients.join())
    expect(delivered.toSorted()).toEqual(addresses.toSorted())
  })

  test('what an instance had taken when it was killed is sent by another, a minute later', async () => {
    const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
    await service.senders[0]?.stop()
    const addresses = await queue(service, 20)
    // It takes mails and is heard of no more.
    let taken = 0
    const killed = openSender(service, () => {
      taken += 1
      return new Promise(() => {})
    })
    killed.start()
    await expect.poll(() => taken).toBe(5)

    const sent: string[] = []
    const survivor = openSender(service, async ({ to }) => {
      sent.push(to)
      return {}
    })
    survivor.start()
    await expect.poll(() => unsettled(service)).toBe(5)
    expect(sent.length).toBe(15)
    // However far a clock is ahead, the lease lasts.
    service.clock.advance(3600)
    addresses.push(...(await queue(service, 1)))
    await expect.poll(() => sent.length).toBe(16)
    await survivor.stop()
    expect(await unsettled(service)).toBe(5)

    const leases = await sql<{ seconds: number }>`
      select extract(epoch from leased_until - clock_timestamp())::float8 as seconds from mail_outbox
      where sent_at is null`.execute(service.db)
    for (const { seconds } of leases.rows) expect(seconds).toBeLessThanOrEqual(60)
    await passTime(service, 60)
    sent.push(...(await sendTheRest(service)))
    expect(sent.toSorted()).toEqual(addresses.toSorted())
  })

  test('what an instance has not sent when it stops is sent by another at once, and no attempt counts', async () => {
    const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
    await service.senders[0]?.stop()
    const addresses = await queue(service, 7)
    // The mail server goes silent.
    const stopping = openSender(service, (_message, signal) => {
      const { promise, reject } = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => reject(signal.reason))
      return promise
    })
    stopping.start()
    await expect.poll(() => leased(service)).toBe(5)
    await stopping.stop()
    expect(stopping.notes).toEqual(times(5, () => 'waiting'))
    const rows = await service.db.selectFrom('mail_outbox').selectAll().execute()
    for (const row of rows) expect(row).toMatchObject({ attempts: 0, leased_until: null, last_error: null })

    const sent = await sendTheRest(service)
    expect(sent.toSorted()).toEqual(addresses.toSorted())
  })

  test('what an instance composes when it stops is not sent by it', async () => {
    const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
    await service.senders[0]?.stop()
    await queue(service, 1)
    const { promise: composed, resolve: compose } = Promise.withResolvers<void>()
    let sent = 0
    const sender = openSender(
      service,
      async () => {
        sent += 1
        return {}
      },
      { waitFor: composed },
    )
    sender.start()
    await expect.poll(() => leased(service)).toBe(1)
    const stopping = sender.stop()
    compose()
    await stopping
    expect([sent, await unsettled(service), await leased(service)]).toEqual([0, 1, 0])
  })

  test('a clock that is a minute ahead makes no mail go twice', async () => {
    const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
    await service.senders[0]?.stop()
    const addresses = await queue(service, 30)
    const sent: string[] = []
    const send: Transport['send'] = async ({ to }) => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      sent.push(to)
      return {}
    }
    const ahead = createClock()
    ahead.advance(60)
    const senders = [openSender(service, send), openSender(service, send, { clock: ahead })]
    for (const sender of senders) sender.start()
    await settled(service)
    await Promise.all(senders.map((sender) => sender.stop()))
    expect(sent.toSorted()).toEqual(addresses.toSorted())
  })
})

describe('a mail server that is away', async () => {
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url } })

  test('costs no mail and no request: all are sent once it returns', async () => {
    await mailbox.stop()
    const addresses = await queue(service, 10)
    const person = await service.addCompany()
    await expect
      .poll(async () => {
        const rows = await service.db.selectFrom('mail_outbox').select('last_error').execute()
        return rows.filter(({ last_error: error }) => error !== null).length
      })
      .toBe(10)
    for (let second = 0; second < 30; second += 5) {
      const { companyId, email } = person
      expect((await service.call('/auth/password/forgot', { json: { companyId, email } })).status).toBe(202)
      expect((await service.login(person)).status).toBe(200)
      service.clock.advance(5)
    }
    expect(mailbox.mails).toEqual([])
    /** Unknown where the database does not answer within a second. */
    const metric = async (name: string) => {
      const text = (await service.registries[0]?.metrics()) ?? ''
      return Number(new RegExp(`^gatehouse_mail_${name} (\\S+)$`, 'm').exec(text)?.[1])
    }
    // Of the resets an earlier one is dropped when its turn comes after a later one's.
    await expect.poll(() => metric('waiting')).toBeGreaterThan(10)
    await expect.poll(() => metric('waiting')).toBeLessThanOrEqual(16)
    await expect.poll(() => metric('oldest_seconds')).toBeGreaterThanOrEqual(30)

    // An attempt that fails after the clock has moved would be postponed to a time that does not come. While one is
    // in progress, its mail is leased; postponed mails are due within two minutes.
    await expect
      .poll(async () => {
        const now = service.clock.now()
        const rows = await service.db
          .selectFrom('mail_outbox')
          .select(['next_attempt_at', 'leased_until'])
          .execute()
        return rows.every(
          ({ next_attempt_at: at, leased_until: leased }) => leased === null && at.getTime() > now,
        )
      })
      .toBe(true)
    await mailbox.start()
    service.clock.advance(120)
    await settled(service)
    const delivered = mailbox.mails.map(({ recipients }) => recipients.join())
    expect(delivered.filter((to) => to !== person.email).toSorted()).toEqual(addresses.toSorted())
    expect(delivered).toContain(person.email)
    await expect.poll(() => metric('waiting')).toBe(0)
    expect(service.logs.join('')).toContain('"msg":"mail: postponed"')
  })
})

describe('an attempt that fails', async () => {
  const service = await openTestService()
  await service.senders[0]?.stop()

  const readNewest = () =>
    service.db.selectFrom('mail_outbox').selectAll().orderBy('mail_id', 'desc').executeTakeFirstOrThrow()

  async function sendOnce(error: unknown) {
    // Ids follow the clock, and the newest mail is the one.
    service.clock.advance(1)
    await queue(service, 1)
    const sender = openSender(service, async () => {
      throw error
    })
    sender.start()
    // Others can be due as well.
    await expect.poll(async () => (await readNewest()).last_error).not.toBeNull()
    await sender.stop()
    return await readNewest()
  }
  const smtpError = (details: object) =>
    Object.assign(new Error('550 <ada@x.example> is unknown here'), details)
  const refused = {
    code: 'ESOCKET',
    originalCode: 'ECONNREFUSED',
    address: '127.0.0.1',
    port: 25,
    command: 'CONN',
  }

  test('is repeated after delays that grow, to an hour at most, and differ', async () => {
    const row = await sendOnce(new SendFailure(smtpError(refused)))
    expect(row).toMatchObject({
      attempts: 1,
      sent_at: null,
      failed_at: null,
      last_error: 'ESOCKET ECONNREFUSED 127.0.0.1:25 CONN',
    })
    const delays: number[][] = []
    for (let attempts = 1; attempts <= 14; attempts += 1) {
      const round = []
      for (let time = 0; time < 3; time += 1) {
        await sql`update mail_outbox set attempts = ${attempts - 1}, next_attempt_at = created_at
          where mail_id = ${row.mail_id}`.execute(service.db)
        const sender = openSender(service, async () => {
          throw new SendFailure(smtpError(refused))
        })
        sender.start()
        await expect.poll(() => sender.notes.length).toBeGreaterThan(0)
        await sender.stop()
        const { next_attempt_at: next } = await service.db
          .selectFrom('mail_outbox')
          .select('next_attempt_at')
          .where('mail_id', '=', row.mail_id)
          .executeTakeFirstOrThrow()
        round.push((next.getTime() - service.clock.now()) / 1000)
      }
      delays.push(round)
    }
    delays.forEach((round, index) => {
      const longest = Math.min(3600, 4 * 2 ** index)
      for (const delay of round) {
        expect(delay).toBeGreaterThanOrEqual(longest / 2 - 0.001)
        expect(delay).toBeLessThanOrEqual(longest)
      }
    })
    expect(new Set(delays.flat()).size).toBeGreaterThan(30)
  })

  test.each([
    [
      'the sender is refused',
      { code: 'EENVELOPE', command: 'MAIL FROM', responseCode: 553, permanent: true },
    ],
    ['the message is refused', { code: 'EMESSAGE', command: 'DATA', responseCode: 554, permanent: true }],
    ['the password is wrong', { code: 'EAUTH', command: 'AUTH PLAIN', responseCode: 535, permanent: true }],
    ['nobody answers', { code: 'ETIMEDOUT', command: 'CONN' }],
    ['of something else', {}],
  ])('because %s is not the last: our settings may be at fault', async (_what, details) => {
    const row = await sendOnce(new SendFailure(smtpError(details)))
    expect(row.failed_at).toBeNull()
    // None of the server's words, which quote the address.
    expect(row.last_error).toMatch(/^(E[A-Z]+( [A-Z ]+)?( \d{3})?|unknown)$/)
  })

  test('a day after the mail was queued is the last', async () => {
    service.clock.advance(1)
    await queue(service, 1)
    service.clock.advance(86_400)
    const sender = openSender(service, async () => {
      throw new SendFailure(smtpError(refused))
    })
    sender.start()
    await expect.poll(async () => (await readNewest()).failed_at).not.toBeNull()
    await sender.stop()
  })

  test('because the server does not go on fails after its time', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1')
    const { port } = await new Promise<{ port: number }>((resolve) =>
      silent.on('listening', () => resolve(silent.address() as { port: number })),
    )
    const transport = openTransport(loadConfig({ SMTP_URL: `smtp://127.0.0.1:${port}` }))
    const message = {
      id: 'x',
      kind: KIND,
      to: 'ada@x.example',
      at: new Date(0),
      subject: 's',
      text: 't',
      html: 'h',
    }
    await expect(transport.send(message, AbortSignal.timeout(200))).rejects.toThrow(SendFailure)
    transport.close()
    silent.close()
  })
})

test('a mail that was accepted and could not be noted at once is noted later, and not sent again', async () => {
  const service = await openTestService({ timeoutScale: 1, env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
  await service.senders[0]?.stop()
  await queue(service, 1)
  let sent = 0
  const { promise: gaveUp, resolve: release } = Promise.withResolvers<void>()
  let locking: Promise<unknown> | undefined
  const sender = openSender(service, async () => {
    sent += 1
    const { promise, resolve } = Promise.withResolvers<void>()
    locking = service.db.transaction().execute(async (tx) => {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
      await sql`lock table mail_outbox in exclusive mode`.execute(tx)
      resolve()
      await gaveUp
    })
    await promise
    return {}
  })
  sender.start()
  await expect.poll(() => countWaiting(service.db)).toBeGreaterThan(0)
  await expect.poll(() => countWaiting(service.db)).toBe(0)
  release()
  await settled(service)
  await locking
  await sender.stop()
  expect([sent, sender.notes.filter((end) => end === 'sent').length]).toEqual([1, 1])
  expect(sender.notes).not.toContain('postponed')
})

test('a recipient that the server refuses is tried again for a day, at growing distance, and delays no other', async () => {
  const service = await openTestService({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
  await service.senders[0]?.stop()
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
  const sender = openSender(service, transport.send)
  const rowOf = (address: string) =>
    service.db
      .selectFrom('mail_outbox')
      .selectAll()
      .where('recipient', '=', address)
      .executeTakeFirstOrThrow()
  const refused = [unknown, full, relayed, locked]
  const attemptsEnded = (count: number) =>
    expect
      .poll(async () =>
        (await Promise.all(refused.map(rowOf))).map((row) => [row.attempts, row.leased_until]),
      )
      .toEqual(refused.map(() => [count, null]))
  const started = service.clock.now()
  sender.start()
  await attemptsEnded(1)
  await expect.poll(async () => (await rowOf(good)).sent_at).not.toBeNull()
  expect((await rowOf(unknown)).last_error).toBe('EENVELOPE RCPT TO 550')

  const delays = []
  let attempt = 1
  for (let row = await rowOf(unknown); row.failed_at === null; row = await rowOf(unknown)) {
    delays.push(row.next_attempt_at.getTime() - service.clock.now())
    const next = Math.max(
      ...(await Promise.all(refused.map(rowOf))).map((one) => one.next_attempt_at.getTime()),
    )
    attempt += 1
    service.clock.advance((next - service.clock.now()) / 1000)
    await attemptsEnded(attempt)
  }
  await sender.stop()
  transport.close()
  const hours = (service.clock.now() - started) / 3_600_000
  expect(hours).toBeGreaterThanOrEqual(24)
  expect(hours).toBeLessThan(26)
  expect(delays[0]).toBeLessThanOrEqual(4_000)
  expect(delays.at(-1)).toBeGreaterThan(1_800_000)
  for (const address of refused) expect((await rowOf(address)).failed_at).not.toBeNull()
})

test('a production server that offers no TLS gets no mail', async () => {
  const mailbox = await openMailbox()
  const transport = openTransport({
    mail: { ...loadConfig({ SMTP_URL: mailbox.url }).mail, requireTls: true },
    dataDir: '',
  })
  const message = {
    id: 'x',
    kind: KIND,
    to: 'ada@x.example',
    at: new Date(0),
    subject: 's',
    text: 't',
    html: 'h',
  }
  await expect(transport.send(message, AbortSignal.timeout(5_000))).rejects.toThrow('ETLS')
  expect(mailbox.mails).toEqual([])
  transport.close()
})

test('without a mail server, mail lands as files that only their owner may read, and the log says where', async () => {
  const service = await openTestService()
  const [address = ''] = await queue(service, 1)
  await settled(service)
  const folder = join(service.config.dataDir, 'mail')
  const [name = '', plain = '', ...others] = (await readdir(folder)).sort()
  expect(others).toEqual([])
  expect([name, plain]).toEqual([expect.stringMatching(/\.eml$/), name.replace('.eml', '.txt')])
  const file = join(folder, name)
  for (const one of [name, plain]) expect((await stat(join(folder, one))).mode & 0o777).toBe(0o600)
  const email = await PostalMime.parse(await readFile(file, 'utf8'))
  expect(email.to?.[0]?.address).toBe(address)
  await expect.poll(() => service.logs.join('')).toContain(JSON.stringify(file))
})

test('an address may be as long as an address can be', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()
  const recipient = `${'x'.repeat(60)}@${`${'y'.repeat(60)}.`.repeat(3)}example`
  await service.db.updateTable('users').set({ email: recipient }).execute()
  const mail = { kind: KIND, recipient, data: {}, now: service.clock.now() }
  await queueMail(service.db, service.clock, admin.companyId, mail)
  await settled(service)
  expect(await readdir(join(service.config.dataDir, 'mail'))).toHaveLength(2)
})

test('mail for who is disabled, or no user any more, is dropped', async () => {
  const mailbox = await openMailbox()
  const service = await openTestService({ env: { SMTP_URL: mailbox.url } })
  const admin = await service.addCompany()
  const mails = times(3, (index) => ({ kind: KIND, recipient: `nobody${index}@x.example` }) as const)
  for (const mail of mails)
    await queueMail(service.db, service.clock, admin.companyId, {
      ...mail,
      data: {},
      now: service.clock.now(),
    })
  await settled(service)
  expect(await service.db.selectFrom('mail_outbox').selectAll().execute()).toEqual([])
  expect(mailbox.mails).toEqual([])
})

test('a folder that cannot be written makes mail wait, with one line that says why, and leaves no part of it', async () => {
  const service = await openTestService()
  const folder = join(service.config.dataDir, 'mail')
  await writeFile(folder, 'in the way')
  await queue(service, 1)
  const errors = () => service.db.selectFrom('mail_outbox').select(['last_error', 'failed_at']).execute()
  await expect.poll(errors).toEqual([{ last_error: 'EEXIST mkdir', failed_at: null }])
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
