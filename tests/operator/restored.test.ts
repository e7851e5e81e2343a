import { sql } from 'kysely'
import { afterAll, expect, inject, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { PLATFORM } from '../../src/audit/entry.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { connect } from '../../src/database/connect.ts'
import { companySecurity } from '../../src/operator/companies.ts'
import { retireKey, settleRestored } from '../../src/operator/platform.ts'
import { invite } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { NEW_PASSWORD } from '../support/environment.ts'
import { useService } from '../support/onboarding.ts'
import { copyDatabase, databaseUrl } from '../support/postgres.ts'
import { codeAt, must, openFactorService } from '../support/second-factors.ts'

/** A backup restores what was ended, used, or replaced after it. A copy of the database acts as one. */

const serverUrl = inject('serverUrl')
const former = await openFactorService()
const { clock, mailbox, call } = former
const databaseOf = (url: string) => new URL(url).pathname.slice(1)
const sealer = createSealer(former.config.masterKeys, clock.randomBytes)
const kidOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.', 1)[0] ?? '', 'base64url').toString()).kid

// State at the time of the backup.
const admin = await former.addCompany()
const viewer = await former.addUser(admin)
const waiting = await former.addUser(admin)
const byTotp = await former.personWithTotp(admin)
const byPasskey = await former.personWithPasskey(admin)
const signedIn = await former.loginAs(viewer)
const cookie = await former.cookieOf(viewer)
const json = { companyId: viewer.companyId, email: viewer.email }
await must(call('/auth/password/forgot', { json }))
const { token: link } = await mailbox.mailTo(viewer.email)
await invite(former.context, admin.companyId, { email: 'bob@else.example', role: 'viewer' })
const { token: invitation } = await mailbox.mailTo('bob@else.example')
const strict = await former.addCompany()
await companySecurity(former.context, strict.companyId, { secondFactor: 'everyone' })
await must(call('/auth/second-factors/mail-code', { token: (await former.loginAs(strict)).accessToken }))
await mailbox.mailTo(strict.email, 'Your code')
// The row is marked as sent only after the email arrives.
await useService(former, mailbox).allSent()
for (const sender of former.senders) await sender.stop()
await must(call('/auth/password/forgot', { json: { companyId: waiting.companyId, email: waiting.email } }))
const { challenge } = await former.begin(byTotp)
const code = codeAt(byTotp.secret, clock.now())
const begun = await must(call('/auth/login/passkey/options'))
const response = byPasskey.authenticator.get(begun.passkeyOptions)
const assertion = { challenge: begun.challenge, response }
const backup = await copyDatabase(serverUrl, databaseOf(former.url))
afterAll(() => runStatement(serverUrl, `drop database ${backup}`))

// Ended, used, and replaced after the backup.
const byCode = { challenge, method: 'totp', code }
const logout = { token: signedIn.accessToken }
await must(call('/auth/logout', logout))
await must(call('/auth/logout', { cookie }))
await must(former.complete(byCode))
await must(call('/auth/login/passkey', { json: assertion }))
await retireKey({ db: former.db, sealer, system: clock }, kidOf(signedIn.accessToken))

/** Opens an instance on a copy of the backup. `settle` runs before it starts. */
async function restore(settle?: (database: string) => Promise<void>) {
  const restored = await copyDatabase(serverUrl, backup)
  await settle?.(databaseUrl(serverUrl, restored))
  const service = await openFactorService({ template: restored, clocks: [clock] })
  await runStatement(serverUrl, `drop database ${restored}`)
  return service
}

type Restored = Awaited<ReturnType<typeof restore>>

/** Statuses of all credentials issued before the backup. */
async function statusesAt({ call, getSession, refresh, complete }: Restored) {
  const newPassword = NEW_PASSWORD
  return {
    token: (await getSession({ token: signedIn.accessToken })).status,
    refresh: (await refresh(signedIn.refreshToken)).status,
    cookie: (await getSession({ cookie })).status,
    invitation: (await call('/auth/invitations/preview', { json: { token: invitation } })).status,
    challenge: (await complete(byCode)).status,
    passkey: (await call('/auth/login/passkey', { json: assertion })).status,
    link: (await call('/auth/password/reset', { json: { token: link, newPassword } })).status,
  }
}

const settle = (url: string, by = sealer) => {
  const { maintenance: db, close } = connect({ url, poolSize: 1 })
  return settleRestored({ db, sealer: by, system: clock }).finally(close)
}

test('a restored backup reverts changes; wrong master keys settle nothing (ASVS 13.3.4)', async () => {
  const service = await restore(async (url) => {
    const other = createSealer([{ id: 'test', key: Buffer.alloc(32, 1) }], clock.randomBytes)
    await expect(settle(url, other)).rejects.toThrow('cannot be decrypted')
  })
  const sessions = { token: 200, refresh: 200, cookie: 200 }
  const begun = { invitation: 200, challenge: 200, passkey: 200, link: 204 }
  expect(await statusesAt(service)).toEqual({ ...sessions, ...begun })
})

const told: Awaited<ReturnType<typeof settle>>[] = []
const service = await restore(async (url) => {
  // A second run, such as after a lost connection, changes nothing.
  for (const _ of [1, 2]) told.push(await settle(url))
})
const [first, second] = told

test('a settled backup accepts no earlier credential, and sends no queued email (ASVS 7.4.1, 7.4.3, 13.3.4)', async () => {
  const sessions = { token: 401, refresh: 401, cookie: 401 }
  const begun = { invitation: 400, challenge: 401, passkey: 401, link: 400 }
  expect(await statusesAt(service)).toEqual({ ...sessions, ...begun })
  const { body } = await service.refresh(signedIn.refreshToken)
  expect([body.code, body.reason]).toEqual(['session_ended', 'ended_by_operator'])
  for (const table of ['mail_outbox', 'mailbox_codes', 'second_factor_challenges', 'invitations']) {
    const isUnsent = table === 'mail_outbox' ? sql`sent_at is null` : sql`true`
    const { rows } = await sql`select from ${sql.table(table)} where ${isUnsent}`.execute(service.db)
    expect([table, rows]).toEqual([table, []])
  }
})

test('a settled backup signs with a new key, and publishes only it', async () => {
  const { accessToken: token } = await service.loginAs(admin)
  expect((await service.getSession({ token })).status).toBe(200)
  expect(kidOf(token)).toBe(second?.newKey)
  const { body } = await service.call('/.well-known/jwks.json', { method: 'GET' })
  expect(body.keys.map(({ kid }: { kid: string }) => kid)).toEqual([second?.newKey])
  expect(first?.retiredKeys).toContain(kidOf(signedIn.accessToken))
})

test('a settled backup refuses used codes; new ones work after two minutes', async () => {
  const { challenge } = await service.begin(byTotp)
  expect((await service.complete({ ...byCode, challenge })).status).toBe(401)
  clock.advance(120)
  const now = { challenge, method: 'totp', code: codeAt(byTotp.secret, clock.now()) }
  expect((await service.complete(now)).status).toBe(200)
  expect((await service.signInByPasskey(byPasskey)).status).toBe(200)
})

test('settling a backup is audited, including what it invalidated (ASVS 16.2.1)', async () => {
  const { check, ...details } = first ?? {}
  const entries = await selectAudit(service.db)
    .select(['actor', 'details'])
    .where('company_id', '=', PLATFORM)
    .where('action', '=', 'restored')
    .execute()
  expect(entries).toHaveLength(2)
  expect(entries).toContainEqual({ actor: 'operator', details })
  // Two members' links to reset, to join, and to undo a first factor.
  const counts = { companies: 2, mails: 1, links: 4, invitations: 1, challenges: 1, mailedCodes: 1 }
  expect(details).toMatchObject(counts)
})

test('settling a backup lists further checks, as requests that exist', () => {
  const { paths } = JSON.parse(inject('openapi').api)
  const text = (first?.check ?? []).join('\n')
  const named = [...text.matchAll(/\b(GET|POST|PATCH|DELETE) \/api(\/[\w/:-]+)/g)]
  expect(named.length).toBeGreaterThan(10)
  for (const [, method = '', path = ''] of named)
    expect(paths[path.replace(/:(\w+)/g, '{$1}')]).toHaveProperty(method.toLowerCase())
})
