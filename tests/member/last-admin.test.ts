import { expect, test } from 'vitest'
import { changeUserRole, changeUserStatus, deleteUser } from '../../src/operator/users.ts'
import { releaseTogether } from '../support/races.ts'
import { type Person, times, useSharedService } from '../support/test-service.ts'

/** Admins and operators change admins at the same time (ASVS 15.4.3). */

const { service } = await useSharedService()
const { context, clock, db } = service

type Options = Parameters<typeof service.call>[1]

const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken
const change = (id: string, json: object, options: Options) =>
  service.call(`/auth/members/${id}`, { method: 'PATCH', json, ...options })
const remove = (id: string, options: Options) =>
  service.call(`/auth/members/${id}`, { method: 'DELETE', ...options })

const activeAdmins = async ({ companyId }: { companyId: string }) => {
  const admins = db.selectFrom('users').select('user_id').where('role', '=', 'admin')
  return await admins.where('company_id', '=', companyId).where('status', '=', 'active').execute()
}

const acts: [string, (id: string, options: Options) => ReturnType<typeof change>][] = [
  ['demote', (id, options) => change(id, { role: 'viewer' }, options)],
  ['disable', (id, options) => change(id, { status: 'disabled' }, options)],
  ['delete', (id, options) => remove(id, options)],
]

test.for(acts)('an admin stays if eight concurrently %s each other (ASVS 2.3.4, 15.4.2)', async ([, act]) => {
  const first = await service.addCompany()
  const admins = [first, ...(await Promise.all(times(7, () => service.addUser(first, 'admin'))))]
  const tokens = await Promise.all(admins.map(tokenOf))
  const answers = await Promise.all(
    admins.map((_, n) => {
      const next = admins[(n + 1) % admins.length]
      return act(next?.userId ?? '', { token: tokens[n] ?? '', at: n % 2 })
    }),
  )
  const refused = answers.filter(({ status }) => status >= 300)
  for (const { status } of refused) expect([401, 403, 404]).toContain(status)
  const left = await activeAdmins(first)
  expect(left.length).toBeGreaterThanOrEqual(1)
  expect(left.length).toBe(admins.length - (answers.length - refused.length))
})

test('the later of two admins who demote each other is refused', async () => {
  for (const _ of times(5, () => 0)) {
    const one = await service.addCompany()
    const other = await service.addUser(one, 'admin')
    const [oneToken, otherToken] = [await tokenOf(one), await tokenOf(other)]
    const answers = await Promise.all([
      change(other.userId, { role: 'viewer' }, { token: oneToken }),
      change(one.userId, { role: 'viewer' }, { token: otherToken, at: 1 }),
    ])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 403])
    expect(await activeAdmins(one)).toHaveLength(1)
  }
})

test('an admin remains when an operator demotes an admin who demotes another', async () => {
  for (const _ of times(5, () => 0)) {
    const one = await service.addCompany()
    const other = await service.addUser(one, 'admin')
    const credential = await tokenOf(one)
    await Promise.all([
      change(other.userId, { role: 'viewer' }, { token: credential }),
      changeUserRole(context, one.companyId, one, 'viewer').catch((error) => {
        expect(error.code).toBe('last_admin')
      }),
    ])
    expect(await activeAdmins(one)).toHaveLength(1)
  }
})

const rivals: [string, (person: Person) => Promise<unknown>][] = [
  ['who disables them', (person) => changeUserStatus(context, person.companyId, person, 'disabled')],
  ['who demotes them', (person) => changeUserRole(context, person.companyId, person, 'viewer')],
  ['who deletes them', (person) => deleteUser(context, person.companyId, person)],
]

test.for(rivals)('an admin changing a member does not deadlock with an operator %s', async ([, act]) => {
  const founder = await service.addCompany()
  const member = await service.addUser(founder)
  // The admin's ID must sort after the member's.
  clock.advance(1)
  const actor = await service.addUser(founder, 'admin')
  const credential = await tokenOf(actor)
  const byAdmin = async () =>
    (await change(member.userId, { assignments: ['region:eu-1'] }, { token: credential })).status
  const operating = async () => void (await act(member))
  const held = { table: 'users', ...member } as const
  expect(await releaseTogether(db, held, [byAdmin, operating])).toEqual([200, undefined])
})
