import { type RefusedSignIn, recordRefusedSignIns } from '../company/refusals-repository.ts'
import { createBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import type { Limit } from '../limits/list.ts'

/** Resolves when the refused sign-in is committed. The answer must wait for it. */
export type RecordRefusal = (refused: RefusedSignIn) => Promise<void>

/** `limit` is that of wrong passwords from everywhere. A flood writes one statement at a time, so that it does not occupy the connections. */
export function createRefusals(db: Executor, { windowSeconds }: Limit): RecordRefusal {
  const record = createBatch<RefusedSignIn, 'recorded'>({
    maxInFlight: 1,
    async run(items) {
      await recordRefusedSignIns(db, items, windowSeconds)
      return items.map(() => 'recorded')
    },
  })
  return async (refused) => {
    await record(refused)
  }
}
