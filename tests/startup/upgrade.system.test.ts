import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { Migrator } from 'kysely/migration'
import { afterAll, expect, inject, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { openMailbox } from '../support/mailbox.ts'
import { databaseUrl } from '../support/postgres.ts'
import { openTestService, PASSWORD } from '../support/test-service.ts'

/** Migrations bring the database of an earlier release up to date, and keep what it holds. */

const MIGRATIONS = new URL('../../migrations/', import.meta.url)
const serverUrl = inject('serverUrl')
const name = `gatehouse_${randomBytes(6).toString('hex')}`
await runStatement(serverUrl, `create database ${name}`)
afterAll(() => runStatement(serverUrl, `drop database ${name} with (force)`))
const url = databaseUrl(serverUrl, name)
const mailbox = await openMailbox()

/** Brings the database to an earlier release. */
async function migrateTo(last: string): Promise<void> {
  const files = (await readdir(MIGRATIONS)).filter((file) => file.endsWith('.ts'))
  const entries = await Promise.all(
    files.map(async (file) => [file.slice(0, -3), await import(new URL(file, MIGRATIONS).href)]),
  )
  const { db, close } = connect({ url, poolSize: 1 })
  const migrator = new Migrator({ db, provider: { getMigrations: async () => Object.fromEntries(entries) } })
  const { error } = await migrator.migrateTo(last)
  await close()
  if (error) throw error
}

test('sessions and invitations of an earlier release work after an upgrade', async () => {
  await migrateTo('0008-deletion-and-key-revocation')
  const [companyId, userId, sessionId] = [randomUUID(), randomUUID(), randomUUID()]
  const passwordHash = await (await createPasswordHasher()).hash(PASSWORD)
  const [cookie, mailed] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')]
  const sha256 = (text: string) => `\\x${createHash('sha256').update(text).digest('hex')}`
  const [waiting, followed] = ['waiting@acme.example', 'followed@acme.example']
  const statements = [
    `insert into companies values ('${companyId}', 'Acme', 'active', now())`,
    `insert into subscriptions values ('${companyId}', 'enterprise', 'active', now() + interval '1 year')`,
    `insert into users (company_id, user_id, email, name, role, assignments, status, password_hash,
      email_verified_at, created_at) values ('${companyId}', '${userId}', 'ada@acme.example', 'Ada', 'admin', '{}',
      'active', '${passwordHash}', now(), now())`,
    `insert into sessions (company_id, session_id, user_id, kind, cookie_hash, created_at, issued_at, expires_at,
      max_expires_at) values ('${companyId}', '${sessionId}', '${userId}', 'cookie', '${sha256(cookie)}',
      now() - interval '1 hour', now(), now() + interval '1 hour', now() + interval '1 day')`,
    `insert into one_time_tokens values ('${companyId}', 'invite', '${followed}', '${sha256(mailed)}', 'analyst',
      now() - interval '1 hour', now() + interval '1 day')`,
    `insert into mail_outbox (company_id, mail_id, kind, recipient, facts, created_at, next_attempt_at) values
      ('${companyId}', '${randomUUID()}', 'invitation', '${waiting}', '{"role":"viewer"}', now(), now())`,
  ]
  for (const statement of statements) await runStatement(url, statement)

  const { maintenance, close } = connect({ url, poolSize: 2 })
  await migrate(maintenance)
  await close()
  const service = await openTestService({ url, env: { SMTP_URL: mailbox.url } })
  const { call } = service

  // The existing session works. It authenticated when it was created, too long ago for a change.
  expect((await service.getSession({ cookie })).status).toBe(200)
  const invitation = { email: 'new@acme.example', role: 'viewer' }
  const { body: refusal } = await call('/auth/invitations', { json: invitation, cookie })
  expect(refusal.code).toBe('reauthentication_required')

  const ada = { companyId, email: 'ada@acme.example', password: PASSWORD }
  const { accessToken: token } = await service.loginAs(ada)
  expect((await call('/auth/invitations', { json: invitation, token })).status).toBe(201)
  // A mail that waited goes out, and both links work.
  const { token: late } = await mailbox.mailTo(waiting)
  const { body: listed } = await call('/auth/invitations', { method: 'GET', token })
  for (const [email, role, link] of [
    [waiting, 'viewer', late],
    [followed, 'analyst', `invite_${mailed}`],
  ] as const) {
    expect(listed.invitations).toContainEqual(expect.objectContaining({ email, role, invitedBy: null }))
    const json = { token: link, name: 'Bob', password: PASSWORD }
    expect([email, (await call('/auth/invitations/accept', { json })).status]).toEqual([email, 201])
    await service.loginAs({ companyId, email, password: PASSWORD })
  }
})
