import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { createLimitedHasher } from '../../src/limits/hashing.ts'
import { expectProblem } from '../http/problem.ts'
import { selectAudit } from '../support/audit.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { createCountingHasher, openTestService, times } from '../support/test-service.ts'

const mailbox = await openMailbox()
const hasher = await createCountingHasher()
const service = await openTestService({ hasher, env: { SMTP_URL: mailbox.url } })
const { register, join } = useService(service, mailbox)

const valid = () => ({ companyName: 'Acme', name: 'Ada', email: newEmail(), password: 'a good password' })

/** Persian, Bengali, Sinhala, Malayalam and emoji, which need zero-width joiners or non-joiners. */
const JOINED = [
  'علی\u200cرضا می\u200cخواهد',
  'র\u200d্যাব',
  'ශ්\u200dරී',
  'അവന്\u200d കുമാര',
  '👨\u200d👩\u200d👧 & ❤\ufe0f\u200d🔥',
]

async function counts() {
  const tables = ['companies', 'subscriptions', 'users', 'mail_outbox', 'one_time_tokens', 'audit_events']
  const all = tables.map(async (name) => {
    const { rows } = await sql<{ n: number }>`select count(*)::int as n from ${sql.table(name)}`.execute(
      service.db,
    )
    return [name, rows[0]?.n]
  })
  return Object.fromEntries(await Promise.all(all))
}

describe('a registration that is refused leaves nothing behind (ASVS 2.2.1, 2.3.3):', () => {
  test.each<[string, object, string]>([
    ['no company name', { companyName: undefined }, '/companyName'],
    ['an empty company name', { companyName: '' }, '/companyName'],
    ['a company name of spaces', { companyName: ' \u3000 ' }, '/companyName'],
    ['a company name of 101 characters', { companyName: 'x'.repeat(101) }, '/companyName'],
    ['a line break in the company name', { companyName: 'Acme\r\nBcc: eve@evil.example' }, '/companyName'],
    ['a link in the company name', { companyName: 'Win at https://evil.example' }, '/companyName'],
    ['a tab in the name', { name: 'Ada\tLovelace' }, '/name'],
    ['a line separator in the name', { name: 'Ada\u2028Lovelace' }, '/name'],
    ['a change of direction in the name', { name: 'Ada\u202egpj.exe' }, '/name'],
    ['a zero-width space in the name', { name: 'Ada\u200bLovelace' }, '/name'],
    ['a name of a zero-width joiner', { name: '\u200d' }, '/name'],
    ['a name that begins with a zero-width joiner', { name: '\u200dAda' }, '/name'],
    ['a name that ends with a zero-width joiner', { name: '👩\u200d' }, '/name'],
    ['a name that ends with a zero-width joiner before a space', { name: '👩\u200d ' }, '/name'],
    ['a zero-width joiner between spaces', { name: 'Ada \u200d Lovelace' }, '/name'],
    ['a word of the name that begins with a zero-width non-joiner', { name: 'Ada \u200cLovelace' }, '/name'],
    ['two zero-width non-joiners in a row', { companyName: 'Ac\u200c\u200cme' }, '/companyName'],
    ['a zero-width non-joiner and a joiner in a row', { companyName: 'Ac\u200c\u200dme' }, '/companyName'],
    [
      'a link with zero-width joiners in the company name',
      { companyName: 'Win at ht\u200dtps:\u200d//evil.example' },
      '/companyName',
    ],
    ['a byte order mark in the name', { name: 'Ada\ufeffLovelace' }, '/name'],
    ['the tag characters of a flag', { name: '\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}' }, '/name'],
    ['a soft hyphen in the company name', { companyName: 'Ac\u00adme' }, '/companyName'],
    ['a tag character in the company name', { companyName: 'Acme\u{e0041}' }, '/companyName'],
    ['a name that is none', { name: 7 }, '/name'],
    ['an address that is none', { email: 'ada' }, '/email'],
    ['an address of 255 characters', { email: `${'x'.repeat(245)}@x.example` }, '/email'],
    ['a short password', { password: 'short' }, '/password'],
    ['a password of 129 characters', { password: 'x'.repeat(129) }, '/password'],
    ['a common password', { password: 'password123' }, '/password'],
    [
      'the company name as password',
      { companyName: 'Acme Corporation', password: 'acme corporation' },
      '/password',
    ],
    ['a role', { role: 'admin' }, '/role'],
    ['a plan', { plan: 'enterprise' }, '/plan'],
  ])('%s', async (_what, change, path) => {
    const before = await counts()
    hasher.hashed = 0
    const answer = await service.call('/auth/register', { json: { ...valid(), ...change } })
    expectProblem(answer, [400, 'invalid_request'])
    expect(answer.body.errors[0].path).toBe(path)
    expect(hasher.hashed).toBe(0)
    expect(await counts()).toEqual(before)
  })

  test('the e-mail address as password', async () => {
    const json = valid()
    const answer = await service.call('/auth/register', {
      json: { ...json, password: json.email.toUpperCase() },
    })
    expect(answer.body.errors).toEqual([{ path: '/password', message: expect.stringContaining('e-mail') }])
  })

  test('a failure in its last step', async () => {
    const before = await counts()
    await sql`alter table mail_outbox add constraint none_here check (kind <> 'verify_email') not valid`.execute(
      service.db,
    )
    const { status } = await service.call('/auth/register', { json: valid() })
    await sql`alter table mail_outbox drop constraint none_here`.execute(service.db)
    expect(status).toBe(500)
    expect(await counts()).toEqual(before)
  })

  test('a database that cannot say yes in time', async () => {
    const strict = await openTestService({ url: service.url, hasher, timeoutScale: 1 })
    const before = await counts()
    const answer = await service.db.transaction().execute(async (tx) => {
      await sql`lock table mail_outbox in exclusive mode`.execute(tx)
      return await strict.call('/auth/register', { json: valid() })
    })
    expectProblem(answer, [503, 'unavailable'])
    expect(answer.headers['retry-after']).toBe('1')
    expect(await counts()).toEqual(before)
  })
})

