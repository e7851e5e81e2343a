import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { listAudit, selectAudit } from '../support/audit.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { expectProblem } from '../support/problem.ts'
import { type Credential, useFactorService } from '../support/second-factors.ts'
import { countWaiting, PASSWORD, type Person, times } from '../support/test-service.ts'

/** A user exports what is stored about them, or deletes their own account. */

const service = await useFactorService()
const { db, clock, call } = service

const exportOf = (credential: Credential, options = {}) =>
  call('/auth/account/export', { method: 'GET', ...credential, ...options })
const remove = (credential: Credential, options = {}) =>
  call('/auth/account', { method: 'DELETE', ...credential, ...options })
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken as string

async function staleToken(person: Person): Promise<string> {
  const { refreshToken } = await service.loginAs(person)
  clock.advance(16 * 60)
  return (await service.refresh(refreshToken)).body.accessToken
}

describe('the export', () => {
  test('has everything about the user, but no secret and nobody else', async () => {
    const { companyId, ...founder } = await service.addCompany({ name: 'Northern ferries' })
    const admin = { companyId, ...founder }
    const person = await service.personWithTotp(admin, 'admin')
    const cookie = await service.cookieByTotp(person)
    const token = await service.signInByTotp(person).then(({ body }) => body.accessToken as string)
    const secret = await service.newSecret(admin)
    await service.login({ ...person, password: 'wrong' })
    const { challenge } = await service.begin(person)
    await call('/auth/invitations', {
      token,
      json: { email: `guest-${companyId}@x.example`, role: 'viewer' },
    })
    await call('/auth/email/change', { token, json: { newEmail: `new-${companyId}@x.example` } })
    await call('/auth/password/forgot', { json: { companyId, email: person.email } })
    const byAdmin = { method: 'PATCH', token: await tokenOf(admin), json: { assignments: ['region:eu-1'] } }
    await call(`/auth/members/${person.userId}`, byAdmin)

    const { status, body, headers } = await exportOf({ token })
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'content-disposition': 'attachment; filename="account.json"',
    })
    const { id, name, email, assignments } = body.account
    expect([id, email, assignments]).toEqual([person.userId, person.email, ['region:eu-1']])
    expect(name).toBeTypeOf('string')
    expect(body.company).toMatchObject({ id: companyId, name: 'Northern ferries' })
    expect(body.sessions).toHaveLength(3)
    expect(body.secondFactors).toMatchObject([{ kind: 'totp', confirmedAt: expect.any(String) }])
    expect(body).toMatchObject({
      recoveryCodes: 10,
      servicePasswords: [],
      emailChange: { email: `new-${companyId}@x.example` },
      invitations: [{ email: `guest-${companyId}@x.example`, role: 'viewer' }],
    })
    expect(body.knownClients.length).toBeGreaterThan(0)
    expect(body.challenges.length).toBeGreaterThan(0)
    const kinds = body.emails.map(({ kind }: { kind: string }) => kind)
    expect(kinds).toEqual(
      expect.arrayContaining(['email_change', 'email_change_requested', 'password_reset']),
    )
    const own = { actor: person.userId, ipAddress: '127.0.0.1' }
    expect(body.auditEntries).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ action: 'second_factor_add', ...own }),
        expect.objectContaining({
          action: 'sign_in',
          outcome: 'refused',
          reason: 'wrong_password',
          count: 1,
        }),
        expect.objectContaining({
          action: 'user_assignments',
          actor: admin.userId,
          sessionId: null,
          ipAddress: null,
        }),
      ]),
    )
    const ids = body.auditEntries.map((entry: { id: string }) => entry.id)
    expect(new Set(ids).size).toBe(ids.length)
    const written = JSON.stringify(body)
    const secrets = [person.secret, ...(person.recoveryCodes ?? []), cookie, token, secret, challenge]
    for (const hidden of [...secrets, PASSWORD, admin.email, '$argon2']) expect(written).not.toContain(hidden)
    // Another member's export has nothing of it.
    const others = JSON.stringify((await exportOf({ token: await tokenOf(admin) })).body)
    for (const hidden of [person.email, `guest-${companyId}`, `new-${companyId}`])
      expect(others).not.toContain(hidden)
  })

  test('names operators nowhere, and has entries about the email', async () => {
    const { companyId, userId, ...person } = await service.addCompany()
    await sql`insert into audit_events (audit_id, company_id, occurred_at, action, outcome, actor, subject, details)
      select gen_random_uuid(), ${companyId}, now(), action, 'done', 'operator', subject, '{"operator":"grace"}'
      from (values ('user_unlock', ${userId}), ('invite', ${person.email})) e (action, subject)`.execute(db)
    const { body } = await exportOf({ token: await tokenOf({ companyId, userId, ...person }) })
    expect(body.auditEntries).toContainEqual(expect.objectContaining({ action: 'user_unlock', details: {} }))
    const invitation = { action: 'invite', subject: person.email, details: {} }
    expect(body.auditEntries).toContainEqual(expect.objectContaining(invitation))
  })

  test('has every audit entry, however many there are', async () => {
    const person = await service.addCompany()
    await sql`insert into audit_events (audit_id, company_id, occurred_at, action, outcome, actor)
      select gen_random_uuid(), ${person.companyId}, now() - n * interval '1 second', 'name_change', 'done',
        ${person.userId} from generate_series(1, 1100) n`.execute(db)
    const { body } = await exportOf({ token: await tokenOf(person) })
    const changes = body.auditEntries.filter(({ action }: { action: string }) => action === 'name_change')
    expect(changes).toHaveLength(1_100)
  })

  test('runs once per user at a time', async () => {
    const admin = await service.addCompany()
    const [token, other] = [await tokenOf(admin), await tokenOf(await service.addUser(admin))]
    const first = await db.transaction().execute(async (tx) => {
      await sql`lock table audit_events in access exclusive mode`.execute(tx)
      const running = exportOf({ token })
      await expect.poll(() => countWaiting(db), { timeout: 50_000 }).toBeGreaterThan(0)
      expectProblem(await exportOf({ token }), [429, 'rate_limited'])
      return { running }
    })
    expect((await first.running).status).toBe(200)
    expect((await call('/auth/account/export', { method: 'HEAD', token })).status).toBe(200)
    for (const credential of [{ token }, { token: other }])
      await expect.poll(async () => (await exportOf(credential)).status).toBe(200)
  })

  test('requires recent authentication, although it changes nothing (ASVS 7.5.3)', async () => {
    const token = await staleToken(await service.addCompany())
    expectProblem(await exportOf({ token }), [403, 'reauthentication_required'])
  })

  test('is not read for pages of other sites', async () => {
    const cookie = await service.cookieOf(await service.addCompany())
    const headers = { 'sec-fetch-site': 'cross-site' }
    expectProblem(await exportOf({ cookie }, { headers }), [403, 'cross_site_request'])
    expect((await exportOf({ cookie }, { headers: { 'sec-fetch-site': 'same-origin' } })).status).toBe(200)
  })

  test('every column that names a user is exported, or has a reason not to be', async () => {
    const { rows } = await sql<{ name: string }>`
      select c.table_name || '.' || c.column_name as name from information_schema.columns c
      join pg_class t on t.oid = c.table_name::regclass and t.relkind in ('r', 'p') and not t.relispartition
      where c.table_schema = 'public'
        and c.column_name ~ '(user_id|_by|email|actor|subject|recipient|ip_address|user_agent)$'`.execute(db)
    expect(rows.map(({ name }) => name).toSorted()).toEqual(Object.keys(NAMING_USERS).toSorted())
    const { body } = await exportOf({ token: await tokenOf(await service.addCompany()) })
    const exported = Object.values(NAMING_USERS).filter((where) => !where.includes(' '))
    expect(Object.keys(body)).toEqual(expect.arrayContaining(exported))
  })
})

