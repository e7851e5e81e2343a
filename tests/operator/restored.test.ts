import { sql } from 'kysely'
import { afterAll, describe, expect, inject, test } from 'vitest'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { PLATFORM } from '../../src/audit/entry.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { connect } from '../../src/database/connect.ts'
import { companySecurity } from '../../src/operator/companies.ts'
import { retireKey } from '../../src/operator/keys.ts'
import { settleRestored } from '../../src/operator/restored.ts'
import { invite } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { useService } from '../support/onboarding.ts'
import { copyDatabase, databaseUrl } from '../support/postgres.ts'
import { codeAt, must, openFactorService } from '../support/second-factors.ts'

/** A backup brings back what was ended, used and replaced since. A copy of the database is one. */

const serverUrl = inject('serverUrl')
const former = await openFactorService()
const { clock, mailbox, call } = former
const databaseOf = (url: string) => new URL(url).pathname.slice(1)
const sealer = createSealer(former.config.masterKeys, clock.randomBytes)
const kidOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.', 1)[0] ?? '', 'base64url').toString()).kid

// What there is when the backup is made.
const admin = await former.addCompany()
const viewer = await former.addUser(admin)
const waiting = await former.addUser(admin)
const byTotp = await former.personWithTotp(admin)
const byPasskey = await former.personWithPasskey(admin)
const secret = await former.newSecret(admin)
const signedIn = await former.loginAs(viewer)
const cookie = await former.cookieOf(viewer)
const json = { companyId: viewer.companyId, email: viewer.email }
await must(call('/auth/password/forgot', { json }))
const { token: link } = await mailbox.mailTo(viewer.email)
await invite(former.context, admin.companyId, { email: 'bob@else.example', role: 'viewer' })
const { token: invitation } = await mailbox.mailTo('bob@else.example')
const strict = await former.addCompany()
await companySecurity(former.context, strict.companyId, 'everyone', clock.now())
await must(call('/auth/second-factors/mail-code', { token: (await former.loginAs(strict)).accessToken }))
await mailbox.mailTo(strict.email, 'Your code')
// That a mail was sent is stored after it has come.
await useService(former, mailbox).allSent()
for (const sender of former.senders) await sender.stop()
await must(call('/auth/password/forgot', { json: { companyId: waiting.companyId, email: waiting.email } }))
const { challenge } = await former.begin(byTotp)
const code = codeAt(byTotp.secret, clock.now())
const begun = await must(call('/auth/login/passkey/options'))
const assertion = {
  challenge: begun.challenge,
  response: byPasskey.authenticator.get(begun.passkeyOptions),
}
const backup = await copyDatabase(serverUrl, databaseOf(former.url))
afterAll(() => runStatement(serverUrl, `drop database ${backup}`))

// What is ended, used and replaced before the backup is restored.
const byCode = { challenge, method: 'totp', code }
const logout = { token: signedIn.accessToken }
const again = await former.newSecret(admin)
await must(call('/auth/logout', logout))
await must(call('/auth/logout', { cookie }))
await must(former.complete(byCode))
await must(call('/auth/login/passkey', { json: assertion }))
await retireKey({ db: former.db, sealer, system: clock }, kidOf(signedIn.accessToken), clock.now())

/** Opens an instance on a copy of the backup. `settle` comes before it starts. */
async function restore(settle?: (database: string) => Promise<void>) {
  const restored = await copyDatabase(serverUrl, backup)
  await settle?.(databaseUrl(serverUrl, restored))
  const service = await openFactorService({ template: restored, clocks: [clock] })
  await runStatement(serverUrl, `drop database ${restored}`)
  return service
}

type Restored = Awaited<ReturnType<typeof restore>>

