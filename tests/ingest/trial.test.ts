import { expect, test } from 'vitest'
import { changeSubscription } from '../../src/operator/companies.ts'
import { expectProblem } from '../http/problem.ts'
import { openTestService, type Person, times } from '../support/test-service.ts'

/** What a company on a trial can send in a day. */

const service = await openTestService({
  instances: 2,
  env: { RATE_LIMIT_SCALE: '1', LIMIT_TRIAL_BYTES: '10000/86400' },
})
const { clock, db } = service

/** An event that counts 1,000 bytes. */
const event = (id: string) => ({ id, type: 'test', data: { text: 'x'.repeat(1000 - 11 - 4 - id.length) } })
const countStored = async ({ companyId }: Person) =>
  (await db.selectFrom('events').select('event_id').where('company_id', '=', companyId).execute()).length

async function addSender() {
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  return { admin, send: (body: unknown, at = 0) => service.send(admin.companyId, secret, body, { at }) }
}

function secondsLeftOfDay(): number {
  return 86_400 - Math.floor((clock.now() / 1000) % 86_400)
}

test('a company on a trial sends so many bytes a day (UTC), then gets 429, and nothing is stored', async () => {
  const { admin, send } = await addSender()
  for (const n of times(4, (n) => n)) expect((await send(event(`one${n}`))).status).toBe(202)
  const batch = (name: string) => ({ events: times(5, (n) => event(`${name}${n}`)) })
  expect((await send(batch('two'), 1)).status).toBe(202)
  const refused = await send(batch('six'), 1)
  expectProblem(refused, [429, 'rate_limited'])
  expect(refused.headers).toMatchObject({
    'retry-after': String(secondsLeftOfDay()),
    'ratelimit-policy': '"trial-bytes";q=10000;w=86400',
  })
  expect(await countStored(admin)).toBe(9)
  // What was refused does not count.
  expect((await send(event('ten'))).status).toBe(202)
  expect((await send(event('more'))).status).toBe(429)
  // A company that is not on a trial is not limited.
  await changeSubscription(service.context, admin.companyId, { status: 'active' })
  expect((await send(batch('active'))).status).toBe(202)
  await changeSubscription(service.context, admin.companyId, { status: 'trialing' })
  expect((await send(event('more'))).status).toBe(429)
  clock.advance(secondsLeftOfDay())
  expect((await send(event('more'))).status).toBe(202)
})

test('parallel requests to several instances do not exceed it', async () => {
  const { admin, send } = await addSender()
  const answers = await Promise.all(
    times(60, (n) =>
      send(n % 3 === 0 ? { events: [event(`a${n}`), event(`b${n}`)] } : event(`a${n}`), n % 2),
    ),
  )
  const statuses = answers.map(({ status }) => status)
  expect([...new Set(statuses)].toSorted()).toEqual([202, 429])
  const stored = await countStored(admin)
  expect(stored).toBeGreaterThan(0)
  expect(stored).toBeLessThanOrEqual(10)
  const accepted = answers.reduce((sum, { status, body }) => sum + (status === 202 ? body.accepted : 0), 0)
  expect(stored).toBe(accepted)
})
