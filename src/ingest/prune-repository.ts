import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Deletes at most `max` events of a company; returns how many. */
export async function deleteEvents(db: Executor, companyId: string, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from events where company_id = ${companyId} and event_id in (
      select event_id from events where company_id = ${companyId} order by event_id limit ${max}
    )`.execute(db)
  return Number(numAffectedRows)
}
