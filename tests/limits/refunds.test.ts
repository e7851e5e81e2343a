import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { counterOf } from '../../src/limits/client.ts'
import { type CountedQuota, refundEach } from '../../src/limits/counters-repository.ts'
import { countWaiting, openTestService } from '../support/test-service.ts'

const service = await openTestService()
const { signInFailures, accountFailures } = service.config.limits
const guesses = (name: string): CountedQuota => ({ limit: signInFailures, values: [name], level: 0 })
const ofAccount = (name: string): CountedQuota => ({ limit: accountFailures, values: [name], level: 2 })

test('refunds lock counters of guesses before counters of accounts, as uses do', async () => {
  // The first member's network was known when the account reached its limit.
  const items = [[guesses('known')], [guesses('other'), ofAccount('other')]]
  const rows = items
    .flat()
    .map((quota) => ({ counter: counterOf(quota), hits: 1, window_ends_at: new Date() }))
  const names = rows.map(({ counter }) => counter)
  await service.db.insertInto('rate_counters').values(rows).execute()
  const locked = counterOf(guesses('known'))
  let refunding: Promise<unknown> | undefined
  await service.db.transaction().execute(async (tx) => {
    await tx.selectFrom('rate_counters').select('counter').where('counter', '=', locked).forUpdate().execute()
    refunding = sql`with asked (ord) as (values (1), (2)) ${refundEach('asked', items)}`.execute(service.db)
    await expect.poll(() => countWaiting(service.db), { timeout: 50_000 }).toBe(1)
    const free = tx.selectFrom('rate_counters').select('counter').where('counter', '!=', locked)
    const found = await free.where('counter', 'in', names).forUpdate().skipLocked().execute()
    expect(found.map(({ counter }) => counter)).toContain(counterOf(ofAccount('other')))
  })
  await refunding
  const left = service.db.selectFrom('rate_counters').select('hits').where('counter', 'in', names)
  expect((await left.execute()).map(({ hits }) => hits)).toEqual([0, 0, 0])
})
