import { type RawBuilder, sql } from 'kysely'

/** The table of known networks and devices, as SQL. It holds digests only. */

export interface KnownClient {
  kind: 'network' | 'device'
  digest: Buffer
}

/** Until when network and device of an attempt are known for its member; null if they are not. */
export interface KnownUntil {
  networkKnownUntil: Date | null
  deviceKnownUntil: Date | null
}

/** The most networks, and the most devices, that are known for one member. A new one replaces the oldest. */
const MAX_KNOWN = 20

/** The columns of `KnownUntil` for user `u` of item `i`, with `network (ord, digest)` and `i.device`. */
export const knownUntilColumns = sql`
  (select max(k.known_until) from network n
    join known_clients k on k.company_id = u.company_id and k.user_id = u.user_id
      and k.kind = 'network' and k.digest = n.digest
    where n.ord = i.ord) as "networkKnownUntil",
  (select k.known_until from known_clients k
    where k.company_id = u.company_id and k.user_id = u.user_id
      and k.kind = 'device' and k.digest = i.device) as "deviceKnownUntil"`

/** Common table expressions that make clients known for each row of `members`, which has `company_id` and `user_id`. */
export function learning(members: RawBuilder<unknown>, learns: KnownClient[], until: Date) {
  const kinds = learns.map(({ kind }) => kind)
  const digests = learns.map(({ digest }) => digest)
  return sql`learnt as (select * from unnest(${kinds}::text[], ${digests}::bytea[]) as l (kind, digest)),
    learning as (
      insert into known_clients (company_id, user_id, kind, digest, known_until)
      select m.company_id, m.user_id, l.kind, l.digest, ${until} from ${members} m cross join learnt l
      on conflict (company_id, user_id, kind, digest) do update set known_until = excluded.known_until
    ), forgetting as (
      delete from known_clients k using (
        select k.company_id, k.user_id, k.kind, k.digest,
          row_number() over (partition by k.user_id, k.kind order by k.known_until desc) as place
        from ${members} m join known_clients k on k.company_id = m.company_id and k.user_id = m.user_id
        where k.kind in (select kind from learnt) and k.digest not in (select digest from learnt)
      ) f
      where f.place >= ${MAX_KNOWN} and k.company_id = f.company_id and k.user_id = f.user_id
        and k.kind = f.kind and k.digest = f.digest
    )`
}
