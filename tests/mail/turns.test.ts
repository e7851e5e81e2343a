import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { counterOf } from '../../src/limits/subject.ts'
import { countMail } from '../../src/mail/share-repository.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail } from '../support/onboarding.ts'
import { openTestService, PASSWORD, times } from '../support/test-service.ts'

/** Mail that strangers can cause to an e-mail: 12 an hour, in turns between the networks that ask for it. */

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: {
    SMTP_URL: mailbox.url,
    RATE_LIMIT_SCALE: '1',
    LIMIT_ANONYMOUS: '100000/60',
    TRUST_PROXY: '127.0.0.1',
  },
})

const HOUR = 3600
const RESEND = '/auth/verify-email/resend'
const FORGOT = '/auth/password/forgot'
let requests = 0

/** Requests go to both instances in turn. */
function post(path: string, json: object, network: string) {
  requests += 1
  return service.call(path, { json, headers: { 'x-forwarded-for': network }, at: requests % 2 })
}

async function register(email: string, network: string): Promise<{ companyId: string; email: string }> {
  const json = { companyName: 'Acme', name: 'Ada', email, password: PASSWORD }
  const { status, body } = await post('/auth/register', json, network)
  expect(status).toBe(201)
  return { companyId: body.companyId, email }
}

const ask = (path: string, { companyId, email }: { companyId: string; email: string }, network: string) =>
  post(path, { companyId, email }, network)

const mailsTo = (email: string) => mailbox.mails.filter(({ recipients }) => recipients.includes(email))
/** No mail before the verification says which company it is of. */
async function mailsOf({ companyId, email }: { companyId: string; email: string }) {
  const queued = await service.db
    .selectFrom('mail_outbox')
    .select('mail_id')
    .where('company_id', '=', companyId)
    .execute()
  return mailsTo(email).filter((mail) => queued.some(({ mail_id: id }) => mail.email.messageId?.includes(id)))
}

/** Resolves when each mail was sent or waits for a later time. */
const allLookedAt = () =>
  expect
    .poll(
      async () => {
        const now = new Date(service.clock.now())
        return await service.db
          .selectFrom('mail_outbox')
          .select('mail_id')
          .where('sent_at', 'is', null)
          .where('failed_at', 'is', null)
          .where((where) =>
            where.or([where('next_attempt_at', '<=', now), where('leased_until', 'is not', null)]),
          )
          .execute()
      },
      { timeout: 100_000 },
    )
    .toEqual([])

async function pass(seconds: number) {
  service.clock.advance(seconds)
  await allLookedAt()
}

let email = ''
let networks = 0
/** An IPv4 address that no other test has used. */
function newNetwork(): string {
  networks += 1
  return `198.18.${Math.floor(networks / 250)}.${1 + (networks % 250)}`
}

beforeEach(() => {
  email = newEmail()
})

/** Further companies with the same user. Of several mails for one link, those that are late are not sent. */
async function alike({ companyId, email }: { companyId: string; email: string }, count: number) {
  const companies = times(count, () => ({ companyId: randomUUID(), email }))
  const ids = companies.map((one) => one.companyId)
  await service.db.transaction().execute(async (tx) => {
    await sql`insert into companies (company_id, name, status, created_at)
      select id, c.name, c.status, c.created_at from companies c, unnest(${ids}::uuid[]) id
      where c.company_id = ${companyId}`.execute(tx)
    await sql`insert into subscriptions (company_id, plan, status, current_period_end)
      select id, s.plan, s.status, s.current_period_end from subscriptions s, unnest(${ids}::uuid[]) id
      where s.company_id = ${companyId}`.execute(tx)
    await sql`insert into users (company_id, user_id, email, name, role, assignments, status, password_hash,
        email_verified_at, created_at)
      select id, gen_random_uuid(), u.email, u.name, u.role, u.assignments, u.status, u.password_hash,
        u.email_verified_at, u.created_at from users u, unnest(${ids}::uuid[]) id
      where u.company_id = ${companyId}`.execute(tx)
  })
  return companies
}

