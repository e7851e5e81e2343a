import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { invite } from '../../src/operator/users.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { PASSWORD, type Person, useSharedService } from '../support/test-service.ts'

/** A stolen database or backup opens nothing (ASVS 6.5.2, 11.4.2, 13.3.1). */

const { service, mailbox } = await useSharedService()
const admin = await service.addCompany()
const tokens = await service.loginAs(admin)
const { body: refreshed } = await service.refresh(tokens.refreshToken, { key: 'a-key-of-the-client' })
const cookie = await service.cookieOf(admin)
const formerSecret = await service.newSecret(admin)
const secret = await service.newSecret(admin)
const newcomer = 'newcomer@x.example'
await service.call('/auth/register', {
  json: { companyName: 'Other', name: 'New', email: newcomer, password: PASSWORD },
})
await service.call('/auth/password/forgot', { json: { companyId: admin.companyId, email: admin.email } })
await invite(service.context, admin.companyId, { email: 'guest@x.example', role: 'viewer' })
const mailed = []
for (const address of [newcomer, admin.email, 'guest@x.example'])
  mailed.push((await mailbox.mailTo(address)).token)
const [verifyToken = '', resetToken = '', inviteToken = ''] = mailed
const byAdmin = { token: (await service.loginAs(admin)).accessToken }
const newEmail = 'renamed@x.example'
/** Requests a new email address, and returns the token that is mailed to it. */
async function askForEmail(person: Person, newEmail: string): Promise<string> {
  const { accessToken: token } = await service.loginAs(person)
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
  return (await mailbox.mailTo(newEmail)).token
}
const confirmToken = await askForEmail(await service.addUser(admin), newEmail)
const renamed = await service.addUser(admin)
const token = await askForEmail(renamed, 'already-renamed@x.example')
await service.call('/auth/email/confirm', { json: { token } })
const { token: undoToken } = await mailbox.mailTo(renamed.email, 'was changed')
const { body: server } = await service.call('/auth/members', {
  ...byAdmin,
  json: { name: 'Billing', role: 'developer' },
})
const WAIT = { timeout: 100_000, interval: 50 }
const payload = { type: 'payment.created', data: { amount: 1 } }

interface Cell {
  table: string
  column: string
  value: string
}

/** Every value of every row. With a company, only of its rows, and of a few rows that belong to no company. */
async function dump(companyId?: string): Promise<Cell[]> {
  const { rows: columns } = await sql<{ table: string; column: string; hasCompany: boolean }>`
    select table_name as "table", column_name as "column",
      bool_or(column_name = 'company_id') over (partition by table_name) as "hasCompany"
    from information_schema.columns
    where table_schema not in ('pg_catalog', 'information_schema')
      and table_name in (select table_name from information_schema.tables where table_type = 'BASE TABLE')`.execute(
    service.db,
  )
  const cells = []
  for (const { table, column, hasCompany } of columns) {
    const few = hasCompany ? sql`and company_id = ${companyId}` : sql`limit 5`
    const { rows } = await sql<{ value: string }>`
      select ${sql.ref(column)}::text as value from ${sql.table(table)}
      where ${sql.ref(column)} is not null ${companyId === undefined ? sql`` : few}`.execute(service.db)
    cells.push(...rows.map(({ value }) => ({ table, column, value })))
  }
  return cells
}

/** The value itself and what its characters may encode. */
function readings(value: string): Buffer[] {
  const hex = /^\\x[0-9a-f]*$/.test(value) ? value.slice(2) : value
  const parts = [value, ...value.split(/[^A-Za-z0-9+/=_-]+/)]
  return [
    Buffer.from(value),
    Buffer.from(hex, 'hex'),
    ...parts.flatMap((part) => [Buffer.from(part, 'base64'), Buffer.from(part, 'base64url')]),
  ]
}

/** The ways in which a credential might have been written down without being protected. */
function traces(credential: string): Buffer[] {
  const raw = Buffer.from(credential)
  const signature = credential.split('.').at(-1) ?? credential
  const key = credential.replace(/^(whsec|verify|reset|invite|confirm)_/, '')
  const forms = [raw, Buffer.from(key, 'base64'), Buffer.from(signature, 'base64url')]
  return [
    ...forms,
    ...forms.flatMap((form) =>
      (['hex', 'base64', 'base64url'] as const).map((encoding) => Buffer.from(form.toString(encoding))),
    ),
  ].filter(({ length }) => length >= 16)
}

const credentials: [string, string][] = [
  ['password', admin.password],
  ['access token', tokens.accessToken],
  ['refresh token', tokens.refreshToken],
  ['current refresh token', refreshed.refreshToken],
  ['session cookie', cookie],
  ['signing secret', secret],
  ['former signing secret', formerSecret],
  ['idempotency key', 'a-key-of-the-client'],
  ['verification token', verifyToken],
  ['reset token', resetToken],
  ['invitation token', inviteToken],
  ['token of a new email', confirmToken],
  ['token to undo', undoToken],
  ['password of a service account', server.password],
]

