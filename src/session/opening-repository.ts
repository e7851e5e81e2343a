import { sql } from 'kysely'
import type { AuditEntry } from '../audit/entry.ts'
import { auditIfAny } from '../audit/fragments.ts'
import type { Executor } from '../database/connect.ts'
import type { SessionKind } from '../database/schema.ts'

export interface NewSession {
  sessionId: string
  userId: string
  kind: SessionKind
  cookieHash: Buffer | null
  createdAt: Date
  expiresAt: Date
  maxExpiresAt: Date
  userAgent: string | null
  ipAddress: string
  /** The hash against which the password was checked. */
  passwordHash: string
}

/**
 * Opens a session with its audit entry; false unless user and company are active and the password hash is
 * still the checked one. Both rows stay locked until the commit: a concurrent disabling either prevents the
 * session, or sees and ends it.
 */
export async function insertSession(
  db: Executor,
  companyId: string,
  session: NewSession,
  audit: AuditEntry,
): Promise<boolean> {
  const { rows } = await sql`
    with allowed as (
      select u.company_id, u.user_id
      from users u join companies c on c.company_id = u.company_id
      where u.company_id = ${companyId} and u.user_id = ${session.userId}
        and u.status = 'active' and c.status = 'active' and u.password_hash = ${session.passwordHash}
      for share of u, c
    ), opened as (
      insert into sessions (company_id, session_id, user_id, kind, cookie_hash, created_at, issued_at, expires_at,
        max_expires_at, user_agent, ip_address)
      select company_id, ${session.sessionId}, user_id, ${session.kind}, ${session.cookieHash}::bytea,
        ${session.createdAt}, ${session.createdAt}, ${session.expiresAt}, ${session.maxExpiresAt},
        ${session.userAgent}, ${session.ipAddress}
      from allowed
      returning session_id
    ), audited as (${auditIfAny('opened', companyId, audit)})
    select from opened`.execute(db)
  return rows.length > 0
}