/** Everything that one network can ask for with a few registrations: 7 mails each. */
async function pester(network: string, { companies = 5 } = {}) {
  for (let count = 0; count < companies; count += 1) {
    const others = await alike(await register(email, network), 3)
    const asked = others.flatMap((company) => [RESEND, FORGOT].map((path) => ask(path, company, network)))
    for (const { status } of await Promise.all(asked)) expect(status).toBe(202)
  }
}

test('an e-mail gets 12 in an hour from all instances; the others wait, and none is dropped', async () => {
  await pester(newNetwork())
  await allLookedAt()
  for (let hours = 1; hours <= 2; hours += 1) {
    expect(mailsTo(email)).toHaveLength(12 * hours)
    await pass(HOUR - 1)
    expect(mailsTo(email)).toHaveLength(12 * hours)
    await pass(1)
  }
  expect(mailsTo(email)).toHaveLength(35)
})

describe('the owner of an e-mail gets their own mail', () => {
  test('within the hour, however often one network asks for other mail to it, at whatever moment', async () => {
    const stranger = newNetwork()
    await pester(stranger)
    await allLookedAt()
    for (let hour = 0; hour < 3; hour += 1) {
      await pass(60)
      const owned = await register(email, newNetwork())
      await pass(HOUR - 61)
      // What comes in the moment before others may be sent has no advantage.
      await pester(stranger, { companies: hour === 0 ? 0 : 5 })
      service.clock.advance(1)
      await pester(stranger, { companies: 0 })
      await allLookedAt()
      expect(await mailsOf(owned)).toHaveLength(1)
    }
    expect(mailsTo(email).length).toBeLessThanOrEqual(48)
  })

  test('within the day, while 100 networks ask for as many as they can', async () => {
    const first = newNetwork()
    const company = await register(email, first)
    for (const network of [first, ...times(99, newNetwork)]) {
      const others = await alike(company, 3)
      await Promise.all(others.flatMap((other) => [RESEND, FORGOT].map((path) => ask(path, other, network))))
    }
    const owned = await register(email, newNetwork())
    const [mine, theirs] = [newNetwork(), newNetwork()]
    await Promise.all([ask(FORGOT, owned, mine), ask(RESEND, company, theirs)])
    await allLookedAt()
    let hours = 0
    for (; (await mailsOf(owned)).length === 0 && hours < 24; hours += 1) {
      expect(mailsTo(email)).toHaveLength(12 * (hours + 1))
      await pass(HOUR)
    }
    expect(hours).toBeLessThan(10)
  })

  test('before the second round of the /64s of a /48, four of which have a mail in a round', async () => {
    // A /48 gets 12 mails for one company.
    const companies = await alike(await register(email, newNetwork()), 40)
    for (const [index, company] of companies.entries())
      await ask(RESEND, company, `2001:db8:7:${index + 1}::1`)
    const owned = await register(email, newNetwork())
    await allLookedAt()
    expect(mailsTo(email)).toHaveLength(12)
    await pass(HOUR)
    expect(await mailsOf(owned)).toHaveLength(1)
    const rounds = await sql<{ turn: number; mails: number }>`
      select turn, count(*)::int as mails from mail_outbox
      where recipient = ${email} and wider_network = '2001:db8:7::' group by turn order by turn`.execute(
      service.db,
    )
    for (const { mails } of rounds.rows) expect(mails).toBeLessThanOrEqual(4)
  })

  test('also when a stranger has asked three times for the same company', async () => {
    const owner = newNetwork()
    const company = await register(email, owner)
    const stranger = newNetwork()
    for (let time = 0; time < 5; time += 1) {
      await allLookedAt()
      await ask(RESEND, company, stranger)
    }
    await allLookedAt()
    expect(await mailsOf(company)).toHaveLength(4)
    expect((await ask(RESEND, company, owner)).status).toBe(202)
    await allLookedAt()
    expect(await mailsOf(company)).toHaveLength(5)
  })
})

