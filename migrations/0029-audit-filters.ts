import { type Kysely, sql } from 'kysely'

/**
 * For the filters of the audit trail by outcome and subject. Most entries are neither refusals nor about something, so these
 * indexes cost them nothing. Existing partitions get theirs beside requests: see src/database/indexes.ts.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`create index audit_events_by_outcome on only audit_events (company_id, outcome collate "C", occurred_at, audit_id,
      action collate "C", actor collate "C") where outcome <> 'done'`,
    sql`create index audit_events_by_subject on only audit_events (company_id, subject collate "C", occurred_at, audit_id,
      action collate "C", actor collate "C", outcome collate "C") where subject is not null`,
  ]
  for (const statement of statements) await statement.execute(db)
}
