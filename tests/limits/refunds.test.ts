import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { type CountedQuota, refundEach } from '../../src/limits/counters-repository.ts'
import { counterOf } from '../../src/limits/client.ts'
import { openTestService } from '../support/test-service.ts'

const service = await openTestService()
const { signInFailures, accountFailures } = service.config.limits
const guesses = (name: string): CountedQuota => ({ limit: signInFailures, values: [name], level: 0 })
const ofAccount = (name: string): CountedQuota => ({ limit: accountFailures, values: [name], level: 2 })

test('refunds lock all counters of guesses before those of accounts, as uses do', async () => {
  // The first member was known when the limit of the account was used up.
  const items = [[guesses('known')], [guesses('other'), ofAccount('other')]]
  const rows = items.flat().map((quota) => ({ counter: counterOf(quota), hits: 1, window_ends_at: new Date() }))
  await service.db.insertInto('rate_counters').values(rows).execute()
  const locked = counterOf(guesses('known'))
  let refunding: Promise<unknown> | undefined
  await service.db.transaction().execute(async (tx) => {
    await tx.selectFrom('rate_counters').select('counter').where('counter', '=', locked).forUpdate().execute()
    refunding = sql`with asked (ord) as (values (1), (2)) ${refundEach('asked', items)}`.execute(service.db)
    const isWaiting = sql`select from pg_stat_activity where query like 'with asked%' and wait_event_type = 'Lock'`
    while ((await isWaiting.execute(tx)).rows.length === 0);
    const free = tx.selectFrom('rate_counters').select('counter').where('counter', '!=', locked)
    const names = rows.map(({ counter }) => counter)
    const found = await free.where('counter', 'in', names).forUpdate().skipLocked().execute()
    expect(found.map(({ counter }) => counter)).toContain(counterOf(ofAccount('other')))
  })
  await refunding
  const left = service.db.selectFrom('rate_counters').select('hits')
  expect((await left.where('counter', 'in', rows.map(({ counter }) => counter)).execute()).map(({ hits }) => hits)).toEqual([0, 0, 0])
})
