import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { queueMail } from '../../src/mail/service.ts'
import { deleteCompany } from '../../src/operator/company-deletion.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { changeUserRole, changeUserStatus, deleteUser, unlockUser } from '../../src/operator/users.ts'
import { selectAudit } from '../support/audit.ts'
import { mailedCodeOf } from '../support/mail-code.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { releaseTogether } from '../support/races.ts'
import { openFactorService } from '../support/second-factors.ts'
import {
  countWaiting,
  NEW_PASSWORD,
  openTestService,
  type Person,
  type TestService,
  times,
} from '../support/test-service.ts'

const service = await openFactorService({ instances: 2 })
const { db, clock, context, mailbox } = service
const { register, verify } = useService(service, mailbox)
/** With unscaled limits and an unreachable mail server. */
const strict = await openTestService({
  env: {
    RATE_LIMIT_SCALE: '1',
    TRUST_PROXY: '127.0.0.1',
    LIMIT_SIGN_IN_FAILURES: '2/900',
    LIMIT_ACCOUNT_FAILURES: '4/900',
    SMTP_URL: 'smtp://127.0.0.1:9',
  },
})

type Named = { companyId: string }
const prune = async () => await pruneAcrossCompanies(context, clock.now())

/** Tables with rows that contain these words, and how many. */
async function rowsWith(words: string, { db }: Pick<TestService, 'db'> = service) {
  const { rows: tables } = await sql<{ name: string }>`
    select relname as name from pg_class
    where relkind in ('r', 'p') and not relispartition
      and relnamespace = current_schema()::regnamespace`.execute(db)
  const found: Record<string, number> = {}
  for (const { name } of tables) {
    const { rows } = await sql`
      select from ${sql.table(name)} t where strpos(t::text, ${words}) > 0`.execute(db)
    if (rows.length > 0) found[name] = rows.length
  }
  return found
}

async function rowsOf({ companyId }: Named) {
  // Counters expire soon.
  const { rate_counters: _counters, ...rows } = await rowsWith(companyId)
  return rows
}

/** Starts the deletion of a company early enough that no earlier request is still running. */
const settle = ({ companyId }: Named) =>
  sql`update companies set status = 'deleting', deletion_began_at = now() - interval '61 seconds'
    where company_id = ${companyId}`.execute(db)

const addEvents = ({ companyId }: Named, name: string, count: number) =>
  sql`insert into events (company_id, event_id, type, received_at, data)
    select ${companyId}, ${name} || n, 'a.b', now(), '{}' from generate_series(1, ${count}) n`.execute(db)

async function openBusyCompany() {
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  const user = await service.addUser(admin)
  const session = await service.loginAs(user)
  await service.login({ ...user, password: 'wrong' })
  await service.call('/auth/password/forgot', { json: { companyId: admin.companyId, email: user.email } })
  await service.begin(await service.personWithTotp(admin))
  const { accessToken: token } = await service.loginAs(admin)
  await service.call('/auth/events', { method: 'GET', token })
  await service.send(admin.companyId, secret, { type: 'a.b', data: {} })
  await addEvents(admin, 'event', 1_000)
  return { admin, user, secret, session }
}

test('a deletion locks the company out and leaves a bare audit trail (ASVS 14.2.7)', async () => {
  const { admin, user, secret, session } = await openBusyCompany()
  const { companyId } = admin
  const send = async () => (await service.send(companyId, secret, { type: 'a.b', data: {} })).status
  const statuses = [await send()]
  let isOver = false
  const sending = (async () => {
    while (!isOver) statuses.push(await send())
  })()
  const { events, ...deleted } = await deleteCompany(context, companyId)
  expect(deleted).toEqual({ sessions: 4, users: 3 })
  expect(await send()).toBe(401)
  isOver = true
  await sending
  const acknowledged = statuses.filter((status) => status !== 401)
  expect(new Set(acknowledged)).toEqual(new Set([202]))
  expect(events).toBeGreaterThanOrEqual(1_002)
  expect(events).toBeLessThanOrEqual(1_001 + acknowledged.length)
  expect((await service.login(user)).status).toBe(401)
  expect((await service.getSession({ token: session.accessToken, at: 1 })).status).toBe(401)
  expect((await service.refresh(session.refreshToken)).status).toBe(401)

  // For a minute, requests that started before the deletion can still add something.
  await addEvents(admin, 'late', 1)
  await prune()
  const trail = { audit_events: expect.any(Number), company_handles: 1 }
  expect(await rowsOf(admin)).toEqual({ ...trail, companies: 1, subscriptions: 1 })
  await settle(admin)
  expect((await prune()).companies).toBe(1)
  expect(await rowsOf(admin)).toEqual(trail)
  const entries = await selectAudit(db).selectAll().where('company_id', '=', companyId).execute()
  expect(entries.map(({ action }) => action)).toContain('company_delete')
  for (const entry of entries) expect([entry.ip_address, entry.email]).toEqual([null, null])
})

