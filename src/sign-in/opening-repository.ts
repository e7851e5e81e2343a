import { sql } from 'kysely'
import type { AuditEntry } from '../audit/entry.ts'
import { auditEach, auditIfAny } from '../audit/fragments.ts'
import type { Executor, Tx } from '../database/connect.ts'
import { refundIfAny } from '../limits/fragments.ts'
import type { Quota } from '../limits/subject.ts'
import type { Session } from '../session/session.ts'
import { isNotEnded } from '../session/session-fragments.ts'
import { type KnownClient, learning } from './known-clients-repository.ts'

export interface NewSession
  extends Pick<
    Session,
    'sessionId' | 'userId' | 'email' | 'kind' | 'createdAt' | 'expiresAt' | 'maxExpiresAt' | 'amr'
  > {
  cookieHash: Buffer | null
  userAgent: string | null
  ipAddress: string
  network: string
  /** The hash that the password matched; null if the transaction has consumed another proof. */
  passwordHash: string | null
  /** What becomes known, until `knownUntil`. */
  learns: KnownClient[]
  knownUntil: Date
  supersededAuditId: string
  refunds: Quota[]
}

/**
 * - refused: user or company is not active, or the password that was checked is not enough any more
 * - raced: with another session of the user, so nothing was changed. Call `lockMember` first, in a transaction
 */
type OpeningOutcome = 'opened' | 'refused' | 'raced'

/** The most sessions that one sign-in ends. More than one only after `maxSessions` was lowered. */
const MAX_SUPERSEDED = 1_000

/** The password is enough if it and the e-mail are the same, and the user has no second factor. */
const isStillEnough = ({ passwordHash, email }: Pick<NewSession, 'passwordHash' | 'email'>) =>
  passwordHash === null
    ? sql`true`
    : sql`u.password_hash = ${passwordHash} and u.email = ${email} and u.second_factors = '{}'`

/**
 * Ends the longest unused session of the network that has most, if the user has `maxSessions`. User and company stay locked:
 * what ends all sessions comes before, and its epoch is in the new session, or later, and ends that too.
 */
export async function insertSession(
  db: Executor,
  companyId: string,
  session: NewSession,
  maxSessions: number,
  audit: AuditEntry,
): Promise<OpeningOutcome> {
  const { userId, learns } = session
  const learnt = learns.length === 0 ? sql`` : sql`, ${learning(sql`alone`, learns, session.knownUntil)}`
  const { rows } = await sql<{ isAlone: boolean }>`
    with company as (
      select company_id, session_epoch from companies
      where company_id = ${companyId} and status = 'active'
      for share
    ), member as (
      update users u set sessions_opened = u.sessions_opened + 1,
        last_sign_in_at = greatest(u.last_sign_in_at, date_trunc('hour', ${session.createdAt}::timestamptz, 'UTC'))
      from company c
      where u.company_id = c.company_id and u.user_id = ${userId}
        and u.status = 'active' and ${isStillEnough(session)}
      returning u.company_id, u.user_id, u.session_epoch as user_epoch, c.session_epoch as company_epoch,
        -- What this statement's snapshot shows. It shows the user's other sessions as of the same moment.
        u.sessions_opened - 1 = (
          select seen.sessions_opened from users seen
          where seen.company_id = u.company_id and seen.user_id = u.user_id
        ) as is_alone
    ), alone as (
      select * from member where is_alone
    ), live as (${liveSessions(session.createdAt)}), superseded as (${supersede(session, maxSessions)}), opened as (
      insert into sessions (company_id, session_id, user_id, kind, cookie_hash, created_at, issued_at, expires_at,
        max_expires_at, user_agent, ip_address, network, user_epoch, company_epoch, auth_time, amr)
      select company_id, ${session.sessionId}, user_id, ${session.kind}, ${session.cookieHash}::bytea,
        ${session.createdAt}, ${session.createdAt}, ${session.expiresAt}, ${session.maxExpiresAt},
        ${session.userAgent}, ${session.ipAddress}, ${session.network}, user_epoch, company_epoch,
        ${session.createdAt}, ${session.amr}::text[]
      from alone
      returning session_id
    ), audited as (${auditIfAny('opened', companyId, audit)}), told as (${auditSuperseded(session)}),
    refunded as (${refundIfAny('opened', session.refunds)}) ${learnt}
    select is_alone as "isAlone" from member`.execute(db)
  const [member] = rows
  if (!member) return 'refused'
  return member.isAlone ? 'opened' : 'raced'
}

/** `place` is 1 for the session of its network that was used last. */
const liveSessions = (now: Date) => sql`
  select s.company_id, s.session_id, s.issued_at,
    row_number() over (partition by coalesce(s.network, s.ip_address) order by s.issued_at desc) as place
  from alone o
  join sessions s on s.company_id = o.company_id and s.user_id = o.user_id and s.user_epoch = o.user_epoch
  where s.ended_at is null and s.expires_at > ${now} and s.company_epoch = o.company_epoch`

/** In key order, so that two statements never deadlock. */
const supersede = ({ createdAt: now }: NewSession, maxSessions: number) => sql`
  update sessions s set ended_at = ${now}, end_reason = 'superseded'
  from (
    select s.company_id, s.session_id
    from (
      select * from live order by place desc, issued_at
      limit greatest(0, least(${MAX_SUPERSEDED}, (select count(*) from live) + 1 - ${maxSessions}::int))
    ) l
    join sessions s on s.company_id = l.company_id and s.session_id = l.session_id
    order by s.company_id, s.session_id
    for update of s
  ) l
  where s.company_id = l.company_id and s.session_id = l.session_id and ${isNotEnded('s')}
  returning s.company_id, s.session_id, s.user_id`

const auditSuperseded = ({ createdAt, ipAddress, supersededAuditId }: NewSession) =>
  auditEach(sql`superseded limit 1`, {
    companyId: sql`company_id`,
    auditId: sql`${supersededAuditId}::uuid`,
    occurredAt: sql`${createdAt}::timestamptz`,
    action: sql`'session_end'`,
    outcome: sql`'superseded'`,
    actor: sql`user_id::text`,
    sessionId: sql`session_id`,
    ipAddress: sql`${ipAddress}`,
  })

/** So that `insertSession` does not race in this transaction. */
export async function lockMember(tx: Tx, companyId: string, userId: string): Promise<void> {
  await sql`
    with company as (select company_id from companies where company_id = ${companyId} for share)
    select from company c join users u on u.company_id = c.company_id
    where u.user_id = ${userId}
    for no key update of u`.execute(tx)
}
