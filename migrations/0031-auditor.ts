import { type Kysely, sql } from 'kysely'

/** A role that reads the audit trail and nothing else, for people and for service accounts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`insert into roles (role, permissions) values ('auditor', '{audit:read}')`.execute(db)
}
