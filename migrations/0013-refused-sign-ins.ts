import { type Kysely, sql } from 'kysely'

/** Why sign-ins were refused, and whose they were. Instances of before go on writing rows without. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table refused_sign_ins
      add reason text,
      add user_id uuid,
      add ip_address text`,
    sql`comment on column refused_sign_ins.kind is
      'tells rows of one network and minute apart: the reason, followed by the user'`,
    sql`comment on column refused_sign_ins.user_id is 'whose e-mail it was; null if nobody has it'`,
    sql`comment on column refused_sign_ins.ip_address is 'of the last one'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
