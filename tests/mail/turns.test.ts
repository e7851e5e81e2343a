import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import { counterOf } from '../../src/limits/client.ts'
import { countMail } from '../../src/mail/share-repository.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail } from '../support/onboarding.ts'
import { type Answer, openTestService, PASSWORD, times } from '../support/test-service.ts'
import { noneDue, rowsOf, unsettledIn } from './outbox.ts'

/** Emails that strangers cause to an address are limited by the hour. Networks that request them take turns. */

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: {
    SMTP_URL: mailbox.url,
    RATE_LIMIT_SCALE: '1',
    LIMIT_MAIL_TO_ADDRESS: '5/3600',
    LIMIT_MAIL_REQUESTS: '20/3600',
    LIMIT_ANONYMOUS: '100000/60',
    TRUST_PROXY: '127.0.0.1',
  },
})

const HOUR = 3600
const RESEND = '/auth/verify-email/resend'
const FORGOT = '/auth/password/forgot'
type Account = { companyId: string; email: string }
let requests = 0

/** Alternates between the instances. */
function post(path: string, json: object, network: string) {
  requests += 1
  return service.call(path, { json, headers: { 'x-forwarded-for': network }, at: requests % 2 })
}

async function register(email: string, network: string): Promise<Account> {
  const json = { companyName: 'Acme', name: 'Ada', email, password: PASSWORD }
  const { status, body } = await post('/auth/register', json, network)
  expect(status).toBe(201)
  return { companyId: body.companyId, email }
}

const ask = (path: string, { companyId, email }: Account, network: string) =>
  post(path, { companyId, email }, network)

const { mailsTo } = mailbox
/** Emails before the verification do not name their company. */
async function mailsOf({ companyId, email }: Account) {
  const queued = (await rowsOf(service, email)).filter((row) => row.company_id === companyId)
  return mailsTo(email).filter((mail) => queued.some(({ mail_id: id }) => mail.email.messageId?.includes(id)))
}

const allLookedAt = () => noneDue(service)

async function pass(seconds: number) {
  service.clock.advance(seconds)
  await allLookedAt()
}

let email = ''
let networks = 0
/** An IPv4 address that no other test uses. */
function newNetwork(): string {
  networks += 1
  return `198.18.${Math.floor(networks / 250)}.${1 + (networks % 250)}`
}

beforeEach(() => {
  email = newEmail()
})

/** More companies with the same user, because several emails for one link are sent only once. */
async function alike({ companyId, email }: Account, count: number) {
  const add = async () => service.addUser(await service.addCompany(), 'viewer', { email })
  const people = await Promise.all(times(count, add))
  const users = service.db.updateTable('users').where('email', '=', email)
  await users.where('company_id', '<>', companyId).set({ email_verified_at: null }).execute()
  return people
}

/** A registration and six more emails, all requested by one network. */
async function pester(network: string) {
  const others = await alike(await register(email, network), 3)
  const asked = others.flatMap((company) => [RESEND, FORGOT].map((path) => ask(path, company, network)))
  for (const { status } of await Promise.all(asked)) expect(status).toBe(202)
}

/** One email for each of `count` companies, each from its own network, and one for the registration. */
async function crowd(count: number) {
  for (const company of await alike(await register(email, newNetwork()), count))
    await ask(RESEND, company, newNetwork())
  await allLookedAt()
}

test('an address gets 5 emails an hour, first for new networks', async () => {
  const stranger = newNetwork()
  await pester(stranger)
  await pester(stranger)
  await allLookedAt()
  for (const hour of [0, 1, 2]) {
    await pass(60)
    const owned = await register(email, newNetwork())
    await pass(HOUR - 61)
    expect(mailsTo(email)).toHaveLength(5 * (hour + 1))
    // A request just before the next emails are sent has no advantage.
    if (hour > 0) await pester(stranger)
    await pass(1)
    expect(mailsTo(email)).toHaveLength(5 * (hour + 2))
    expect(await mailsOf(owned)).toHaveLength(1)
  }
})

test('owners get their email before the fifth email of a /48', async () => {
  const companies = await alike(await register(email, newNetwork()), 12)
  for (const [index, company] of companies.entries()) await ask(RESEND, company, `2001:db8:7:${index + 1}::1`)
  const owned = await register(email, newNetwork())
  await allLookedAt()
  expect(mailsTo(email)).toHaveLength(5)
  await pass(HOUR)
  expect(await mailsOf(owned)).toHaveLength(1)
  const rows = await rowsOf(service, email)
  const ofNetwork = rows.filter((row) => row.wider_network === '2001:db8:7::')
  const turns = Object.values(Object.groupBy(ofNetwork, ({ turn }) => String(turn)))
  expect(turns.map((mails) => mails?.length)).toEqual([4, 4, 4])
})

test("emails that the address's owner causes do not wait", async () => {
  const person = await service.addCompany()
  for (const network of times(4, newNetwork))
    for (const company of await alike(person, 2)) await ask(FORGOT, company, network)
  await allLookedAt()
  expect(mailsTo(person.email)).toHaveLength(5)
  const { accessToken: token } = await service.loginAs(person)
  const json = { for: 'email' }
  expect((await service.call('/auth/second-factors/mail-code', { token, json })).status).toBe(202)
  await allLookedAt()
  expect(mailsTo(person.email)).toHaveLength(6)
  expect(mailsTo(person.email).at(-1)?.email.subject).toContain('Your code')
})

