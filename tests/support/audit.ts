import type { TestService } from './test-service.ts'

export function selectAudit(db: TestService['db']) {
  return db.selectFrom((from) =>
    from
      .selectFrom('audit_events as e')
      .leftJoin('audit_addresses as a', (join) =>
        join.onRef('a.company_id', '=', 'e.company_id').onRef('a.audit_id', '=', 'e.audit_id'),
      )
      .select(['e.company_id', 'e.audit_id', 'e.occurred_at', 'e.session_id', 'e.action', 'e.outcome'])
      .select(['e.actor', 'e.subject', 'e.details', 'a.ip_address', 'a.email'])
      .as('entry'),
  )
}

/** Entries with this action by or about a member, oldest first. */
export async function listAudit(db: TestService['db'], action: string, { userId }: { userId: string }) {
  return await selectAudit(db)
    .select(['actor', 'subject', 'outcome', 'details'])
    .where('action', '=', action)
    .where(({ or, eb }) => or([eb('actor', '=', userId), eb('subject', '=', userId)]))
    .orderBy('audit_id')
    .execute()
}
