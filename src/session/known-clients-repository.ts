import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'

/** The networks and devices that are known for members, as digests. */

export interface KnownClient {
  kind: 'network' | 'device'
  digest: Buffer
}

/** Of one member: until when, in RFC 3339, by `keyOf`. Null if there are none. */
export type KnownUntil = Record<string, string> | null

export function keyOf({ kind, digest }: KnownClient): string {
  return `${kind} ${digest.toString('hex')}`
}

/** Of networks, and of devices, for one member. A new one replaces the oldest. */
const MAX_KNOWN = 20

/** For user `u`. All of them: digests are by company, which a handle tells only in the same statement. */
export const knownUntilColumn = sql`
  (select json_object_agg(k.kind || ' ' || encode(k.digest, 'hex'), k.known_until) from known_clients k
    where k.company_id = u.company_id and k.user_id = u.user_id) as "knownUntil"`

/** Common table expressions that make clients known: the rows of `learnt` (company_id, user_id, kind, digest, known_until). */
export const learning = sql`learning as (
    insert into known_clients (company_id, user_id, kind, digest, known_until)
    select company_id, user_id, kind, digest, known_until from learnt
    on conflict (company_id, user_id, kind, digest) do update set known_until = excluded.known_until
  ), forgetting as (
    delete from known_clients k using (
      select k.company_id, k.user_id, k.kind, k.digest, m.count,
        row_number() over (partition by k.company_id, k.user_id, k.kind order by k.known_until desc) as place
      from (select company_id, user_id, kind, count(*) from learnt group by company_id, user_id, kind) m
      join known_clients k on k.company_id = m.company_id and k.user_id = m.user_id and k.kind = m.kind
      where not exists (
        select from learnt l
        where l.company_id = k.company_id and l.user_id = k.user_id and l.kind = k.kind and l.digest = k.digest
      )
    ) f
    where f.place > ${MAX_KNOWN} - f.count and k.company_id = f.company_id and k.user_id = f.user_id
      and k.kind = f.kind and k.digest = f.digest
  )`

export async function findKnownUntil(db: Executor, companyId: string, userId: string): Promise<KnownUntil> {
  const { rows } = await sql<{ knownUntil: KnownUntil }>`
    select ${knownUntilColumn}
    from (select ${companyId}::uuid as company_id, ${userId}::uuid as user_id) u`.execute(db)
  return rows[0]?.knownUntil ?? null
}

export async function learnClients(
  tx: Tx,
  companyId: string,
  userId: string,
  learns: KnownClient[],
  until: Date,
): Promise<void> {
  await sql`
    with learnt as (
      select ${companyId}::uuid as company_id, ${userId}::uuid as user_id, kind, digest,
        ${until}::timestamptz as known_until
      from unnest(${learns.map(({ kind }) => kind)}::text[], ${learns.map(({ digest }) => digest)}::bytea[])
        as l (kind, digest)
    ), ${learning}
    select`.execute(tx)
}

export async function forgetClients(tx: Tx, companyId: string, userId: string) {
  await sql`
    delete from known_clients where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}
