import { type RawBuilder, sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'

/** One row per company and email. Its link is a one-time token, which is useless without the row. */

export interface Invitation {
  id: string
  email: string
  role: string
  assignments: string[]
  invitedBy: { id: string; email: string | null } | null
  createdAt: Date
  expiresAt: Date | null
  mail: 'waiting' | 'sent' | 'failed'
}

/** The sender must still have the right to invite; an operator always has. */
const senderMay = sql<boolean>`(i.invited_by is null or exists (
  select from accounts a
  where a.company_id = i.company_id and a.user_id = i.invited_by and a.user_status = 'active'
    and a.company_status = 'active' and 'members:manage' = any(a.all_permissions)
))`

/** Its link works, or will once it is sent. Members who joined in a different way are not invited. */
const isOpen = (now: Date) => sql<boolean>`(
  (i.expires_at is null or i.expires_at > ${now}::timestamptz) and ${senderMay}
  and not exists (select from users m where m.company_id = i.company_id and m.email = i.email)
)`

/** An email whose row was deleted before it was sent has failed. */
const mailState = sql`case
    when m.sent_at is not null or (m.mail_id is null and i.expires_at is not null) then 'sent'
    when m.mail_id is null or m.failed_at is not null then 'failed'
    else 'waiting'
  end`

const select = (where: RawBuilder<unknown>) => sql<Invitation>`
  select i.invitation_id as id, i.email, i.role, i.assignments, i.created_at as "createdAt", v.mail,
    case when i.invited_by is not null then json_build_object('id', i.invited_by, 'email', u.email) end as "invitedBy",
    case when v.mail = 'sent' then i.expires_at end as "expiresAt"
  from invitations i
  left join users u on u.company_id = i.company_id and u.user_id = i.invited_by
  left join mail_outbox m on m.company_id = i.company_id and m.mail_id = i.mail_id
  cross join lateral (select ${mailState} as mail) v
  where ${where}`

export async function listInvitations(
  db: Executor,
  companyId: string,
  { now, after, max }: { now: Date; after: { time: Date; id: string } | undefined; max: number },
): Promise<Invitation[]> {
  const further = after
    ? sql`and (i.created_at, i.invitation_id) < (${after.time}::timestamptz, ${after.id}::uuid)`
    : sql``
  const { rows } = await select(sql`i.company_id = ${companyId} and ${isOpen(now)} ${further}
    order by i.created_at desc, i.invitation_id desc limit ${max}`).execute(db)
  return rows
}

export async function findInvitation(db: Executor, companyId: string, id: string) {
  const { rows } = await select(sql`i.company_id = ${companyId} and i.invitation_id = ${id}`).execute(db)
  return rows[0]
}

type NewInvitation = Pick<Invitation, 'id' | 'email' | 'role' | 'assignments' | 'createdAt'> & {
  invitedBy: string | null
  mailId: string
}

export async function putInvitation(
  tx: Tx,
  companyId: string,
  { id, email, role, assignments, invitedBy, mailId, createdAt }: NewInvitation,
): Promise<void> {
  await sql`
    insert into invitations
      (company_id, invitation_id, email, role, assignments, invited_by, mail_id, created_at)
    values (${companyId}, ${id}, ${email}, ${role}, ${assignments}, ${invitedBy}, ${mailId}, ${createdAt})
    on conflict (company_id, email) do update set invitation_id = excluded.invitation_id, role = excluded.role,
      assignments = excluded.assignments, invited_by = excluded.invited_by, mail_id = excluded.mail_id,
      created_at = excluded.created_at, expires_at = null, renewed_at = null`.execute(tx)
}

export async function renewInvitation(
  tx: Tx,
  companyId: string,
  { id, mailId, now }: { id: string; mailId: string; now: Date },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('invitations')
    .set({ mail_id: mailId, expires_at: null, renewed_at: now })
    .where('company_id', '=', companyId)
    .where('invitation_id', '=', id)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export async function countOtherInvitations(
  tx: Tx,
  companyId: string,
  { email, now }: { email: string; now: Date },
): Promise<number> {
  const { count } = await tx
    .selectFrom('invitations as i')
    .select(({ cast, fn }) => cast<number>(fn.countAll(), 'integer').as('count'))
    .where('i.company_id', '=', companyId)
    .where('i.email', '!=', email)
    .where(isOpen(now))
    .executeTakeFirstOrThrow()
  return count
}

/** `invitedBy` is null for an operator. Undefined if the sender lost the right to invite. */
export async function findInvitationTo(db: Executor, companyId: string, email: string) {
  return await db
    .selectFrom('invitations as i')
    .leftJoin('users as u', (join) =>
      join.onRef('u.company_id', '=', 'i.company_id').onRef('u.user_id', '=', 'i.invited_by'),
    )
    .select(['i.role', 'u.name as invitedBy'])
    .where('i.company_id', '=', companyId)
    .where('i.email', '=', email)
    .where(senderMay)
    .executeTakeFirst()
}

/** Does nothing if a newer email was queued for the invitation. */
export async function noteExpiry(
  db: Executor,
  companyId: string,
  { mailId, email, expiresAt }: { mailId: string; email: string; expiresAt: Date },
): Promise<void> {
  await db
    .updateTable('invitations')
    .set({ expires_at: expiresAt })
    .where('company_id', '=', companyId)
    .where('email', '=', email)
    .where('mail_id', '=', mailId)
    .execute()
}

/** Undefined if there is none, or its sender lost the right to invite. */
export async function takeInvitation(tx: Tx, companyId: string, email: string) {
  return await tx
    .deleteFrom('invitations as i')
    .where('i.company_id', '=', companyId)
    .where('i.email', '=', email)
    .where(senderMay)
    .returning(['i.role', 'i.assignments', 'i.invited_by as invitedBy'])
    .executeTakeFirst()
}

export async function deleteInvitation(tx: Tx, companyId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('invitations')
    .where('company_id', '=', companyId)
    .where('invitation_id', '=', id)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Call it after a change to the member. Does nothing if they may still invite. */
export async function dropInvitationsOf(tx: Tx, companyId: string, userId: string): Promise<void> {
  await tx
    .deleteFrom('invitations as i')
    .where('i.company_id', '=', companyId)
    .where('i.invited_by', '=', userId)
    .where(({ not }) => not(senderMay))
    .execute()
}

/** Those sent or resent since a time, by default all. Returns how many were open. */
export async function withdrawInvitationsOf(
  tx: Tx,
  companyId: string,
  userId: string,
  { since = new Date(0), now }: { since?: Date; now: Date },
): Promise<number> {
  const withdrawn = await tx
    .deleteFrom('invitations as i')
    .where('i.company_id', '=', companyId)
    .where('i.invited_by', '=', userId)
    .where(({ fn }) => fn.coalesce('i.renewed_at', 'i.created_at'), '>=', since)
    .returning(isOpen(now).as('isOpen'))
    .execute()
  return withdrawn.filter((row) => row.isOpen).length
}
