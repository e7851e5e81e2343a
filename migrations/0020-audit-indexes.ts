import { type Kysely, sql } from 'kysely'

/**
 * For the filters of the audit trail. Without those of the partitions, which are built beside requests: see
 * src/database/indexes.ts. Partitions that are added from now on have them. In the order of bytes: see src/database/byte-order.ts.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`create index audit_events_by_action on only audit_events (company_id, action text_pattern_ops, occurred_at, audit_id)`,
    sql`create index audit_events_by_actor on only audit_events (company_id, actor text_pattern_ops, occurred_at, audit_id)`,
    // Of an actor with many entries, none of which may be of the action.
    sql`create index audit_events_by_actor_and_action
      on only audit_events (company_id, actor text_pattern_ops, action text_pattern_ops, occurred_at, audit_id)`,
  ]
  for (const statement of statements) await statement.execute(db)
}
