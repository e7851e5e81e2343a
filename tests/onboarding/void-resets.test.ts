import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { deleteUser } from '../../src/operator/users.ts'
import { openMailbox } from '../support/mailbox.ts'
import { useService } from '../support/onboarding.ts'
import { expectField } from '../support/problem.ts'
import { must } from '../support/second-factors.ts'
import { NEW_PASSWORD, openTestService, type Person } from '../support/test-service.ts'

/** A new password invalidates all resets requested earlier, wherever their emails are (ASVS 6.4.3, 7.4.3). */

let whileReceiving = async () => {}
const mailbox = await openMailbox({ onMessage: () => whileReceiving() })
const service = await openTestService({ instances: 2, env: { SMTP_URL: mailbox.url } })
const { db } = service
const { allSent, tokenOf, use } = useService(service, mailbox)

const forget = async ({ companyId, email }: Person) => {
  await must(service.call('/auth/password/forgot', { json: { companyId, email } }))
}

/** The ways to a new password. `prepare` runs before the reset under test is requested. */
const WAYS = {
  change: {
    prepare: async (person: Person) => (await service.loginAs(person)).accessToken,
    run: async (token: string, { password: currentPassword }: Person) => {
      const json = { currentPassword, newPassword: NEW_PASSWORD }
      return (await service.call('/auth/password/change', { token, json, at: 1 })).status
    },
  },
  reset: {
    prepare: async (person: Person) => {
      const token = await tokenOf('reset', person, person.email)
      // Otherwise, the note that this email was sent could be what waits for locks later.
      await allSent()
      return token
    },
    run: async (token: string) => (await use('reset', token, { at: 1 })).status,
  },
}

const resetMailsTo = ({ email }: Person) =>
  mailbox.mails.filter((mail) => mail.recipients.includes(email) && mail.token.startsWith('reset_'))

const expectInvalid = async (token: string) => expectField(await use('reset', token), '/token')

/** Resolves once the mail server could not be reached for an email. */
async function oneRefused({ email }: Person) {
  const mails = db.selectFrom('mail_outbox').select('attempts').where('recipient', '=', email)
  await expect.poll(() => mails.where('last_error', 'is not', null).execute()).toHaveLength(1)
}

const tokensOf = ({ companyId }: Person) =>
  db.selectFrom('one_time_tokens').select('email').where('company_id', '=', companyId).execute()

describe.for(Object.entries(WAYS))('a password %s', ([, { prepare, run }]) => {
  async function begin() {
    const person = await service.addCompany()
    const credential = await prepare(person)
    const before = resetMailsTo(person).length
    return { person, credential, before, change: () => run(credential, person) }
  }

  test('a new password invalidates an emailed reset', async () => {
    const { person, credential, change } = await begin()
    // The next reset replaces a reset's token, so only the change has an older one here.
    const token = run === WAYS.reset.run ? credential : await tokenOf('reset', person, person.email)
    expect(await change()).toBe(204)
    await expectInvalid(token)
  })

  test('a new password invalidates a reset whose email is queued', async () => {
    const { person, before, change } = await begin()
    await mailbox.stop()
    await forget(person)
    await oneRefused(person)
    expect(await change()).toBe(204)
    await mailbox.start()
    service.clock.advance(3600)
    await allSent()
    expect(resetMailsTo(person)).toHaveLength(before)
    expect(await tokensOf(person)).toEqual([])
  })

  test('a new password invalidates a reset whose email is being sent', async () => {
    const { person, before, change } = await begin()
    const { promise: changed, resolve: letGo } = Promise.withResolvers<void>()
    let isReceiving = false
    whileReceiving = async () => {
      isReceiving = true
      await changed
    }
    await forget(person)
    await expect.poll(() => isReceiving).toBe(true)
    expect(await change()).toBe(204)
    whileReceiving = async () => {}
    letGo()
    await allSent()
    const sent = resetMailsTo(person)
    expect(sent).toHaveLength(before + 1)
    await expectInvalid(sent.at(-1)?.token ?? '')
  })

  test('a new password invalidates a reset whose token is being created', async () => {
    const { person, before, change } = await begin()
    const making = await openGate('insert on one_time_tokens')
    await forget(person)
    await waiting('advisory', 1)
    const changed = change()
    // The new token, stored once the mail server accepts the email, would replace the one that a reset uses.
    whileReceiving = async () => {
      await changed
    }
    // The change waits for the email, which stays locked until its token is visible.
    await waiting('transactionid', 1)
    await making.open()
    expect(await changed).toBe(204)
    whileReceiving = async () => {}
    await allSent()
    expect(await tokensOf(person)).toEqual([])
    for (const { token } of resetMailsTo(person).slice(before)) await expectInvalid(token)
  })

  test('a new password prevents the token of an earlier reset request', async () => {
    const { person, before, change } = await begin()
    const counting = await openGate('insert on rate_counters', sql`new.counter like 'mail-to-address:%'`)
    await forget(person)
    await waiting('advisory', 1)
    const committing = await openGate('update on users')
    const changed = change()
    await waiting('advisory', 2)
    await counting.open()
    await waiting('transactionid', 1)
    await committing.open()
    expect(await changed).toBe(204)
    await allSent()
    expect(await tokensOf(person)).toEqual([])
    expect(resetMailsTo(person)).toHaveLength(before)
  })
})