test('a registration opens a company in trial with one admin, and mails them; each opens its own', async () => {
  const email = newEmail()
  const all = await Promise.all(
    times(4, () => service.call('/auth/register', { json: { ...valid(), email: ` ${email} `.trim() } })),
  )
  expect(all.map(({ status }) => status)).toEqual([201, 201, 201, 201])
  const companies = all.map(({ body }) => body.companyId)
  expect(new Set(companies).size).toBe(4)
  for (const companyId of companies) {
    const users = await service.db
      .selectFrom('users')
      .selectAll()
      .where('company_id', '=', companyId)
      .execute()
    expect(users).toMatchObject([{ email, role: 'admin', email_verified_at: null, locked_out_at: null }])
    const audit = await selectAudit(service.db)
      .select(['action', 'outcome', 'actor', 'ip_address'])
      .where('company_id', '=', companyId)
      .execute()
    expect(audit).toEqual([
      { action: 'register', outcome: 'done', actor: users[0]?.user_id, ip_address: '127.0.0.1' },
    ])
  }
  for (let count = 0; count < 4; count += 1) expect((await mailbox.mailTo(email)).token).toMatch(/^verify_/)
})

test('names may be of any script, and are stored as one would read them', async () => {
  const names = [
    `O'Brien & Söhne <AG>`,
    'Ελένη',
    '株式会社例',
    'نیما',
    '👩',
    'Booking.com',
    'St.Gallen/Zürich',
    'ASP.NET/Core',
    'Smith & Co.KG',
    'www.acme.example/shop',
    ...JOINED,
    '  Ada  ',
  ]
  for (const name of names) {
    const email = newEmail()
    const { status, body } = await service.call('/auth/register', {
      json: { ...valid(), email, name, companyName: name },
    })
    expect(status).toBe(201)
    const user = await service.db
      .selectFrom('accounts')
      .selectAll()
      .where('user_id', '=', body.userId)
      .executeTakeFirst()
    expect([user?.name, user?.company_name]).toEqual([
      name.normalize('NFC').trim(),
      name.normalize('NFC').trim(),
    ])
  }
})

