import { expect, test } from 'vitest'
import { changeSubscription } from '../../src/operator/companies.ts'
import { expectProblem } from '../support/problem.ts'
import { openTestService, times } from '../support/test-service.ts'

const service = await openTestService({
  instances: 2,
  env: { RATE_LIMIT_SCALE: '1', LIMIT_TRIAL_BYTES: '10000/86400' },
})
const { clock, db } = service

/** An event that counts as 1,000 bytes. */
const event = (id: string) => ({ id, type: 'test', data: { text: 'x'.repeat(1000 - 11 - 4 - id.length) } })

async function addSender() {
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  const stored = db.selectFrom('events').select('event_id').where('company_id', '=', admin.companyId)
  return {
    send: (body: unknown, at = 0) => service.send(admin.companyId, secret, body, { at }),
    countStored: async () => (await stored.execute()).length,
    subscribe: (status: 'active' | 'trialing') =>
      changeSubscription(service.context, admin.companyId, { status }),
  }
}

test('a company on a trial has a daily limit of bytes (UTC)', async () => {
  const { send, countStored, subscribe } = await addSender()
  const secondsLeft = 86_400 - Math.floor((clock.now() / 1000) % 86_400)
  const batch = (name: string) => ({ events: times(5, (n) => event(`${name}${n}`)) })
  for (const n of times(4, (n) => n)) expect((await send(event(`one${n}`))).status).toBe(202)
  expect((await send(batch('two'), 1)).status).toBe(202)
  const refused = await send(batch('six'), 1)
  expectProblem(refused, [429, 'rate_limited'])
  expect(refused.headers).toMatchObject({
    'retry-after': String(secondsLeft),
    'ratelimit-policy': '"trial-bytes";q=10000;w=86400',
  })
  expect(await countStored()).toBe(9)
  // Refused events do not count.
  expect((await send(event('ten'))).status).toBe(202)
  expect((await send(event('more'))).status).toBe(429)
  await subscribe('active')
  expect((await send(batch('active'))).status).toBe(202)
  await subscribe('trialing')
  expect((await send(event('more'))).status).toBe(429)
  clock.advance(secondsLeft)
  expect((await send(event('more'))).status).toBe(202)
})

test('concurrent requests to several instances stay within the trial limit', async () => {
  const { send, countStored } = await addSender()
  const answers = await Promise.all(
    times(60, (n) =>
      send(n % 3 === 0 ? { events: [event(`a${n}`), event(`b${n}`)] } : event(`a${n}`), n % 2),
    ),
  )
  expect([...new Set(answers.map(({ status }) => status))].toSorted()).toEqual([202, 429])
  const accepted = answers.reduce((sum, { body }) => sum + (body.accepted ?? 0), 0)
  expect(accepted).toBeLessThanOrEqual(10)
  expect(await countStored()).toBe(accepted)
})