test('an e-mail that is proven gets no more from strangers either, and what its owner causes waits for nobody', async () => {
  const person = await service.addCompany()
  for (const network of times(10, newNetwork))
    for (const company of await alike(person, 2)) await ask(FORGOT, company, network)
  await allLookedAt()
  expect(mailsTo(person.email)).toHaveLength(12)
  const { accessToken } = await service.loginAs(person)
  const json = { currentPassword: person.password, newPassword: 'quite another password' }
  expect((await service.call('/auth/password/change', { token: accessToken, json })).status).toBe(204)
  await allLookedAt()
  expect(mailsTo(person.email)).toHaveLength(13)
  expect(mailsTo(person.email).at(-1)?.email.subject).toContain('was changed')
})

test('what waited for mails that were dropped goes at once', async () => {
  for (const company of await alike(await register(email, newNetwork()), 30))
    await ask(RESEND, company, newNetwork())
  await allLookedAt()
  expect(mailsTo(email)).toHaveLength(12)
  // Those that wait are to verify an e-mail that is verified.
  await service.db
    .updateTable('users')
    .set({ email_verified_at: new Date() })
    .where('email', '=', email)
    .execute()
  // 12 were expected at the end of this hour, and 7 an hour later.
  await pass(HOUR)
  expect(mailsTo(email)).toHaveLength(12)
  const owned = await register(email, newNetwork())
  await allLookedAt()
  expect(await mailsOf(owned)).toHaveLength(1)
  const unsent = service.db.selectFrom('mail_outbox').select('mail_id').where('recipient', '=', email)
  await pass(HOUR)
  expect(await unsent.where('sent_at', 'is', null).execute()).toEqual([])
})

describe('no place of a recipient is used up by a mail that', () => {
  const { limits } = service.config
  const placesUsed = async () => {
    const counter = counterOf({ limit: limits.mailToAddress, values: [email] })
    const rows = await service.db
      .selectFrom('rate_counters')
      .select('hits')
      .where('counter', '=', counter)
      .execute()
    return rows.map(({ hits }) => hits)
  }

  test('is gone when it is to be counted', async () => {
    const mail = {
      companyId: randomUUID(),
      mailId: randomUUID(),
      kind: 'password_reset' as const,
      recipient: email,
      data: {},
      network: newNetwork(),
      createdAt: new Date(),
      attempts: 1,
      isCounted: false,
    }
    const now = new Date(service.clock.now())
    const counting = service.db
      .transaction()
      .execute((tx) => countMail(tx, mail, { limit: limits.mailToAddress, now }))
    expect(await counting).toBeUndefined()
    expect(await placesUsed()).toEqual([0])
  })

  test('has no letter, since the link of a later one exists', async () => {
    const person = await service.addCompany()
    email = person.email
    const later = {
      company_id: person.companyId,
      purpose: 'reset' as const,
      email,
      token_hash: randomBytes(32),
      role: null,
      created_at: new Date(service.clock.now() + 1000),
      expires_at: new Date(service.clock.now() + 1000 * HOUR),
    }
    await service.db.insertInto('one_time_tokens').values(later).execute()
    for (let time = 0; time < 2; time += 1) await ask(FORGOT, person, newNetwork())
    await allLookedAt()
    expect([mailsTo(email).length, await placesUsed()]).toEqual([0, [0]])
    const left = service.db.selectFrom('mail_outbox').select('mail_id').where('recipient', '=', email)
    expect(await left.execute()).toEqual([])
  })
})

test('what can be sent wakes those whose turn is earlier', async () => {
  for (const company of await alike(await register(email, newNetwork()), 40))
    await ask(RESEND, company, newNetwork())
  await allLookedAt()
  // The recipient can get more, and nothing else is due.
  await sql`delete from rate_counters where counter like 'mail-to-address:%'`.execute(service.db)
  service.clock.advance(1)
  const owned = await register(email, newNetwork())
  await allLookedAt()
  expect(mailsTo(email)).toHaveLength(24)
  expect(await mailsOf(owned)).toHaveLength(0)
  await pass(2 * HOUR)
  await pass(HOUR)
  expect(await mailsOf(owned)).toHaveLength(1)
})

