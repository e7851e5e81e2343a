import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { newEntry } from '../../src/audit/entry.ts'
import { appendAudit, countDaily } from '../../src/audit/repository.ts'
import type { Executor } from '../../src/database/connect.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { times, useSharedService } from '../support/test-service.ts'

/** The daily sums change in the same transaction as the entries. */

const { service } = await useSharedService()
const { clock, db } = service
const DAY_MS = 86_400_000

const ACT = { action: 'sign_in', outcome: 'done', actor: 'operator' } as const
const signInTo = (companyId: string, executor: Executor) =>
  appendAudit(executor, companyId, newEntry(clock, new Date(clock.now()), ACT))

test('concurrent audit entries count without waiting, only if committed', async () => {
  const companyId = randomUUID()
  const executors = service.connections.map((connection) => connection.db)
  await signInTo(companyId, db)
  await db.transaction().execute(async (tx) => {
    await signInTo(companyId, tx)
    // If these waited for the transaction, neither would end: it waits for them.
    await Promise.all(times(20, () => executors.map((executor) => signInTo(companyId, executor))).flat())
    const failing = db.transaction().execute(async (undone) => {
      await signInTo(companyId, undone)
      throw new Error('undone')
    })
    await expect(failing).rejects.toThrow('undone')
  })
  const days = await countDaily(db, companyId, { now: new Date(clock.now()), days: 1 })
  expect(days).toMatchObject([{ signIns: 42 }])
})

test('daily sums are deleted when they are no longer shown', async () => {
  const admin = await service.addCompany()
  await service.login({ ...admin, password: 'wrong' })
  const later = (days: number) => clock.now() + days * DAY_MS
  const shown = { now: new Date(later(89)), days: 90 }
  const first = async () => (await countDaily(db, admin.companyId, shown))[0]
  const before = await first()
  expect(before).toMatchObject({ refusals: 1, changes: 1 })
  await pruneAcrossCompanies(service.context, later(91))
  expect(await first()).toEqual(before)
  await pruneAcrossCompanies(service.context, later(94))
  const left = db.selectFrom('audit_days').select('day').where('company_id', '=', admin.companyId)
  expect(await left.execute()).toEqual([])
})
