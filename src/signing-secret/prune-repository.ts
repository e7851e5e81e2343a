import type { Executor } from '../database/connect.ts'

/** Deletes the signing secret of a company; returns how many there were. */
export async function deleteSecret(db: Executor, companyId: string): Promise<number> {
  const deleted = await db
    .deleteFrom('signing_secrets')
    .where('company_id', '=', companyId)
    .returning('version')
    .execute()
  return deleted.length
}