const mailsTo = ({ email }: Person) =>
  db.selectFrom('mail_outbox').select('kind').where('recipient', '=', email).execute()
const deleted = (person: Person) => deleteUser(service.context, person.companyId, person)
const addMember = async () => await service.addUser(await service.addCompany())

test('deleting a user removes a reset whose token is being created (ASVS 14.2.7)', async () => {
  const person = await addMember()
  const making = await openGate('insert on one_time_tokens')
  await forget(person)
  await waiting('advisory', 1)
  const deletion = deleted(person)
  await waiting('transactionid', 1)
  await making.open()
  await deletion
  expect(await tokensOf(person)).toEqual([])
  await allSent()
  expect([await tokensOf(person), await mailsTo(person)]).toEqual([[], []])
})

/** A user with a reset token and a queued reset email, and a gate before a password change. */
async function prepareChange() {
  const person = await addMember()
  const credential = await WAYS.change.prepare(person)
  await tokenOf('reset', person, person.email)
  await allSent()
  await mailbox.stop()
  onTestFinished(() => mailbox.start())
  await forget(person)
  await oneRefused(person)
  const change = () => WAYS.change.run(credential, person)
  return { person, change, committing: await openGate('update on users') }
}

test('deleting a user waits for a password change, and deletes its email', async () => {
  const { person, change, committing } = await prepareChange()
  const changed = change()
  await waiting('advisory', 1)
  const deletion = deleted(person)
  await waiting('transactionid', 1)
  await committing.open()
  expect(await changed).toBe(204)
  await deletion
  expect([await tokensOf(person), await mailsTo(person)]).toEqual([[], []])
})

test('a password change during the deletion of its user changes nothing', async () => {
  const { person, change, committing } = await prepareChange()
  const deletion = deleted(person)
  await waiting('advisory', 1)
  const changed = change()
  await waiting('transactionid', 1)
  await committing.open()
  await deletion
  expect(await changed).toBe(400)
  expect([await tokensOf(person), await mailsTo(person)]).toEqual([[], []])
})

/** Resolves once `count` statements wait for locks of this type. */
const waiting = (locktype: string, count: number) =>
  expect
    .poll(async () => {
      const { rows } = await sql`
        select l.pid from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where a.datname = current_database() and l.locktype = ${locktype} and not l.granted`.execute(db)
      return rows.length
    })
    .toBe(count)

let gates = 0

/** Makes each statement that would `act` wait until the gate opens. */
async function openGate(act: string, when = sql`true`) {
  gates += 1
  const [key, name] = [gates, `gate_${gates}`]
  const [, table = ''] = / on (.*)/.exec(act) ?? []
  await sql`create function ${sql.id(name)}() returns trigger language plpgsql as
    ${sql.lit(`begin perform pg_advisory_xact_lock_shared(${key}); return new; end`)}`.execute(db)
  await sql`create trigger ${sql.id(name)} before ${sql.raw(act)} for each row when (${when})
    execute function ${sql.id(name)}()`.execute(db)
  const holder = await db.startTransaction().execute()
  await sql`select pg_advisory_xact_lock(${key}::bigint)`.execute(holder)
  async function open() {
    if (!holder.isCommitted) await holder.commit().execute()
  }
  onTestFinished(async () => {
    await open()
    await sql`drop trigger ${sql.id(name)} on ${sql.table(table)}`.execute(db)
    await sql`drop function ${sql.id(name)}`.execute(db)
  })
  return { open }
}
