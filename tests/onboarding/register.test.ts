import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { checkName } from '../../src/company/checks.ts'
import { selectAudit } from '../support/audit.ts'
import { openMailbox } from '../support/mailbox.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { expectField } from '../support/problem.ts'
import { createCountingHasher, openTestService, PASSWORD, times } from '../support/test-service.ts'

const mailbox = await openMailbox()
const hasher = await createCountingHasher()
const service = await openTestService({ hasher, env: { SMTP_URL: mailbox.url } })
const { db } = service
const { join, tokenOf, use } = useService(service, mailbox)

const valid = () => ({ companyName: 'Acme', name: 'Ada', email: newEmail(), password: PASSWORD })

async function counts() {
  const tables = ['companies', 'subscriptions', 'users', 'mail_outbox', 'one_time_tokens', 'audit_events']
  const all = tables.map(async (name) => {
    const { rows } = await sql<{ n: number }>`select count(*)::int as n from ${sql.table(name)}`.execute(db)
    return [name, rows[0]?.n]
  })
  return Object.fromEntries(await Promise.all(all))
}

test.for<[string, object, string]>([
  ['a line break in the company name', { companyName: 'Acme\r\nBcc: eve@evil.example' }, '/companyName'],
  ['an invisible character in the name', { name: 'Ada\u200bLovelace' }, '/name'],
  ['an invalid email', { email: 'ada' }, '/email'],
  ['an email of 255 characters', { email: `${'x'.repeat(245)}@x.example` }, '/email'],
  ['the company as password', { companyName: 'Acme Corporation', password: 'acme corporation' }, '/password'],
  ['the email as password', { email: 'Ada@long.example', password: 'ADA@long.example' }, '/password'],
  ['a role', { role: 'admin' }, '/role'],
])('a registration with %s is refused and writes nothing (ASVS 2.2.1)', async ([, change, path]) => {
  const before = await counts()
  hasher.hashed = 0
  expectField(await service.call('/auth/register', { json: { ...valid(), ...change } }), path)
  expect(hasher.hashed).toBe(0)
  expect(await counts()).toEqual(before)
})

test('a registration that fails in its last step writes nothing (ASVS 2.3.3)', async () => {
  const before = await counts()
  await sql`alter table mail_outbox add constraint none check (kind <> 'verify_email') not valid`.execute(db)
  const { status } = await service.call('/auth/register', { json: valid() })
  await sql`alter table mail_outbox drop constraint none`.execute(db)
  expect(status).toBe(500)
  expect(await counts()).toEqual(before)
})

test.for([
  ['only spaces', ' \u3000 '],
  ['101 characters', 'x'.repeat(101)],
  ['a line separator', 'Ada\u2028Lovelace'],
  ['a URL with joiners', 'Win at ht\u200dtps:\u200d//evil.example'],
  ['a soft hyphen', 'Ac\u00adme'],
  ['a joiner at the start', '\u200dAda'],
  ['a joiner at the end', '👩\u200d '],
  ['two joiners in a row', 'Ac\u200c\u200dme'],
] as const)('a name with %s is refused (ASVS 1.3.3, 2.2.1)', ([, name]) => {
  expect(() => checkName('name', name)).toThrow(expect.objectContaining({ code: 'invalid_request' }))
})

test.for([
  `O'Brien & Söhne <AG>`,
  'www.acme.example/shop',
  // Persian, Malayalam, and emoji need zero-width joiners or non-joiners.
  'علی\u200cرضا می\u200cخواهد',
  'അവന്\u200d കുമാര',
  '👨\u200d👩\u200d👧 & ❤\ufe0f\u200d🔥',
])('a name can be %s', (name) => {
  expect(checkName('name', name)).toBe(name.normalize('NFC'))
})

test('registration, verification, and reset are audited (ASVS 16.2.1, 16.3.1)', async () => {
  const person = await join()
  await use('reset', await tokenOf('reset', person, person.email))
  const entry = { outcome: 'done', actor: person.userId, ip_address: '127.0.0.1' }
  const entries = selectAudit(service.db).select(['action', 'outcome', 'actor', 'ip_address'])
  expect(await entries.where('company_id', '=', person.companyId).orderBy('action').execute()).toEqual([
    { action: 'password_reset', ...entry },
    { action: 'register', ...entry },
    { action: 'verify_email', ...entry },
  ])
})

describe('limits (ASVS 2.4.1, 6.3.1)', async () => {
  const env = { RATE_LIMIT_SCALE: '1', TRUST_PROXY: '127.0.0.1' }
  const service = await openTestService({ instances: 2, hasher, env })
  const from = (address: string) => ({ 'x-forwarded-for': address })

  test('a network can register 5 times an hour, on all instances', async () => {
    const registerFrom = (address: string, at = 0) =>
      service.call('/auth/register', { json: valid(), headers: from(address), at })
    hasher.hashed = 0
    const answers = await Promise.all(times(9, (index) => registerFrom('203.0.113.1', index % 2)))
    const refused = answers.filter(({ status }) => status !== 201)
    const headers = { 'ratelimit-policy': '"register";q=5;w=3600' }
    expect(refused).toMatchObject(times(4, () => ({ status: 429, headers })))
    expect(hasher.hashed).toBe(5)
    expect((await registerFrom('203.0.113.2')).status).toBe(201)
    service.clock.advance(3601)
    expect((await registerFrom('203.0.113.1')).status).toBe(201)
  })

  test('a network can try 10 one-time tokens a minute, whatever their purpose (ASVS 6.6.3)', async () => {
    const token = `reset_${'A'.repeat(43)}`
    const attempts = [
      ['/auth/verify-email', { token }],
      ['/auth/password/reset/preview', { token }],
      ['/auth/password/reset', { token, newPassword: PASSWORD }],
      ['/auth/undo', { token }],
      ['/auth/invitations/preview', { token }],
      ['/auth/invitations/accept', { token, name: 'Bob', password: PASSWORD }],
    ] as const
    const answers = await Promise.all(
      times(15, (index) => {
        const [path, json] = attempts[index % attempts.length] ?? attempts[0]
        // One /64 is one customer.
        return service.call(path, { json, headers: from(`2001:db8::${index + 1}`), at: index % 2 })
      }),
    )
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(10)
    const refused = answers.filter(({ status }) => status === 429)
    const headers = { 'ratelimit-policy': '"one-time-tokens";q=10;w=60' }
    expect(refused).toMatchObject(times(5, () => ({ headers })))
  })
})