const uses = {
  verify: (token: string) => service.call('/auth/verify-email', { json: { token } }),
  reset: (token: string) => service.call('/auth/password/reset', { json: { token, newPassword: PASSWORD } }),
  invite: (token: string) =>
    service.call('/auth/invitations/accept', { json: { token, name: 'Guest', password: PASSWORD } }),
  confirm: (token: string) => service.call('/auth/email/confirm', { json: { token } }),
  undo: (token: string) => service.call('/auth/undo', { json: { token } }),
}

describe('a dump of the database', async () => {
  await service.send(admin.companyId, secret, payload)
  await service.send(admin.companyId, formerSecret, payload)
  await vi.waitUntil(async () => {
    const refused = await service.db.selectFrom('refused_requests').select('reason').execute()
    return refused.some(({ reason }) => reason === 'previous_secret')
  }, WAIT)
  await service.login({ ...admin, password: 'a password that is wrong' })
  const cells = await dump()
  const read = cells.flatMap((cell) => readings(cell.value).map((bytes) => ({ ...cell, bytes })))

  test('the dump holds the whole database', () => {
    const tables = new Set(cells.map(({ table }) => table))
    for (const table of [
      'users',
      'sessions',
      'signing_secrets',
      'former_signing_secrets',
      'invitations',
      'refused_requests',
      'signing_keys',
      'events',
      'audit_events',
    ]) {
      expect(tables).toContain(table)
    }
    const values = cells.map(({ value }) => value)
    expect(values).toContain(admin.email)
    expect(values).toContain(`\\x${createHash('sha256').update(cookie).digest('hex')}`)
  })

  test.each([...credentials, ['wrong password', 'a password that is wrong']])(
    'the dump holds no %s, plain or encoded (ASVS 14.2.2)',
    (_what, credential) => {
      for (const trace of traces(credential)) {
        const found = read.filter(({ bytes }) => bytes.includes(trace))
        expect(found.map(({ table, column }) => `${table}.${column}`)).toEqual([])
      }
    },
  )

  test('no value in the dump works as a credential', async () => {
    // Whatever is long enough to be a credential, whole and in parts, in the encodings of credentials.
    const own = await dump(admin.companyId)
    const strings = new Set(
      own
        .flatMap(({ value }) => [value, ...value.split(/[^A-Za-z0-9+/=_-]+/)])
        .filter(({ length }) => length >= 16),
    )
    expect(strings.size).toBeGreaterThan(50)
    const candidates = new Set(
      [...strings].flatMap((value) => {
        const bytes = Buffer.from(value.replace(/^\\x/, ''), value.startsWith('\\x') ? 'hex' : 'base64url')
        return [value, bytes.toString('base64url')]
      }),
    )
    const headerSafe = [...candidates].filter((value) => /^[\x21-\x3a\x3c-\x7e]{16,8000}$/.test(value))
    const accepted: string[] = []
    const attempt = async (what: string, sending: Promise<{ status: number }>) => {
      const { status } = await sending
      expect(status).toBeLessThan(500)
      if (status < 300) accepted.push(what)
    }
    for (const value of candidates) {
      if (value.length <= 1024)
        await attempt(`password ${value}`, service.login({ ...admin, password: value }))
      const whsec = `whsec_${Buffer.from(value, 'base64').toString('base64')}`
      for (const key of [whsec, `whsec_${Buffer.from(value).toString('base64')}`]) {
        await attempt(`signing secret ${value}`, service.send(admin.companyId, key, payload))
      }
    }
    for (const value of headerSafe) {
      await attempt(`bearer ${value}`, service.getSession({ token: value }))
      await attempt(`cookie ${value}`, service.getSession({ cookie: value }))
      await attempt(`refresh token ${value}`, service.refresh(value))
      if (!/^(?:[a-z]+_)?[A-Za-z0-9_-]{43}$/.test(value)) continue
      for (const [purpose, attemptOf] of Object.entries(uses))
        for (const prefix of ['', `${purpose}_`])
          await attempt(`one-time token ${prefix}${value}`, attemptOf(`${prefix}${value}`))
    }
    expect(accepted).toEqual([])
  })

  test('the credentials missing from the dump do work', async () => {
    expect((await service.login(admin)).status).toBe(200)
    expect((await service.getSession({ token: tokens.accessToken })).status).toBe(200)
    expect((await service.getSession({ cookie })).status).toBe(200)
    expect((await service.refresh(refreshed.refreshToken)).status).toBe(200)
    expect((await service.send(admin.companyId, secret, payload)).status).toBe(202)
    expect((await uses.verify(verifyToken)).status).toBe(200)
    expect((await uses.invite(inviteToken)).status).toBe(201)
    const { companyId } = admin
    const { email, password } = server
    expect((await service.login({ companyId, email, password })).status).toBe(200)
    expect((await uses.confirm(confirmToken)).status).toBe(204)
    expect((await uses.undo(undoToken)).status).toBe(200)
    expect((await uses.reset(resetToken)).status).toBe(204)
  })
})
