import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { changeCompanyStatus, companySecurity } from '../../src/operator/companies.ts'
import { changeUserRole, changeUserStatus } from '../../src/operator/users.ts'
import { addClient, introspect } from '../support/platform.ts'
import { openTestService, type Person, times } from '../support/test-service.ts'

/** After a change is acknowledged, other services of the platform must never get the previous state. */

const service = await openTestService({ instances: 2 })
const { context } = service
const client = await addClient(service)

type Credential = { token: string } | { cookie: string }

const CHANGES: Record<string, (person: Person, credential: Credential) => Promise<unknown>> = {
  'a logout': async (_, credential) => {
    const headers = { 'sec-fetch-site': 'same-origin' }
    expect((await service.call('/auth/logout', { ...credential, headers })).status).toBe(204)
  },
  'disabling a user': (person) => changeUserStatus(context, person.companyId, person, 'disabled'),
  'a new role': (person) => changeUserRole(context, person.companyId, person, 'viewer'),
  'a policy on second factors': (person) =>
    companySecurity(context, person.companyId, { secondFactor: 'everyone' }),
  'suspending a company': ({ companyId }) => changeCompanyStatus(context, companyId, 'suspended'),
}

/** Whether a service that uses gatehouse would admit an analyst's request. */
const ASKING: ((credential: Credential, at: number) => Promise<boolean>)[] = [
  async (credential, at) => {
    const token = 'token' in credential ? credential.token : credential.cookie
    const { body } = await introspect(service, client, token, at)
    return body.active && body.scope.includes('risk:assess')
  },
  async (credential, at) => {
    const path = '/verify?permission=risk:assess'
    const headers = { 'x-original-method': 'GET' }
    return (await service.ask(path, { method: 'GET', headers, ...credential, at })).status === 200
  },
]

/** Requests continuously until the change is acknowledged, and for some turns more. Counts those admitted too late. */
async function countLate(credential: Credential, change: () => Promise<unknown>) {
  let acknowledged = 0
  let early = 0
  let late = 0
  const asking = times(8, async (n) => {
    const ask = ASKING[n % 2]
    for (let turns = 0; turns < 3; await nextTurn()) {
      const isAfter = acknowledged === 1
      const isLetThrough = await ask?.(credential, (n >> 1) % 2)
      if (!isAfter && isLetThrough) early += 1
      if (isAfter && isLetThrough) late += 1
      if (isAfter) turns += 1
    }
  })
  await expect.poll(() => early).toBeGreaterThan(8)
  await change()
  acknowledged = 1
  await Promise.all(asking)
  return late
}

test.each(Object.entries(CHANGES))('no request passes after %s, even under load', async (_, change) => {
  for (const round of times(6, (n) => n)) {
    const company = await service.addCompany()
    const person = await service.addUser(company, 'analyst')
    const credential =
      round % 2 === 0
        ? { token: (await service.loginAs(person)).accessToken }
        : { cookie: await service.cookieOf(person) }
    expect(await countLate(credential, () => change(person, credential))).toBe(0)
  }
})