test('what happens to an account by mail is in the audit trail: who, what, when, where from (ASVS 16.2.1, 16.3.1)', async () => {
  const person = await join()
  await service.call('/auth/password/forgot', {
    json: person && { companyId: person.companyId, email: person.email },
  })
  const { token } = await mailbox.mailTo(person.email)
  await service.call('/auth/password/reset', { json: { token, newPassword: 'a newer password' } })
  const entries = await selectAudit(service.db)
    .select(['action', 'outcome', 'actor', 'ip_address'])
    .where('company_id', '=', person.companyId)
    .orderBy('action')
    .execute()
  const entry = { outcome: 'done', actor: person.userId, ip_address: '127.0.0.1' }
  expect(entries).toEqual([
    { action: 'password_reset', ...entry },
    { action: 'register', ...entry },
    { action: 'verify_email', ...entry },
  ])
})

test('no log line holds a password or a token of a mail (ASVS 16.2.5)', async () => {
  const { token } = await register()
  await service.call('/auth/verify-email', { json: { token } })
  await service.call(`/auth/verify-email?token=${token}`, { json: { token } })
  const logs = service.logs.join('')
  expect(logs).toContain('/auth/verify-email')
  for (const mail of mailbox.mails) if (mail.token) expect(logs).not.toContain(mail.token)
  expect(logs).not.toContain('a good password')
})

describe('limits (ASVS 2.4.1, 6.3.1):', async () => {
  const service = await openTestService({
    instances: 2,
    hasher,
    env: { RATE_LIMIT_SCALE: '1', TRUST_PROXY: '127.0.0.1' },
  })
  const from = (address: string) => ({ 'x-forwarded-for': address })

  test('5 registrations an hour of an address, on all instances, and no more are hashed', async () => {
    hasher.hashed = 0
    const answers = await Promise.all(
      times(20, (index) =>
        service.call('/auth/register', { json: valid(), headers: from('203.0.113.1'), at: index % 2 }),
      ),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5)
    expect(hasher.hashed).toBe(5)
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expectProblem(answer, [429, 'rate_limited'])
      expect(answer.headers['ratelimit-policy']).toBe('"register";q=5;w=3600')
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
    }
    const elsewhere = await service.call('/auth/register', { json: valid(), headers: from('203.0.113.2') })
    expect(elsewhere.status).toBe(201)
    service.clock.advance(3601)
    const later = await service.call('/auth/register', { json: valid(), headers: from('203.0.113.1') })
    expect(later.status).toBe(201)
  })

  test('what was turned away for want of room is not counted', async () => {
    const full = await openTestService({
      env: { RATE_LIMIT_SCALE: '1' },
      hasher: await createLimitedHasher(1, { max: 0, maxPerWiderNetwork: 0 }),
    })
    const answers = await Promise.all(times(5, () => full.call('/auth/register', { json: valid() })))
    const turnedAway = answers.filter(({ status }) => status === 503).length
    expect(turnedAway).toBeGreaterThan(0)
    for (let left = turnedAway; left > 0; left -= 1)
      expect((await full.call('/auth/register', { json: valid() })).status).toBe(201)
    expect((await full.call('/auth/register', { json: valid() })).status).toBe(429)
  })

  test('10 one-time tokens a minute of an address, whatever they are for (ASVS 6.6.3)', async () => {
    const token = `reset_${'A'.repeat(43)}`
    const attempts = [
      ['/auth/verify-email', { token }],
      ['/auth/password/reset', { token, newPassword: 'a good password' }],
      ['/auth/invitations/preview', { token }],
      ['/auth/invitations/accept', { token, name: 'Bob', password: 'a good password' }],
    ] as const
    const answers = await Promise.all(
      times(40, (index) => {
        const [path, json] = attempts[index % 4] ?? attempts[0]
        // One /64 is one customer.
        return service.call(path, { json, headers: from(`2001:db8::${index + 1}`), at: index % 2 })
      }),
    )
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(10)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(30)
    const [refused] = answers.filter(({ status }) => status === 429)
    expect(refused?.headers['ratelimit-policy']).toBe('"one-time-tokens";q=10;w=60')
  })
})
