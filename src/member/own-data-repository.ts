import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { isMailOf } from '../mail/repository.ts'

export const MAX_EXPORTED = 1_000

/** Without secrets, digests, and keys. `tests/member/own-data.test.ts` compares it with the tables. */
export async function readOwnRows(
  db: Executor,
  companyId: string,
  { userId, email }: { userId: string; email: string },
) {
  const isOwn = sql`company_id = ${companyId} and user_id = ${userId}`
  const list = async (query: ReturnType<typeof sql>) =>
    (await sql<Record<string, unknown>>`${query} limit ${MAX_EXPORTED}`.execute(db)).rows
  const [account] = await list(sql`
    select user_id as id, kind, email, name, role, assignments, status, email_verified_at as "emailVerifiedAt",
      created_at as "createdAt", invited_by as "invitedBy", last_sign_in_at as "lastSignInAt",
      sessions_opened::float8 as "sessionsOpened", locked_out_at as "lockedOutAt", wrong_codes as "wrongCodes",
      guessing_told_at as "guessingToldAt", factor_missing_told_at as "factorMissingToldAt"
    from users where ${isOwn}`)
  const [company] = await list(sql`
    select company_id as id, name, handle from companies where company_id = ${companyId}`)
  const [recovery] = await list(sql`select count(*)::int as codes from recovery_codes where ${isOwn}`)
  return {
    company,
    account,
    sessions: await list(sql`
      select session_id as id, kind, created_at as "createdAt", issued_at as "lastSeenAt", expires_at as "expiresAt",
        ended_at as "endedAt", end_reason as "endReason", auth_time as "authenticatedAt", amr as methods,
        user_agent as "userAgent", ip_address as "ipAddress"
      from sessions where ${isOwn} order by issued_at desc`),
    secondFactors: await list(sql`
      select factor_id as id, kind, name, created_at as "createdAt", confirmed_at as "confirmedAt",
        last_used_at as "lastUsedAt"
      from second_factors where ${isOwn} order by factor_id desc`),
    recoveryCodes: recovery?.['codes'],
    servicePasswords: await list(sql`
      select hint, created_at as "createdAt", last_used_at as "lastUsedAt"
      from service_passwords where ${isOwn} order by password_epoch desc`),
    knownClients: await list(sql`
      select kind, known_until as "knownUntil" from known_clients where ${isOwn} order by known_until desc`),
    challenges: await list(sql`
      select purpose, created_at as "createdAt", expires_at as "expiresAt", ip_address as "ipAddress"
      from second_factor_challenges where ${isOwn} order by created_at desc`),
    emailedCodes: await list(sql`
      select expires_at as "expiresAt" from mailbox_codes where ${isOwn}`),
    links: await list(sql`
      select purpose, created_at as "createdAt", expires_at as "expiresAt" from one_time_tokens
      where company_id = ${companyId} and coalesce(user_id = ${userId}, email = ${email}) order by created_at desc`),
    emails: await list(sql`
      select kind, created_at as "createdAt", sent_at as "sentAt", failed_at as "failedAt" from mail_outbox
      where company_id = ${companyId} and ${isMailOf({ userId, email })} order by created_at desc`),
    invitations: await list(sql`
      select invitation_id as id, email, role, assignments, created_at as "createdAt", expires_at as "expiresAt"
      from invitations where company_id = ${companyId} and invited_by = ${userId} order by created_at desc`),
    signingSecrets: await list(sql`
      select version, created_at as "createdAt" from signing_secrets
      where company_id = ${companyId} and created_by = ${userId}`),
  }
}
