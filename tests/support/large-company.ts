import { sql } from 'kysely'
import type { TestService } from './test-service.ts'

const LONG = 'Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissenhaftsch'

/** A company with 500 members with long names, and 5,000 entries in its audit log. Returns its admin. */
export async function addLargeCompany(service: TestService, members = 500) {
  const { db } = service
  const admin = await service.addCompany({ name: LONG })
  const { companyId } = admin
  await sql`
    insert into users (company_id, user_id, email, name, search_name, role, assignments, kind, status, password_hash,
      email_verified_at, created_at)
    select ${companyId}, gen_random_uuid(), 'member' || n || '@large.example', ${LONG} || n, lower(${LONG} || n),
      (array['viewer', 'analyst', 'developer'])[1 + n % 3], '{environment:production}', 'person',
      case when n % 10 = 0 then 'disabled' else 'active' end, '', now(), now()
    from generate_series(1, ${members - 1}::int) n`.execute(db)
  await sql`
    insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor, subject)
    select ${companyId}, gen_random_uuid(), ${new Date(service.clock.now())}::timestamptz - n * interval '1 millisecond',
      'user_role', 'done', ${admin.userId}, (select user_id::text from users where company_id = ${companyId} limit 1)
    from generate_series(1, 5000) n`.execute(db)
  return admin
}