test('a mail that has waited for a day has failed, and is tried no more', async () => {
  await pester(newNetwork())
  await allLookedAt()
  // As if others had got all that this e-mail can get.
  await sql`update rate_counters set window_ends_at = ${new Date(service.clock.now() + 25 * HOUR * 1000)}
    where counter like 'mail-to-address:%'`.execute(service.db)
  await pass(24 * HOUR)
  const rows = await service.db.selectFrom('mail_outbox').selectAll().where('recipient', '=', email).execute()
  expect(rows.filter((row) => row.sent_at)).toHaveLength(12)
  for (const row of rows.filter((row) => !row.sent_at)) {
    expect(row.failed_at).not.toBeNull()
    expect(row.last_error).toContain('as many mails as others can cause')
  }
})

describe('what strangers can write is bounded (ASVS 2.4.1)', () => {
  const rowsOf = async () => {
    const { rows } = await sql<{ counters: number; mails: number; counterBytes: number }>`
      select (select count(*)::int from rate_counters where counter like 'mail%') as counters,
        (select count(*)::int from mail_outbox) as mails`.execute(service.db)
    return rows[0] ?? { counters: 0, mails: 0 }
  }
  const strangeRequest = (network: string) =>
    ask(FORGOT, { companyId: randomUUID(), email: newEmail() }, network)

  test('by the network: 120 requests an hour, whatever they ask for, and the next one is told so', async () => {
    const [network, neighbour] = [newNetwork(), newNetwork()]
    const before = await rowsOf()
    const answers = await Promise.all(times(300, () => strangeRequest(network)))
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(120)
    const [refused] = answers.filter(({ status }) => status !== 202)
    expect([refused?.status, refused?.body.code]).toEqual([429, 'rate_limited'])
    expect(refused?.headers['ratelimit-policy']).toBe('"mail-requests";q=120;w=3600')
    expect((await strangeRequest(neighbour)).status).toBe(202)
    await allLookedAt()
    const after = await rowsOf()
    // One for each account, and one for each network.
    expect(after.counters - before.counters).toBe(121 + 2)
    // Accounts that do not exist have no mail.
    expect(after.mails).toBe(before.mails)
  })

  test('by the /48: four times as many, and a /64 cannot use up those of the others', async () => {
    const from = (subnet: number) => `2001:db8:48:${subnet.toString(16)}::1`
    const answers = await Promise.all(times(300, () => strangeRequest(from(0))))
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(120)
    const before = await rowsOf()
    const others = await Promise.all(times(500, (index) => strangeRequest(from(1 + index))))
    expect(others.filter(({ status }) => status === 202)).toHaveLength(360)
    // At most one for each /64, and two for each account that was asked about: by the /64 and by the /48.
    expect((await rowsOf()).counters - before.counters).toBeLessThanOrEqual(500 + 2 * 360)
  })

  test('for one account: three mails an hour for a /64, and four times as many for a /48', async () => {
    const company = await register(email, newNetwork())
    await allLookedAt()
    // Of those that are sent at the same moment, the older ones would go.
    for (const sender of service.senders) await sender.stop()
    const from = (subnet: number) => `2001:db8:49:${subnet.toString(16)}::1`
    const queued = async () =>
      (await service.db.selectFrom('mail_outbox').select('mail_id').where('recipient', '=', email).execute())
        .length - 1
    for (let time = 0; time < 4; time += 1) await ask(RESEND, company, from(0))
    expect(await queued()).toBe(3)
    for (const answer of await Promise.all(times(60, (index) => ask(RESEND, company, from(index)))))
      expect(answer.status).toBe(202)
    expect(await queued()).toBe(12)
    await ask(RESEND, company, newNetwork())
    expect(await queued()).toBe(13)
  })
})