/** The statuses of all that was given out before. */
async function statusesAt({ call, getSession, refresh, complete }: Restored) {
  const newPassword = 'another fine battery'
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

const settle = (url: string) => {
  const { maintenance: db, close } = connect({ url, poolSize: 1 })
  return settleRestored({ db, sealer, system: clock }, clock.now()).finally(close)
}

test('with other master keys nothing is settled, since no instance could start (ASVS 13.3.4)', async () => {
  const service = await restore(async (url) => {
    const { maintenance: db, close } = connect({ url, poolSize: 1 })
    const other = createSealer([{ id: 'test', key: Buffer.alloc(32, 1) }], clock.randomBytes)
    const settling = settleRestored({ db, sealer: other, system: clock }, clock.now()).finally(close)
    await expect(settling).rejects.toThrow('sealed')
  })
  expect((await statusesAt(service)).refresh).toBe(200)
})

test('a restored backup undoes what was ended, used and replaced since', async () => {
  const service = await restore()
  expect(await statusesAt(service)).toEqual({
    token: 200,
    refresh: 200,
    cookie: 200,
    invitation: 200,
    challenge: 200,
    passkey: 200,
    link: 204,
  })
  const event = { type: 'a.b', data: {} }
  expect((await service.send(admin.companyId, secret, event)).status).toBe(202)
})

describe('once that is settled, before an instance starts (ASVS 7.4.1, 7.4.3, 13.3.4)', async () => {
  const told: Awaited<ReturnType<typeof settle>>[] = []
  const service = await restore(async (url) => {
    // A second time, as after a connection that was lost, does no harm.
    for (const _ of [1, 2]) told.push(await settle(url))
  })
  const [first, second] = told

  test('nothing that was given out before works on an instance', async () => {
    expect(await statusesAt(service)).toEqual({
      token: 401,
      refresh: 401,
      cookie: 401,
      invitation: 400,
      challenge: 401,
      passkey: 401,
      link: 400,
    })
    const { body } = await service.refresh(signedIn.refreshToken)
    expect([body.code, body.reason]).toEqual(['session_ended', 'ended_by_operator'])
  })

  test('no mail that waited is sent, and no code waits', async () => {
    for (const table of [
      'mail_outbox',
      'mailbox_codes',
      'second_factor_challenges',
      'invitations',
    ] as const) {
      const isUnsent = table === 'mail_outbox' ? sql`sent_at is null` : sql`true`
      const { rows } = await sql`select from ${sql.table(table)} where ${isUnsent}`.execute(service.db)
      expect([table, rows]).toEqual([table, []])
    }
  })

  test('another key signs than those of before, which are no longer published', async () => {
    const { accessToken: token } = await service.loginAs(admin)
    expect((await service.getSession({ token })).status).toBe(200)
    expect(kidOf(token)).toBe(second?.newKey)
    const { body } = await service.call('/.well-known/jwks.json', { method: 'GET' })
    expect(body.keys.map(({ kid }: { kid: string }) => kid)).toEqual([second?.newKey])
    expect(first?.retiredKeys).toContain(kidOf(signedIn.accessToken))
  })

  test('a code of an authenticator app that was used before is not taken, and new ones and passkeys are after two minutes', async () => {
    const { challenge } = await service.begin(byTotp)
    expect((await service.complete({ ...byCode, challenge })).status).toBe(401)
    clock.advance(120)
    const now = { challenge, method: 'totp', code: codeAt(byTotp.secret, clock.now()) }
    expect((await service.complete(now)).status).toBe(200)
    const asked = await must(service.call('/auth/login/passkey/options'))
    const response = byPasskey.authenticator.get(asked.passkeyOptions)
    const json = { challenge: asked.challenge, response }
    expect((await service.call('/auth/login/passkey', { json })).status).toBe(200)
  })

  test('it is audited as an act on the platform, with what was made void (ASVS 16.2.1)', async () => {
    const { check, ...details } = first ?? {}
    const entries = await selectAudit(service.db)
      .select(['actor', 'details'])
      .where('company_id', '=', PLATFORM)
      .where('action', '=', 'restored')
      .execute()
    expect(entries).toHaveLength(2)
    expect(entries).toContainEqual({ actor: 'operator', details })
    // Links to reset, to join, and to undo a first factor, of two members.
    const counts = { companies: 2, mails: 1, links: 4, invitations: 1, challenges: 1, mailedCodes: 1 }
    expect(details).toMatchObject(counts)
  })

  test('it says what else to check, and which requests of the log tell of it', async () => {
    const text = (first?.check ?? []).join('\n')
    for (const word of ['Signing secrets', 'disabled', 'Passwords', 'Recovery codes', 'operators'])
      expect(text).toContain(word)
    const { paths } = (await service.call('/openapi.json', { method: 'GET' })).body
    const named = [...text.matchAll(/\b(GET|POST|PATCH|DELETE) \/api(\/[\w/:-]+)/g)]
    expect(named.length).toBeGreaterThan(10)
    for (const [, method = '', path = ''] of named)
      expect(paths[path.replace(/:(\w+)/g, '{$1}')]).toHaveProperty(method.toLowerCase())
    // What it cannot undo: the signing secret of the backup is good again.
    const event = { type: 'a.b', data: {} }
    expect((await service.send(admin.companyId, again, event)).status).toBe(401)
    expect((await service.send(admin.companyId, secret, event)).status).toBe(202)
  })
})