/** The member of the export, or a reason. */
const NAMING_USERS: Record<string, string> = {
  'audit_addresses.email': 'auditEntries',
  'audit_addresses.ip_address': 'auditEntries',
  'audit_events.actor': 'auditEntries',
  'audit_events.ip_address': 'auditEntries',
  'audit_events.subject': 'auditEntries',
  'invitations.email': 'only of people who are not members',
  'invitations.invited_by': 'invitations',
  'known_clients.user_id': 'knownClients',
  'mail_outbox.recipient': 'emails',
  'mailbox_codes.user_id': 'emailedCodes',
  'one_time_tokens.email': 'links',
  'one_time_tokens.user_id': 'links',
  'recovery_codes.user_id': 'recoveryCodes',
  'refused_requests.ip_address': 'of servers that send events',
  'refused_sign_ins.ip_address': 'auditEntries',
  'refused_sign_ins.last_email': 'without a user, anyone can have typed it',
  'refused_sign_ins.user_id': 'auditEntries',
  'second_factor_challenges.answered_by': 'a digest of a request',
  'second_factor_challenges.ip_address': 'challenges',
  'second_factor_challenges.user_id': 'challenges',
  'second_factors.user_id': 'secondFactors',
  'service_passwords.created_by': 'the audit trail has it, as service_password',
  'service_passwords.user_id': 'servicePasswords',
  'service_sign_ins.ip_address': 'auditEntries',
  'service_sign_ins.user_id': 'auditEntries',
  'sessions.ip_address': 'sessions',
  'sessions.user_agent': 'sessions',
  'sessions.user_id': 'sessions',
  'signing_secrets.created_by': 'signingSecrets',
  'users.email': 'account',
  'users.invited_by': 'account',
  'users.pending_email': 'emailChange',
  'users.user_id': 'account',
}

