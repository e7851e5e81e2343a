import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import { invite } from '../../src/operator/users.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { openMailbox } from '../support/mailbox.ts'
import { openTestService, PASSWORD, type Person } from '../support/test-service.ts'

/** A stolen database or backup must open nothing (ASVS 6.5.2, 11.4.2, 13.3.1). */

const mailbox = await openMailbox()
const service = await openTestService({ env: { SMTP_URL: mailbox.url } })
const admin = await service.addCompany()
const { companyId } = admin
const tokens = await service.loginAs(admin)
const { body: refreshed } = await service.refresh(tokens.refreshToken, { key: 'a-key-of-the-client' })
const cookie = await service.cookieOf(admin)
const formerSecret = await service.newSecret(admin)
const secret = await service.newSecret(admin)
const payload = { type: 'payment.created', data: { amount: 1 } }

const tokenTo = async (address: string, subject = '') => (await mailbox.mailTo(address, subject)).token

/** Requests a new email address, and returns the emailed token. */
async function askForEmail(person: Person, newEmail: string): Promise<string> {
  const { accessToken: token } = await service.loginAs(person)
  const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
  await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
  return await tokenTo(newEmail)
}

const newcomer = 'newcomer@x.example'
await service.call('/auth/register', {
  json: { companyName: 'Other', name: 'New', email: newcomer, password: PASSWORD },
})
await service.call('/auth/password/forgot', { json: { companyId, email: admin.email } })
await invite(service.context, companyId, { email: 'guest@x.example', role: 'viewer' })
const verifyToken = await tokenTo(newcomer)
const resetToken = await tokenTo(admin.email)
const inviteToken = await tokenTo('guest@x.example')
const confirmToken = await askForEmail(await service.addUser(admin), 'renamed@x.example')
const renamed = await service.addUser(admin)
const usedToken = await askForEmail(renamed, 'already-renamed@x.example')
await service.call('/auth/email/confirm', { json: { token: usedToken } })
const undoToken = await tokenTo(renamed.email, 'was changed')
const { body: server } = await service.call('/auth/members', {
  token: (await service.loginAs(admin)).accessToken,
  json: { name: 'Billing', role: 'developer' },
})

async function dump() {
  const { rows: columns } = await sql<{ table: string; column: string }>`
    select table_name as "table", column_name as "column" from information_schema.columns
    where table_schema = 'public'`.execute(service.db)
  const cells = []
  for (const { table, column } of columns) {
    const { rows } = await sql<{ value: string }>`
      select ${sql.ref(column)}::text as value from ${sql.table(table)}
      where ${sql.ref(column)} is not null`.execute(service.db)
    cells.push(...rows.map(({ value }) => ({ table, column, value })))
  }
  return cells
}

/** The value itself, and what its characters may encode. */
function readings(value: string): Buffer[] {
  const hex = /^\\x[0-9a-f]*$/.test(value) ? value.slice(2) : value
  const parts = [value, ...value.split(/[^A-Za-z0-9+/=_-]+/)]
  return [
    Buffer.from(value),
    Buffer.from(hex, 'hex'),
    ...parts.flatMap((part) => [Buffer.from(part, 'base64'), Buffer.from(part, 'base64url')]),
  ]
}

/** Every unprotected form in which a credential might be stored. */
function traces(credential: string): Buffer[] {
  const raw = Buffer.from(credential)
  const signature = credential.split('.').at(-1) ?? credential
  const key = credential.replace(/^(whsec|verify|reset|invite|confirm|undo)_/, '')
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
  ['previous signing secret', formerSecret],
  ['idempotency key', 'a-key-of-the-client'],
  ['verification token', verifyToken],
  ['reset token', resetToken],
  ['invitation token', inviteToken],
  ['token of a new email', confirmToken],
  ['token to undo', undoToken],
  ['password of a service account', server.password],
]

await service.send(companyId, secret, payload)
await service.send(companyId, formerSecret, payload)
await vi.waitUntil(async () => {
  const refused = await service.db.selectFrom('refused_requests').select('reason').execute()
  return refused.some(({ reason }) => reason === 'previous_secret')
}, 100_000)
await service.login({ ...admin, password: 'a password that is wrong' })
const cells = await dump()
const read = cells.flatMap((cell) => readings(cell.value).map((bytes) => ({ ...cell, bytes })))

test('the database dump contains the whole database', () => {
  const tables = cells.map(({ table }) => table)
  expect(tables).toEqual(expect.arrayContaining(['former_signing_secrets', 'signing_keys', 'invitations']))
  expect(tables).toEqual(expect.arrayContaining(['refused_requests', 'events', 'audit_events']))
  const values = cells.map(({ value }) => value)
  expect(values).toContain(admin.email)
  expect(values).toContain(`\\x${createHash('sha256').update(cookie).digest('hex')}`)
})

test.for([...credentials, ['wrong password', 'a password that is wrong']])(
  'the database dump contains no %s, plain or encoded (ASVS 14.2.2)',
  ([, credential = '']) => {
    for (const trace of traces(credential)) {
      const found = read.filter(({ bytes }) => bytes.includes(trace))
      expect(found.map(({ table, column }) => `${table}.${column}`)).toEqual([])
    }
  },
)

test('the credentials missing from the database dump do work', async () => {
  expect((await service.login(admin)).status).toBe(200)
  expect((await service.getSession({ token: tokens.accessToken })).status).toBe(200)
  expect((await service.getSession({ cookie })).status).toBe(200)
  expect((await service.refresh(refreshed.refreshToken)).status).toBe(200)
  expect((await service.send(companyId, secret, payload)).status).toBe(202)
  expect((await service.login({ companyId, ...server })).status).toBe(200)
  const use = async (path: string, json: object) => (await service.call(path, { json })).status
  expect(await use('/auth/verify-email', { token: verifyToken })).toBe(200)
  const guest = { name: 'Guest', password: PASSWORD }
  expect(await use('/auth/invitations/accept', { token: inviteToken, ...guest })).toBe(201)
  expect(await use('/auth/email/confirm', { token: confirmToken })).toBe(204)
  expect(await use('/auth/undo', { token: undoToken })).toBe(200)
  expect(await use('/auth/password/reset', { token: resetToken, newPassword: PASSWORD })).toBe(204)
})