test('an email behind dropped emails is sent within seconds', async () => {
  await crowd(14)
  expect(mailsTo(email)).toHaveLength(5)
  // The waiting emails would verify an email that is already verified.
  const users = service.db.updateTable('users').where('email', '=', email)
  await users.set({ email_verified_at: new Date() }).execute()
  // Five were due at the end of this hour, and five an hour later.
  await pass(HOUR)
  expect(mailsTo(email)).toHaveLength(5)
  const owned = await register(email, newNetwork())
  await allLookedAt()
  // If the sender saw it before it dropped the others, it looks again after five seconds.
  await pass(5)
  expect(await mailsOf(owned)).toHaveLength(1)
  await pass(HOUR)
  expect((await rowsOf(service, email)).filter((row) => !row.sent_at)).toEqual([])
})

const { limits } = service.config
const counted = async () => {
  const counter = counterOf({ limit: limits.mailToAddress, values: [email] })
  const rows = service.db.selectFrom('rate_counters').select('hits').where('counter', '=', counter)
  return (await rows.execute()).map(({ hits }) => hits)
}

test('a deleted email does not count', async () => {
  const ids = { companyId: randomUUID(), mailId: randomUUID(), network: newNetwork() }
  const state = { data: {}, createdAt: new Date(), attempts: 1, isCounted: false }
  const mail = { ...ids, kind: 'password_reset' as const, recipient: email, ...state }
  const share = { limit: limits.mailToAddress, now: new Date(service.clock.now()) }
  const counting = service.db.transaction().execute((tx) => countMail(tx, mail, share))
  expect(await counting).toBeUndefined()
  expect(await counted()).toEqual([0])
})

test('an email that a later link replaces does not count', async () => {
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
  expect([mailsTo(email).length, await counted()]).toEqual([0, [0]])
  expect(await rowsOf(service, email)).toEqual([])
})

test('an email that is ready lets earlier ones go first', async () => {
  await crowd(14)
  // The recipient's limit is free, and nothing else is due.
  await sql`delete from rate_counters where counter like 'mail-to-address:%'`.execute(service.db)
  service.clock.advance(1)
  const owned = await register(email, newNetwork())
  await allLookedAt()
  expect(mailsTo(email)).toHaveLength(10)
  expect(await mailsOf(owned)).toHaveLength(0)
  await pass(2 * HOUR)
  await pass(HOUR)
  expect(await mailsOf(owned)).toHaveLength(1)
})

test('an email that has waited for a day fails', async () => {
  await pester(newNetwork())
  await allLookedAt()
  // Simulates that others have used the address's whole limit.
  await sql`update rate_counters set window_ends_at = ${new Date(service.clock.now() + 25 * HOUR * 1000)}
    where counter like 'mail-to-address:%'`.execute(service.db)
  await pass(24 * HOUR)
  const rows = await rowsOf(service, email)
  expect(rows.filter((row) => row.sent_at)).toHaveLength(5)
  const last_error = expect.stringContaining('as many emails as others can cause')
  expect(rows.filter((row) => row.failed_at)).toMatchObject(times(2, () => ({ last_error })))
})

const countAccepted = (answers: Answer[]) => answers.filter(({ status }) => status === 202).length

test('requests for emails are limited by network, whatever their subject (ASVS 2.4.1)', async () => {
  const counters = service.db.selectFrom('rate_counters').select('hits').where('counter', 'like', 'mail%')
  const strangeRequest = (network: string) =>
    ask(FORGOT, { companyId: randomUUID(), email: newEmail() }, network)
  const network = newNetwork()
  const [before, mails] = [await counters.execute(), await rowsOf(service)]
  const answers = await Promise.all(times(40, () => strangeRequest(network)))
  expect(countAccepted(answers)).toBe(20)
  const headers = { 'ratelimit-policy': '"mail-requests";q=20;w=3600' }
  expect(answers.find(({ status }) => status !== 202)).toMatchObject({ status: 429, headers })
  expect((await strangeRequest(newNetwork())).status).toBe(202)
  await allLookedAt()
  // One counter per account, and one per network.
  expect(await counters.execute()).toHaveLength(before.length + 21 + 2)
  // Accounts that do not exist have no email.
  expect(await rowsOf(service)).toHaveLength(mails.length)
})

test('emails to one account are limited by /64 and /48 (ASVS 2.4.1)', async () => {
  const company = await register(email, newNetwork())
  await allLookedAt()
  // Of emails for one link that are sent at the same moment, the older ones would be dropped.
  for (const sender of service.senders) await sender.stop()
  const from = (subnet: number) => `2001:db8:49:${subnet.toString(16)}::1`
  const queued = () => unsettledIn(service, email)
  for (const _ of times(4, () => 0)) await ask(RESEND, company, from(0))
  expect(await queued()).toHaveLength(3)
  expect(countAccepted(await Promise.all(times(20, (index) => ask(RESEND, company, from(index)))))).toBe(20)
  expect(await queued()).toHaveLength(12)
  await ask(RESEND, company, newNetwork())
  expect(await queued()).toHaveLength(13)
})