describe('deletion of the own account', () => {
  test('leaves what the deletion by an admin leaves (ASVS 14.2.7)', async () => {
    const admin = await service.addCompany()
    const leave = async (act: (person: Person & { token: string }) => Promise<{ status: number }>) => {
      const person = await service.personWithTotp(admin)
      const { accessToken: token } = (await service.signInByTotp(person)).body
      expect((await act({ ...person, token })).status).toBe(204)
      return person
    }
    const own = await leave(({ token }) => remove({ token }))
    const other = await leave(async ({ userId }) =>
      call(`/auth/members/${userId}`, { method: 'DELETE', token: await tokenOf(admin) }),
    )
    const left = async ({ userId, email }: Person) => {
      const users = db.selectFrom('users').select(['status', 'email', 'name', 'password_hash', 'role'])
      const factors = db.selectFrom('second_factors').select('factor_id').where('user_id', '=', userId)
      const clients = db.selectFrom('known_clients').select('kind').where('user_id', '=', userId)
      const mails = db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email)
      return [
        await users.where('user_id', '=', userId).execute(),
        await factors.execute(),
        await clients.execute(),
        await mails.execute(),
      ]
    }
    expect(await left(own)).toEqual(await left(other))
    const erased = { status: 'deleted', email: null, name: '', password_hash: '', role: 'viewer' }
    expect(await left(own)).toEqual([[erased], [], [], []])
    expect(await listAudit(db, 'user_delete', own)).toEqual([
      { actor: own.userId, subject: own.userId, outcome: 'done', details: null },
    ])
  })

  test('ends every session on every instance, and expires the cookie (ASVS 7.4.2)', async () => {
    const person = await service.addUser(await service.addCompany())
    const { accessToken, refreshToken, session } = await service.loginAs(person)
    const cookie = await service.cookieOf(person)
    const answer = await remove({ cookie })
    expect(answer.status).toBe(204)
    expect(answer.headers['set-cookie']).toMatch(/^__Host-session=;.*Max-Age=0.*Secure/)
    for (const credential of [{ token: accessToken }, { cookie }])
      expect(await service.getSession({ ...credential, at: 1 })).toMatchObject({
        status: 401,
        body: { code: 'session_ended', reason: 'user_deleted' },
      })
    expect((await service.refresh(refreshToken, { at: 1 })).status).toBe(401)
    expect((await service.login(person)).status).toBe(401)
    const entry = selectAudit(db).select(['session_id', 'ip_address']).where('action', '=', 'user_delete')
    const [deletion] = await entry.where('subject', '=', person.userId).execute()
    expect(deletion).toMatchObject({ ip_address: '127.0.0.1' })
    expect(deletion?.session_id).not.toBe(session.id)
  })

  test('cancels a pending email change and invitations', async () => {
    const admin = await service.addCompany()
    const person = await service.addUser(admin, 'admin')
    const token = await tokenOf(person)
    const newEmail = `leaving-${person.userId}@x.example`
    const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
    expect((await call('/auth/email/change', { token, json: { newEmail, mailCode } })).status).toBe(202)
    const json = { email: `guest-${person.userId}@x.example`, role: 'viewer' }
    expect((await call('/auth/invitations', { token, json })).status).toBe(201)
    expect((await remove({ token })).status).toBe(204)
    const { body } = await call('/auth/invitations', { method: 'GET', token: await tokenOf(admin) })
    expect(body.invitations).toEqual([])
    const mails = db.selectFrom('mail_outbox').select('kind').where('recipient', '=', newEmail)
    expect(await mails.execute()).toEqual([])
  })

  test('requires recent authentication (ASVS 7.5.1)', async () => {
    const admin = await service.addCompany()
    const person = await service.addUser(admin)
    expectProblem(await remove({ token: await staleToken(person) }), [403, 'reauthentication_required'])
    expect((await service.login(person)).status).toBe(200)
  })

  test('is refused for service accounts', async () => {
    const admin = await service.addCompany()
    const account = await service.addServiceAccount(admin, await tokenOf(admin))
    const token = (await service.loginAs({ ...admin, ...account })).accessToken
    expectProblem(await remove({ token }), [403, 'permission_denied'])
    expect((await exportOf({ token })).body).toMatchObject({
      servicePasswords: [{ hint: expect.any(String) }],
    })
  })

  test('is refused for the last admin, even beside other members', async () => {
    const admin = await service.addCompany()
    await service.addUser(admin)
    const token = await tokenOf(admin)
    expectProblem(await remove({ token }), [409, 'last_admin'])
    expect((await service.getSession({ token })).status).toBe(200)
  })

  const activeAdmins = async ({ companyId }: Person) => {
    const admins = db.selectFrom('users').select('user_id').where('role', '=', 'admin')
    return await admins.where('company_id', '=', companyId).where('status', '=', 'active').execute()
  }

  test('leaves one admin if all delete themselves concurrently on two instances (ASVS 15.4.2)', async () => {
    for (const _ of times(5, () => 0)) {
      const first = await service.addCompany()
      const admins = [first, ...(await Promise.all(times(3, () => service.addUser(first, 'admin'))))]
      const tokens = await Promise.all(admins.map(tokenOf))
      const answers = await Promise.all(tokens.map((token, index) => remove({ token }, { at: index % 2 })))
      expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 204, 204, 409])
      expect(await activeAdmins(first)).toHaveLength(1)
    }
  })

  test('leaves one of two admins if the other one deletes them at the same time', async () => {
    for (const _ of times(5, () => 0)) {
      const one = await service.addCompany()
      const other = await service.addUser(one, 'admin')
      const [token, otherToken] = [await tokenOf(one), await tokenOf(other)]
      const answers = await Promise.all([
        remove({ token: otherToken }),
        call(`/auth/members/${other.userId}`, { method: 'DELETE', token, at: 1 }),
      ])
      expect([
        [204, 404],
        [401, 204],
      ]).toContainEqual(answers.map(({ status }) => status))
      expect(await activeAdmins(one)).toEqual([{ user_id: one.userId }])
    }
  })
})
