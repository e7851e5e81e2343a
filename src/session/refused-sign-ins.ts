import { type RefusedSignIn, recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'

/** Resolves when the refused sign-in is committed. The answer must wait for it. */
export type RecordRefusal = (refused: RefusedSignIn) => Promise<void>

interface Context {
  db: Executor
  measureBatch: MeasureBatch
}

/** A flood writes one statement at a time, so that it does not occupy the connections. */
export function createRefusals({ db, measureBatch }: Context): RecordRefusal {
  const record = createBatch<RefusedSignIn, 'recorded'>({
    maxInFlight: 1,
    run: measureBatch('refused_sign_ins', async (items) => {
      await recordRefusedSignIns(db, items)
      return items.map(() => 'recorded')
    }),
  })
  return async (refused) => {
    await record(refused)
  }
}
