import { type RawBuilder, sql } from 'kysely'
import { auditEach } from '../audit/fragments.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { isKeyInForce } from '../token/repository.ts'
import type { EndState, SessionIds } from './session.ts'
import { endReason, endsAt, hasEnded } from './session-fragments.ts'

/** Logout: one statement checks a credential, ends its session or all of the user's, and audits it. */

interface About {
  now: Date
  auditId: string
  ipAddress: string
  shownSessionId: string | null
}

export interface TokenLogout extends About, SessionIds {
  keyId: string
}

export interface CookieLogout extends About {
  cookieHash: Buffer
}

export interface LoggedOut extends EndState, SessionIds {
  wasLive: boolean
  /** Live, and the session that the page shows. */
  isEnded: boolean
}

const about = {
  now: ['timestamptz', ({ now }: About) => now],
  audit_id: ['uuid', ({ auditId }: About) => auditId],
  ip: ['text', ({ ipAddress }: About) => ipAddress],
  shown: ['text', ({ shownSessionId }: About) => shownSessionId],
} as const

const tokenTable = itemTable<TokenLogout>({
  company_id: ['uuid', ({ companyId }) => companyId],
  session_id: ['uuid', ({ sessionId }) => sessionId],
  user_id: ['uuid', ({ userId }) => userId],
  key_id: ['text', ({ keyId }) => keyId],
  ...about,
})

const cookieTable = itemTable<CookieLogout>({
  cookie_hash: ['bytea', ({ cookieHash }) => cookieHash],
  ...about,
})

const byToken = sql`join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
  and s.user_id = i.user_id and s.kind = 'token' and ${isKeyInForce(sql`i.key_id`)}`

const byCookie = sql`join sessions s on s.cookie_hash = i.cookie_hash`

/** Null for an unknown session or a revoked key. Items must name different sessions. */
export async function logOutTokens(db: Executor, items: TokenLogout[], scope: LogoutScope) {
  return await logOut(db, items.length, sql`${tokenTable(items)} ${byToken}`, scope)
}

/** A cookie does not name its company. */
export async function logOutCookiesAcrossCompanies(db: Executor, items: CookieLogout[], scope: LogoutScope) {
  return await logOut(db, items.length, sql`${cookieTable(items)} ${byCookie}`, scope)
}

const ENDS = {
  session: {
    action: sql`'logout'`,
    // In key order, so that two statements never deadlock.
    lock: sql`order by s.company_id, s.session_id for update of s`,
    update: sql`
      update sessions s set ended_at = f.now, end_reason = 'logout'
      from found f where s.company_id = f.company_id and s.session_id = f.session_id and f.is_ended`,
  },
  all: {
    action: sql`'logout_all'`,
    // Sign-in locks the user before it ends a session, so a session must not be locked before the user.
    lock: sql``,
    update: sql`
      update users u set session_epoch = session_epoch + 1, session_epoch_reason = 'logout'
      from (
        select u.company_id, u.user_id
        from (select distinct company_id, user_id from found where is_ended) f
        join users u on u.company_id = f.company_id and u.user_id = f.user_id
        order by u.company_id, u.user_id
        for no key update of u
      ) f
      where u.company_id = f.company_id and u.user_id = f.user_id`,
  },
}
export type LogoutScope = keyof typeof ENDS

async function logOut(
  db: Executor,
  length: number,
  sessions: RawBuilder<unknown>,
  scope: LogoutScope,
): Promise<(LoggedOut | null)[]> {
  const { action, lock, update } = ENDS[scope]
  const { rows } = await sql<LoggedOut & { ord: number }>`
    with locked as (
      select s.company_id, s.session_id, s.user_id, s.created_at, s.issued_at, s.expires_at, s.ended_at, s.end_reason,
        s.user_epoch, s.company_epoch, s.password_epoch, i.now, i.audit_id, i.ip, i.shown, i.ord
      from ${sessions} ${lock}
    ), found as (
      select l.*, a.user_status, a.company_status, ${endReason('l', 'a')} as ended_because, ${endsAt('l', 'a')} as ends_at,
        live.was_live, live.was_live and coalesce(l.shown = l.session_id::text, true) as is_ended
      from locked l join accounts a on a.company_id = l.company_id and a.user_id = l.user_id
      cross join lateral (select not ${hasEnded('l', 'a', sql`l.now`)} as was_live) live
    ), ended as (${update}), audited as (${auditOf(action)})
    select ord::int, company_id as "companyId", session_id as "sessionId", user_id as "userId", was_live as "wasLive",
      is_ended as "isEnded", ended_because as "endReason", ends_at as "endsAt", user_status as "userStatus",
      company_status as "companyStatus"
    from found`.execute(db)
  return inOrder(length, rows)
}

const auditOf = (action: RawBuilder<unknown>) =>
  auditEach(sql`found where is_ended`, {
    companyId: sql`company_id`,
    auditId: sql`audit_id`,
    occurredAt: sql`now`,
    action,
    outcome: sql`'done'`,
    actor: sql`user_id::text`,
    sessionId: sql`session_id`,
    ipAddress: sql`ip`,
  })
