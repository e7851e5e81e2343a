import { expect, test } from 'vitest'
import { expectField } from '../support/problem.ts'
import { openTestService } from '../support/test-service.ts'
import { commandLineOf } from './command-line.ts'

/** Operators never create passwords: users choose their own through a link that the command prints (ASVS 6.4.1). */

// Not the shared service, because commands read the real clock, and its clock is ahead.
const service = await openTestService()
const { admin } = commandLineOf(service)

const password = 'a password of my own'
const LINK = /^http:\/\/localhost:3000\/reset-password#token=(reset_[\w-]{43})$/
const chooseBy = (link: string, newPassword = password) =>
  service.call('/auth/password/reset', { json: { token: LINK.exec(link)?.[1], newPassword } })

const createCompany = () => admin('company create --name Bee --admin-email bea@bee.example')

test('new users get a link that works once, and no password', async () => {
  const { link, linkExpiresAt, ...created } = await createCompany()
  expect(Object.keys(created)).toEqual(['companyId', 'handle', 'userId', 'email'])
  expect(Date.parse(linkExpiresAt) - service.clock.now()).toBeGreaterThanOrEqual(72 * 3_600_000)
  expect((await chooseBy(link)).status).toBe(204)
  expect((await service.loginAs({ ...created, password })).user.role).toBe('admin')
  expectField(await chooseBy(link, 'a password of a thief'), '/token')
  const line = `user create --company ${created.companyId} --email eve@bee.example --role analyst`
  const { link: other, ...user } = await admin(line)
  expect(Object.keys(user)).toEqual(['companyId', 'userId', 'email', 'role', 'linkExpiresAt'])
  expect((await chooseBy(other)).status).toBe(204)
  expect((await service.loginAs({ ...user, password })).user.role).toBe('analyst')
})

test("a new user's link works for 72 hours, or until a reset email", async () => {
  const [first, second] = [await createCompany(), await createCompany()]
  const { companyId, email } = first
  service.clock.advance(3600)
  await service.call('/auth/password/forgot', { json: { companyId, email } })
  const sent = service.db.selectFrom('mail_outbox').select('sent_at').where('company_id', '=', companyId)
  await expect.poll(async () => (await sent.execute()).map((mail) => mail.sent_at !== null)).toEqual([true])
  expectField(await chooseBy(first.link), '/token')
  service.clock.advance(72 * 3600)
  expectField(await chooseBy(second.link), '/token')
})
