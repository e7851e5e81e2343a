import type { Kysely } from 'kysely'
import type { Tx } from './connect.ts'
import type { Database } from './schema.ts'

class Rollback<Outcome> extends Error {
  readonly outcome: Outcome

  constructor(outcome: Outcome) {
    super()
    this.outcome = outcome
  }
}

/** Runs a transaction and returns its outcome. `throw rollBack(outcome)` returns that one, and nothing is written. */
export async function transact<Outcome>(
  db: Kysely<Database>,
  work: (tx: Tx, rollBack: (outcome: Outcome) => Error) => Promise<Outcome>,
): Promise<Outcome> {
  let rollback: Rollback<Outcome> | undefined
  const rollBack = (outcome: Outcome) => {
    rollback = new Rollback(outcome)
    return rollback
  }
  try {
    return await db.transaction().execute((tx) => work(tx, rollBack))
  } catch (error) {
    if (rollback && error === rollback) return rollback.outcome
    throw error
  }
}
