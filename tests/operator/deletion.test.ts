import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { queueMail } from '../../src/mail/service.ts'
import { deleteCompany } from '../../src/operator/company-deletion.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { changeUserRole, changeUserStatus, deleteUser, unlockUser } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { releaseTogether } from '../support/races.ts'
import { openFactorService } from '../support/second-factors.ts'
import { countWaiting, openTestService, PASSWORD, type Person, times } from '../support/test-service.ts'

const service = await openFactorService({ instances: 2 })
const { mailbox } = service
const { db, clock, context } = service
const DAY = 86_400

/** Every table with a company in it, and how many rows of this company it has. */
async function rowsOf(companyId: string): Promise<Record<string, number>> {
  const { rows: tables } = await sql<{ name: string }>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where a.attname = 'company_id' and c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace = current_schema()::regnamespace`.execute(db)
  const counts = await Promise.all(
    tables.map(async ({ name }): Promise<[string, number]> => {
      const { rows } = await sql<{ count: number }>`
        select count(*)::int as count from ${sql.table(name)} where company_id = ${companyId}`.execute(db)
      return [name, rows[0]?.count ?? 0]
    }),
  )
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}

describe('the deletion of a company', () => {
  async function openBusyCompany() {
    const admin = await service.addCompany()
    const secret = await service.newSecret(admin)
    const user = await service.addUser(admin)
    const session = await service.loginAs(user)
    await service.login({ ...user, password: 'wrong' })
    await service.call('/auth/password/forgot', { json: { companyId: admin.companyId, email: user.email } })
    await service.begin(await service.personWithTotp(admin))
    await sql`
      insert into events (company_id, event_id, type, received_at, data)
      select ${admin.companyId}, 'event' || n, 'a.b', now(), '{}' from generate_series(1, 2500) n`.execute(db)
    return { admin, user, secret, session }
  }

  test('lets nobody in from its first commit on, and leaves the bare audit trail (ASVS 14.2.7)', async () => {
    const { admin, user, secret, session } = await openBusyCompany()
    const { companyId } = admin
    const deleted = await deleteCompany(context, companyId, clock.now())
    expect(deleted).toEqual({ events: 2500, sessions: 3, users: 3 })
    expect((await service.login(user)).status).toBe(401)
    expect((await service.getSession({ token: session.accessToken, at: 1 })).status).toBe(401)
    expect((await service.refresh(session.refreshToken)).status).toBe(401)
    expect((await service.send(companyId, secret, { type: 'a.b', data: {} })).status).toBe(401)
    // The row of the company stays until no request from before can add anything.
    await pruneAcrossCompanies(context, clock.now())
    expect(await rowsOf(companyId)).toEqual({
      companies: 1,
      subscriptions: 1,
      audit_events: expect.any(Number),
      company_handles: 1,
    })
    await sql`update companies set deletion_began_at = now() - interval '61 seconds'
      where company_id = ${companyId}`.execute(db)
    expect((await pruneAcrossCompanies(context, clock.now())).companies).toBe(1)
    // The handle is reserved for 90 days.
    expect(await rowsOf(companyId)).toEqual({ audit_events: expect.any(Number), company_handles: 1 })
    const entries = await selectAudit(db).selectAll().where('company_id', '=', companyId).execute()
    expect(entries.map(({ action }) => action)).toContain('company_delete')
    for (const entry of entries) expect([entry.ip_address, entry.email]).toEqual([null, null])
  })

  test('that was interrupted is gone on with, also by several at once', async () => {
    const { admin } = await openBusyCompany()
    await sql`update companies set status = 'deleting', deletion_began_at = now() - interval '1 hour'
      where company_id = ${admin.companyId}`.execute(db)
    expect((await service.login(admin)).status).toBe(401)
    const pruned = await Promise.all(times(4, () => pruneAcrossCompanies(context, clock.now())))
    expect(pruned.reduce((sum, { companies = 0 }) => sum + companies, 0)).toBeGreaterThanOrEqual(1)
    expect(await rowsOf(admin.companyId)).toMatchObject({ audit_events: expect.any(Number) })
    expect(await rowsOf(admin.companyId)).not.toHaveProperty('companies')
  })

  test('while events arrive loses none that was acknowledged before, and leaves none behind', async () => {
    const { admin, secret } = await openBusyCompany()
    let isOver = false
    const sending = (async () => {
      while (!isOver) await service.send(admin.companyId, secret, { type: 'a.b', data: {} })
    })()
    await deleteCompany(context, admin.companyId, clock.now())
    isOver = true
    await sending
    await sql`update companies set deletion_began_at = now() - interval '61 seconds'
      where company_id = ${admin.companyId}`.execute(db)
    await pruneAcrossCompanies(context, clock.now())
    expect(await rowsOf(admin.companyId)).not.toHaveProperty('events')
  })

  test('of one that does not exist is refused', async () => {
    await expect(deleteCompany(context, randomUUID(), clock.now())).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})

describe('a company that nobody has verified', () => {
  async function register(email: string): Promise<Person> {
    const json = { companyName: 'Acme', name: 'Ada', email, password: PASSWORD }
    const { body } = await service.call('/auth/register', { json })
    return { companyId: body.companyId, userId: body.userId, email, password: PASSWORD }
  }

  /** Moves the opening of a company into the past. */
  const age = async ({ companyId }: Person, days: number) => {
    const then = new Date(clock.now() - days * DAY * 1000)
    await sql`update companies set created_at = ${then} where company_id = ${companyId}`.execute(db)
    await sql`update users set created_at = ${then} where company_id = ${companyId}`.execute(db)
  }

  test('goes after 7 days with all that belongs to it; others stay', async () => {
    const [lapsed, young, verified] = await Promise.all(times(3, (i) => register(`founder${i}@acme.example`)))
    if (!lapsed || !young || !verified) throw new Error('three companies were registered')
    const { token } = await mailbox.mailTo(verified.email)
    expect((await service.call('/auth/verify-email', { json: { token } })).status).toBe(200)
    const operators = await service.addCompany()
    for (const company of [lapsed, verified, operators]) await age(company, 8)
    await age(young, 6)
    await pruneAcrossCompanies(context, clock.now())
    await sql`update companies set deletion_began_at = now() - interval '61 seconds' where status = 'deleting'`.execute(
      db,
    )
    expect((await pruneAcrossCompanies(context, clock.now())).companies).toBe(1)
    expect(Object.keys(await rowsOf(lapsed.companyId))).toEqual(['audit_events'])
    for (const company of [young, verified, operators]) {
      expect(await rowsOf(company.companyId)).toMatchObject({ companies: 1, users: 1, subscriptions: 1 })
    }
    expect((await service.login(verified)).status).toBe(200)
  })

  test('goes in one run, however many there are', async () => {
    const then = new Date(clock.now() - 8 * DAY * 1000)
    await sql`
      with opened as (
        insert into companies (company_id, name, status, created_at)
        select gen_random_uuid(), 'Acme', 'active', ${then}::timestamptz from generate_series(1, 1001)
        returning company_id
      )
      insert into users (company_id, user_id, email, name, role, assignments, status, password_hash, created_at)
      select company_id, gen_random_uuid(), 'x@acme.example', 'Ada', 'admin', '{}', 'active', 'x', ${then}::timestamptz
      from opened`.execute(db)
    // As if each deletion had begun a minute before the run came to it.
    await sql`create function began_before() returns trigger language plpgsql as $$ begin
      new.deletion_began_at := new.deletion_began_at - interval '61 seconds'; return new; end $$`.execute(db)
    await sql`create trigger began_before before update of deletion_began_at on companies
      for each row execute function began_before()`.execute(db)
    const { companies } = await pruneAcrossCompanies(context, clock.now())
    await sql`drop function began_before cascade`.execute(db)
    expect(companies).toBeGreaterThanOrEqual(1001)
    const left = db.selectFrom('users').select('user_id').where('email', '=', 'x@acme.example')
    expect(await left.execute()).toEqual([])
  })

  test('and whose deletion has begun is not marked again', async () => {
    const person = await register('lapsing@acme.example')
    await age(person, 8)
    await sql`update companies set status = 'deleting', deletion_began_at = now() - interval '61 seconds'
      where company_id = ${person.companyId}`.execute(db)
    expect((await pruneAcrossCompanies(context, clock.now())).companies).toBe(1)
    const entries = await selectAudit(db).selectAll().where('company_id', '=', person.companyId).execute()
    expect(entries.map(({ action }) => action)).toEqual(['register'])
  })

  test('that is verified during its deletion stays whole, or the link is refused', async () => {
    for (let round = 0; round < 20; round += 1) {
      const person = await register(`racer${round}@acme.example`)
      const { token } = await mailbox.mailTo(person.email)
      await age(person, 8)
      const [{ status }] = await Promise.all([
        service.call('/auth/verify-email', { json: { token }, at: round % 2 }),
        pruneAcrossCompanies(context, clock.now()),
      ])
      const rows = await rowsOf(person.companyId)
      const signIn = await service.login(person)
      const expected = status === 200 ? [200, 1, 200] : [400, undefined, 401]
      expect([status, rows['users'], signIn.status]).toEqual(expected)
    }
  })
})

describe('the deletion of a user', () => {
  test('leaves a bare id, and e-mail, name and password are gone for good (ASVS 14.2.7)', async () => {
    const admin = await service.addCompany()
    const other = await service.addUser(admin, 'admin', { email: 'leaver@company.example' })
    const secret = await service.newSecret(other)
    const { accessToken, refreshToken } = await service.loginAs(other)
    await service.login({ ...other, password: 'wrong' })
    const json = { companyId: other.companyId, email: other.email }
    await service.call('/auth/password/forgot', { json })
    const { token } = await mailbox.mailTo(other.email)
    await deleteUser(context, other.companyId, other, clock.now())

    for (const answer of [
      await service.getSession({ token: accessToken, at: 1 }),
      await service.refresh(refreshToken),
    ]) {
      expect([answer.status, answer.body.code, answer.body.reason]).toEqual([
        401,
        'session_ended',
        'user_deleted',
      ])
    }
    const reset = { json: { token, newPassword: 'another good password' } }
    expect((await service.call('/auth/password/reset', reset)).status).toBe(400)

    // The secret that the user made stays in force, and its creator is a bare id.
    expect((await service.send(admin.companyId, secret, { type: 'a.b', data: {} })).status).toBe(202)
    const { accessToken: adminToken } = await service.loginAs(admin)
    const { body } = await service.call('/auth/webhook-secret/status', { token: adminToken })
    expect(body.createdBy).toEqual({ id: other.userId, email: null })

    const { rows: tables } = await sql<{ name: string }>`
      select relname as name from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace`.execute(
      db,
    )
    for (const { name } of tables) {
      const { rows } = await sql`select from ${sql.table(name)} t where t::text like '%leaver@%'`.execute(db)
      expect([name, rows.length]).toEqual([name, 0])
    }
    const user = await db
      .selectFrom('users')
      .selectAll()
      .where('user_id', '=', other.userId)
      .executeTakeFirst()
    expect(user).toMatchObject({ status: 'deleted', email: null, name: '', password_hash: '' })
    await expect(changeUserStatus(context, other.companyId, other, 'active')).rejects.toMatchObject({
      code: 'not_found',
    })
    expect((await service.login(other)).status).toBe(401)
    // The e-mail is free again.
    const again = await service.addUser(admin, 'viewer', { email: other.email })
    expect((await service.login(again)).status).toBe(200)
    expect(again.userId).not.toBe(other.userId)
  })
})

describe('of a user who is deleted while they change their e-mail', () => {
  const PAUSED = { SMTP_URL: 'smtp://127.0.0.1:9' }

  async function textsWith(words: string, own = db): Promise<string[]> {
    const { rows: tables } = await sql<{ name: string }>`
      select relname as name from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace`.execute(
      own,
    )
    const found = []
    for (const { name } of tables) {
      const { rows } = await sql`select from ${sql.table(name)} t where t::text like ${`%${words}%`}`.execute(
        own,
      )
      if (rows.length > 0) found.push(name)
    }
    return found
  }

  test.for(['an operator', 'an admin'])('nothing of the new one is left after %s', async (who) => {
    const admin = await service.addCompany()
    const person = await service.addUser(admin)
    const { accessToken: token } = await service.loginAs(person)
    const newEmail = `wished-for-${who.replace(' ', '-')}@elsewhere.example`
    const mailCode = await mailedCodeOf(service, { token }, 'email_change_code')
    await service.call('/auth/email/change', { token, json: { newEmail, mailCode } })
    await mailbox.mailTo(newEmail)
    await expect.poll(() => textsWith(newEmail)).toEqual(expect.arrayContaining(['one_time_tokens', 'users']))
    const { accessToken: byAdmin } = await service.loginAs(admin)
    const path = `/auth/members/${person.userId}`
    if (who === 'an admin') await service.call(path, { method: 'DELETE', token: byAdmin })
    else await deleteUser(context, person.companyId, { userId: person.userId }, clock.now())
    expect(await textsWith(newEmail)).toEqual([])
    expect(await textsWith(person.email)).toEqual([])
  })

  test('neither is left if it was confirmed while an operator waited', async () => {
    const own = await openTestService({ env: PAUSED })
    const person = await own.addUser(await own.addCompany(), 'viewer', { email: 'before@x.example' })
    const deleting = await own.db.transaction().execute(async (tx) => {
      await tx
        .updateTable('users')
        .set({ email: 'after@x.example' })
        .where('user_id', '=', person.userId)
        .execute()
      const mail = {
        kind: 'password_reset',
        recipient: 'after@x.example',
        data: {},
        now: own.clock.now(),
      } as const
      await queueMail(tx, own.clock, person.companyId, mail)
      const waiting = deleteUser(own.context, person.companyId, { userId: person.userId }, own.clock.now())
      await vi.waitUntil(async () => (await countWaiting(own.db)) === 1, { timeout: 100_000 })
      return { waiting }
    })
    await deleting.waiting
    expect(await textsWith('after@x.example', own.db)).toEqual([])
  })
})

test('the deletion of a user while somebody guesses the password is no deadlock (ASVS 15.4.3)', async () => {
  const strict = await openTestService({ env: { RATE_LIMIT_SCALE: '1', LIMIT_SIGN_IN_FAILURES: '2/900' } })
  const user = await strict.addUser(await strict.addCompany())
  const guess = async () => (await strict.login({ ...user, password: 'wrong' })).status
  expect(await guess()).toBe(401)
  const deletion = async () => void (await deleteUser(strict.context, user.companyId, user, clock.now()))
  // The second guess is the last one, which is noted beside the user.
  const ends = await releaseTogether(strict.db, { table: 'users', ...user }, [deletion, guess])
  expect(ends).toEqual([undefined, 401])
})

describe('no company is left without an active admin by', () => {
  const acts: [string, (person: Person) => Promise<unknown>][] = [
    ['another role', (person) => changeUserRole(context, person.companyId, person, 'viewer', clock.now())],
    ['disabling', (person) => changeUserStatus(context, person.companyId, person, 'disabled')],
    ['deletion', (person) => deleteUser(context, person.companyId, person, clock.now())],
  ]

  test.each(acts)('%s', async (_act, act) => {
    const admin = await service.addCompany()
    await service.addUser(admin)
    const disabled = await service.addUser(admin, 'admin')
    await changeUserStatus(context, admin.companyId, disabled, 'disabled')
    await expect(act(admin)).rejects.toMatchObject({ code: 'last_admin' })
    expect((await service.loginAs(admin)).user.role).toBe('admin')
  })

  test.each(acts)('%s of all at once', async (_act, act) => {
    const admin = await service.addCompany()
    const admins = [admin, ...(await Promise.all(times(3, () => service.addUser(admin, 'admin'))))]
    const outcomes = await Promise.allSettled(admins.map(act))
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(refused).toEqual([expect.objectContaining({ code: 'last_admin' })])
  })
})

test('unlocking lets a user in whom wrong passwords have locked out, from everywhere', async () => {
  const strict = await openTestService({
    env: { RATE_LIMIT_SCALE: '1', TRUST_PROXY: '127.0.0.1', LIMIT_SIGN_IN_ATTEMPTS: '1000/60' },
  })
  const person = await strict.addCompany()
  const bystander = await strict.addUser(person)
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  for (const address of ['192.0.2.1', '2001:db8::1']) {
    for (const one of [person, bystander]) {
      await Promise.all(times(10, () => strict.login({ ...one, password: 'wrong' }, from(address))))
      expect((await strict.login(one, from(address))).status).toBe(429)
    }
  }
  await unlockUser(strict.context, person.companyId, person, strict.clock.now())
  for (const address of ['192.0.2.1', '2001:db8::1']) {
    expect((await strict.login(person, from(address))).status).toBe(200)
    expect((await strict.login(bystander, from(address))).status).toBe(429)
  }
})
