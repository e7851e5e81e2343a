import type { Executor } from '../database/connect.ts'
import { deleteOfCompany } from '../database/prune.ts'

/** Deletes at most `max` events of a company, in key order; returns how many. */
export async function deleteEvents(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, { table: 'events', key: ['company_id', 'event_id'] }, max)
}