test('an interrupted deletion continues, even on several concurrent instances', async () => {
  const { admin } = await openBusyCompany()
  await settle(admin)
  expect((await service.login(admin)).status).toBe(401)
  const pruned = await Promise.all(times(4, prune))
  expect(pruned.reduce((sum, { companies = 0 }) => sum + companies, 0)).toBeGreaterThanOrEqual(1)
  expect(await rowsOf(admin)).toEqual({ audit_events: expect.any(Number), company_handles: 1 })
})

/** Backdates the creation of a company. */
async function age({ companyId }: Named, days: number) {
  const then = new Date(clock.now() - days * 86_400_000)
  await sql`update companies set created_at = ${then} where company_id = ${companyId}`.execute(db)
  await sql`update users set created_at = ${then} where company_id = ${companyId}`.execute(db)
}

test('a company without a verified email is deleted after 7 days', async () => {
  const [lapsed, begun, young] = [await register(), await register(), await register()]
  const { token, ...verified } = await register()
  await verify(token)
  const byOperator = await service.addCompany()
  for (const company of [lapsed, begun, verified, byOperator]) await age(company, 8)
  await age(young, 6)
  await settle(begun)
  expect((await prune()).companies).toBe(1)
  await settle(lapsed)
  expect((await prune()).companies).toBe(1)
  expect(Object.keys(await rowsOf(lapsed))).toEqual(['audit_events'])
  // A deletion that had started is not started again.
  const entries = selectAudit(db).select('action').where('company_id', '=', begun.companyId)
  expect(await entries.execute()).toEqual([{ action: 'register' }])
  for (const company of [young, verified, byOperator])
    expect(await rowsOf(company)).toMatchObject({ companies: 1, users: 1, subscriptions: 1 })
  expect((await service.login(verified)).status).toBe(200)
})

test.for([
  ['verified before its deletion stays', 'verified', [200, 200], 1],
  ['verified after its deletion began is gone', 'deleted', [400, 401], undefined],
] as const)('a company that is %s', async ([, first, statuses, users]) => {
  const { token, ...person } = await register()
  await age(person, 8)
  const verifying = () => service.call('/auth/verify-email', { json: { token } })
  // Both already hold the token when they wait for the user.
  const acts = first === 'verified' ? [verifying, prune] : [prune, verifying]
  const ends = await releaseTogether<object>(db, { table: 'users', ...person }, acts)
  const { status } = await service.login(person)
  expect(ends).toContainEqual(expect.objectContaining({ status: statuses[0] }))
  expect([status, (await rowsOf(person))['users']]).toEqual([statuses[1], users])
})

