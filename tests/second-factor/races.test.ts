import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { deleteUser, resetSecondFactors } from '../../src/operator/users.ts'
import { settleLapsedAcrossCompanies } from '../../src/sign-in/lapsed.ts'
import { voidPassword } from '../../src/sign-in/proofs.ts'
import { useService } from '../support/onboarding.ts'
import { releaseTogether as release } from '../support/races.ts'
import { must, useFactorService } from '../support/second-factors.ts'
import { NEW_PASSWORD, PASSWORD } from '../support/test-service.ts'

/** Concurrent changes with second factors must neither deadlock nor get lost (ASVS 15.4.3). */

const service = await useFactorService()
const admin = await service.addCompany()
const { call, begin, complete, db, totpOf } = service
const { allSent } = useService(service, service.mailbox)
const now = () => service.clock.now()

async function releaseTogether<Result>(userId: string, acts: (() => Promise<Result>)[]): Promise<Result[]> {
  // An email that is being sent could wait for these acts, and be counted as one of them.
  await allSent()
  return await release(db, { table: 'users', companyId: admin.companyId, userId }, acts)
}

/** A member with an abandoned sign-in, and a second one that waits for its code. */
async function beginTwice() {
  const person = await service.personWithTotp(admin)
  await begin(person)
  service.clock.advance(301 + 900)
  const { challenge } = await begin(person)
  const finish = async () => (await complete({ challenge, ...totpOf(person) })).status
  return { person, finish }
}

const settle = async () => {
  await settleLapsedAcrossCompanies({ db, system: service.clock }, now())
  return 0
}

test('a sign-in completes while an abandoned one is settled', async () => {
  for (const isFirst of [true, false]) {
    const { person, finish } = await beginTwice()
    const acts = isFirst ? [settle, finish] : [finish, settle]
    expect((await releaseTogether(person.userId, acts)).toSorted()).toEqual([0, 200])
  }
})

test('a sign-in leaves no session after a concurrent reset by an operator', async () => {
  for (const isFirst of [true, false]) {
    const { person, finish } = await beginTwice()
    const reset = async () => {
      await resetSecondFactors(service.context, person.companyId, person)
      return 0
    }
    const [one, other] = await releaseTogether(person.userId, isFirst ? [reset, finish] : [finish, reset])
    // In either order, the member has no active session at the end.
    expect([one, other].toSorted()).toEqual([0, isFirst ? 401 : 200])
    const live = await sql`select from sessions s join users u using (user_id)
      where u.user_id = ${person.userId} and u.session_epoch = s.user_epoch`.execute(db)
    expect(live.rows).toEqual([])
  }
})

test('a sign-in does not deadlock with a deletion by an operator', async () => {
  const { person, finish } = await beginTwice()
  const remove = async () => {
    await deleteUser(service.context, person.companyId, { userId: person.userId })
    return 0
  }
  expect((await releaseTogether(person.userId, [finish, remove])).toSorted()).toEqual([0, 200])
})

const { signal } = new AbortController()
const address = { ipAddress: '192.0.2.1', network: '192.0.2.1', via: null, userAgent: undefined }
const received = { client: { ...address, signal, noteLimit: () => {} } }

test('a password revoked twice concurrently leaves one email with a link', async () => {
  const person = await service.personWithTotp(admin)
  await db.updateTable('users').set({ wrong_codes: 31 }).where('user_id', '=', person.userId).execute()
  const context = { db, system: service.clock }
  for (const count of [30, 31]) await voidPassword(context, person, count, { ...received, now: now() })
  await service.mailbox.mailTo(person.email, 'Someone knows your password')
  const { token } = await service.mailbox.mailTo(person.email, 'Reset your password')
  const json = { token, newPassword: NEW_PASSWORD }
  expect((await call('/auth/password/reset', { json })).status).toBe(204)
})

test('a new password starts without the wrong codes of the previous one', async () => {
  const person = await service.personWithTotp(admin)
  const { accessToken: token } = await must(service.signInByTotp(person))
  await db.updateTable('users').set({ wrong_codes: 29 }).where('user_id', '=', person.userId).execute()
  const newPassword = NEW_PASSWORD
  await must(call('/auth/password/change', { token, json: { currentPassword: PASSWORD, newPassword } }))
  const after = { ...person, password: newPassword }
  const { challenge } = await begin(after)
  expect((await complete({ challenge, method: 'totp', code: '000000' })).status).toBe(401)
  expect((await service.signInByTotp(after)).status).toBe(200)
})

test('the notice of an admin reset survives a new reset request', async () => {
  const person = await service.personWithTotp(admin)
  await service.mailbox.stop()
  const { accessToken } = await service.loginAs(admin)
  await must(call(`/auth/members/${person.userId}/second-factors`, { method: 'DELETE', token: accessToken }))
  await must(call('/auth/password/forgot', { json: { companyId: person.companyId, email: person.email } }))
  // Each email has been tried: an attempt in progress would be postponed from the later time.
  const waiting = db.selectFrom('mail_outbox').select('kind').where('sent_at', 'is', null)
  const untried = waiting.where(({ eb, or }) =>
    or([eb('attempts', '=', 0), eb('leased_until', 'is not', null)]),
  )
  await expect.poll(() => untried.execute()).toEqual([])
  await service.mailbox.start()
  service.clock.advance(3600)
  await service.mailbox.mailTo(person.email, 'Your password and second factors')
  await service.mailbox.mailTo(person.email, 'Reset your password')
})