test.for(['an operator', 'an admin'])('a user deleted by %s leaves only an ID (ASVS 14.2.7)', async (who) => {
  const admin = await service.addCompany()
  const email = `leaver-${newEmail()}`
  const user = await service.addUser(admin, 'admin', { email })
  const secret = await service.newSecret(user)
  const { accessToken, refreshToken } = await service.loginAs(user)
  await service.login({ ...user, password: 'wrong' })
  await service.call('/auth/password/forgot', { json: { companyId: user.companyId, email } })
  const { token } = await mailbox.mailTo(email)
  const wish = { newEmail: `wished-${email}`, mailCode: '' }
  wish.mailCode = await mailedCodeOf(service, { token: accessToken }, 'email_change_code')
  await service.call('/auth/email/change', { token: accessToken, json: wish })
  await mailbox.mailTo(wish.newEmail)
  await expect.poll(() => rowsWith(wish.newEmail)).toMatchObject({ one_time_tokens: 1, users: 1 })
  const { accessToken: byAdmin } = await service.loginAs(admin)
  const path = `/auth/members/${user.userId}`
  if (who === 'an admin') await service.call(path, { method: 'DELETE', token: byAdmin })
  else await deleteUser(context, user.companyId, user)
  // The new email contains this one.
  expect(await rowsWith(email)).toEqual({})

  const ended = { status: 401, body: { code: 'session_ended', reason: 'user_deleted' } }
  expect(await service.getSession({ token: accessToken, at: 1 })).toMatchObject(ended)
  expect(await service.refresh(refreshToken)).toMatchObject(ended)
  const reset = { json: { token, newPassword: NEW_PASSWORD } }
  expect((await service.call('/auth/password/reset', reset)).status).toBe(400)
  // The secret that the user created stays valid.
  expect((await service.send(admin.companyId, secret, { type: 'a.b', data: {} })).status).toBe(202)
  const { body } = await service.call('/auth/webhook-secret/status', { token: byAdmin })
  expect(body.createdBy).toEqual({ id: user.userId, email: null })
  const row = db.selectFrom('users').selectAll().where('user_id', '=', user.userId)
  const blank = { status: 'deleted', email: null, name: '', password_hash: '' }
  expect(await row.execute()).toMatchObject([blank])
  const enabling = changeUserStatus(context, user.companyId, user, 'active')
  await expect(enabling).rejects.toMatchObject({ code: 'not_found' })
  expect((await service.login(user)).status).toBe(401)
  // The email can be used again.
  const again = await service.addUser(admin, 'viewer', { email })
  expect((await service.login(again)).status).toBe(200)
  expect(again.userId).not.toBe(user.userId)
})

test('a user deleted while their email changes leaves neither email', async () => {
  const { db, context, clock } = strict
  const email = 'before@x.example'
  const { companyId, userId } = await strict.addUser(await strict.addCompany(), 'viewer', { email })
  const { deleting } = await db.transaction().execute(async (tx) => {
    const recipient = 'after@x.example'
    await tx.updateTable('users').set({ email: recipient }).where('user_id', '=', userId).execute()
    const mail = { kind: 'password_reset', recipient, data: {}, now: clock.now() } as const
    await queueMail(tx, clock, companyId, mail)
    const deleting = deleteUser(context, companyId, { userId })
    await expect.poll(() => countWaiting(db), { timeout: 100_000 }).toBe(1)
    return { deleting }
  })
  await deleting
  for (const words of ['before@x', 'after@x']) expect(await rowsWith(words, strict)).toEqual({})
})

test('deleting a user while someone guesses the password does not deadlock (ASVS 15.4.3)', async () => {
  const user = await strict.addUser(await strict.addCompany())
  const guess = async () => (await strict.login({ ...user, password: 'wrong' })).status
  expect(await guess()).toBe(401)
  const deletion = async () => void (await deleteUser(strict.context, user.companyId, user))
  // The second guess is the last one, which is also recorded on the user.
  const ends = await releaseTogether(strict.db, { table: 'users', ...user }, [deletion, guess])
  expect(ends).toEqual([undefined, 401])
})

test('an admin remains when operators concurrently demote, disable, and delete all', async () => {
  const first = await service.addCompany()
  const { companyId } = first
  const admins = [first, ...(await Promise.all(times(5, () => service.addUser(first, 'admin'))))]
  const acts = [
    (admin: Person) => changeUserRole(context, companyId, admin, 'viewer'),
    (admin: Person) => changeUserStatus(context, companyId, admin, 'disabled'),
    (admin: Person) => deleteUser(context, companyId, admin),
  ]
  const outcomes = await Promise.allSettled(admins.map((admin, i) => acts[i % 3]?.(admin)))
  const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
  expect(refused).toEqual([expect.objectContaining({ code: 'last_admin' })])
})

test('unlocking a user locked out by wrong passwords works for every network', async () => {
  const person = await strict.addCompany()
  const bystander = await strict.addUser(person)
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  const guessing = ['192.0.2.1', '2001:db8::1']
  for (const one of [person, bystander]) {
    for (const address of guessing)
      await Promise.all(times(2, () => strict.login({ ...one, password: 'wrong' }, from(address))))
  }
  const statusesOf = async (one: Person) => {
    const answers = [...guessing, '198.51.100.1'].map((address) => strict.login(one, from(address)))
    return (await Promise.all(answers)).map(({ status }) => status)
  }
  expect(await statusesOf(person)).toEqual([429, 429, 401])
  await unlockUser(strict.context, person.companyId, person)
  expect(await statusesOf(person)).toEqual([200, 200, 200])
  expect(await statusesOf(bystander)).toEqual([429, 429, 401])
})
