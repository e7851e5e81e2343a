import { sql } from 'kysely'
import { type Identity, identityColumns } from '../company/identity-fragments.ts'
import type { Executor, Transaction } from '../database/connect.ts'
import type { ChallengePurpose, SessionKind } from '../database/schema.ts'

/**
 * Challenges: sign-ins, proofs and enrolments that wait for a second factor. Each carries the epochs of its user and its
 * company, as a session does, so what ends the sessions of either makes it void in the same write: another password, a
 * disabled user, a factor that was added or removed.
 */

/** The most tries of one challenge, right or wrong. */
export const MAX_TRIES = 5

export interface NewChallenge {
  userId: string
  hash: Buffer
  purpose: ChallengePurpose
  /** How the session of a sign-in is carried; null for others. */
  mode: SessionKind | null
  /** The session of a proof or an enrolment; null for a sign-in. */
  sessionId: string | null
  isPasswordProven: boolean
  network: string
  ipAddress: string
  createdAt: Date
  expiresAt: Date
}

/**
 * Adds a challenge of a sign-in whose password was right; false if password or factors have changed meanwhile. The row of the
 * user is held: what changes them comes before and is seen, or comes later and makes the challenge void.
 */
export async function insertSignIn(
  db: Executor,
  { companyId, userId, passwordHash, secondFactors }: Identity,
  challenge: NewChallenge,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with member as (
      select company_id, user_id, session_epoch from users
      where company_id = ${companyId} and user_id = ${userId} and status = 'active'
        and password_hash = ${passwordHash} and second_factors = ${secondFactors}::text[]
      for share
    )
    ${insertion(challenge)}
    from member m join companies c on c.company_id = m.company_id`.execute(db)
  return numAffectedRows === 1n
}

/** Adds a challenge for a session; false unless the session is live. */
export async function insertOfSession(
  db: Executor,
  companyId: string,
  challenge: NewChallenge,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with member as (
      select u.company_id, u.user_id, u.session_epoch
      from users u
      join sessions s on s.company_id = u.company_id and s.user_id = u.user_id and s.user_epoch = u.session_epoch
      where u.company_id = ${companyId} and u.user_id = ${challenge.userId} and u.status = 'active'
        and s.session_id = ${challenge.sessionId} and s.end_reason is null
      for share of u
    )
    ${insertion(challenge)}
    from member m join companies c on c.company_id = m.company_id`.execute(db)
  return numAffectedRows === 1n
}

const insertion = (challenge: NewChallenge) => sql`
  insert into second_factor_challenges (company_id, user_id, challenge_hash, purpose, mode, session_id, password_proven,
    user_epoch, company_epoch, network, ip_address, created_at, expires_at)
  select m.company_id, m.user_id, ${challenge.hash}::bytea, ${challenge.purpose}, ${challenge.mode}::text,
    ${challenge.sessionId}::uuid, ${challenge.isPasswordProven}, m.session_epoch, c.session_epoch, ${challenge.network},
    ${challenge.ipAddress}, ${challenge.createdAt}, ${challenge.expiresAt}`

/** Whether challenge `h` is good for its user and its company at this moment. */
const isGood = (now: Date) => sql`h.expires_at > ${now} and h.tries < ${MAX_TRIES} and h.answered_by is null
  and h.user_epoch = u.session_epoch and u.status = 'active'
  and exists (select from companies c
    where c.company_id = h.company_id and c.session_epoch = h.company_epoch and c.status = 'active')`

/** Joins the user and the account of a row. There is one at most: so the planner does not come from the company. */
const ownerOf = (table: 'h' | 'f') => sql`
  cross join lateral (
    select * from users u
    where u.company_id = ${sql.ref(`${table}.company_id`)} and u.user_id = ${sql.ref(`${table}.user_id`)} limit 1
  ) u
  join accounts a on a.company_id = u.company_id and a.user_id = u.user_id`

/** Who signs in, and how the session will be carried. */
interface SignInChallenge {
  identity: Identity
  mode: SessionKind
}

/** Finds the challenge of a sign-in by its hash, since it does not name its company; undefined if it is not good. */
export async function findSignInAcrossCompanies(
  db: Executor,
  hash: Buffer,
  now: Date,
): Promise<SignInChallenge | undefined> {
  const { rows } = await sql<Identity & { mode: SessionKind }>`
    select h.mode, ${identityColumns}
    from second_factor_challenges h ${ownerOf('h')}
    where h.challenge_hash = ${hash} and h.purpose = 'sign_in' and ${isGood(now)}`.execute(db)
  const [row] = rows
  if (!row) return undefined
  const { mode, ...identity } = row
  return { mode, identity }
}

/** Finds the owner of a passkey by its credential id, since it does not name its company. */
export async function findOwnerOfPasskeyAcrossCompanies(
  db: Executor,
  credentialId: Buffer,
): Promise<Identity | undefined> {
  const { rows } = await sql<Identity>`
    select ${identityColumns}
    from second_factors f ${ownerOf('f')}
    where f.credential_id = ${credentialId}`.execute(db)
  return rows[0]
}

/** The challenge of a proof, and the request that has answered it; undefined if it is not of this session, or too old. */
export async function findProof(
  db: Executor,
  { companyId, userId, sessionId }: { companyId: string; userId: string; sessionId: string },
  hash: Buffer,
  now: Date,
): Promise<{ isPasswordProven: boolean; answeredBy: Buffer | null } | undefined> {
  const { rows } = await sql<{ isPasswordProven: boolean; answeredBy: Buffer | null }>`
    select password_proven as "isPasswordProven", answered_by as "answeredBy" from second_factor_challenges
    where company_id = ${companyId} and user_id = ${userId} and challenge_hash = ${hash} and purpose = 'proof'
      and session_id = ${sessionId} and expires_at > ${now}`.execute(db)
  return rows[0]
}

/** Counts a try of a challenge; false if it has had its last one, or is not good. Parallel tries cannot exceed the count. */
export async function countTry(
  db: Executor,
  { companyId, userId }: { companyId: string; userId: string },
  hash: Buffer,
  now: Date,
): Promise<boolean> {
  const { rows } = await sql`
    update second_factor_challenges h set tries = h.tries + 1
    from users u
    where h.company_id = ${companyId} and h.user_id = ${userId} and h.challenge_hash = ${hash}
      and u.company_id = h.company_id and u.user_id = h.user_id
      and ${isGood(now)}
    returning h.challenge_hash`.execute(db)
  return rows.length > 0
}

/** Whether a challenge of which a try was counted is still good, but for its tries. */
const isStillGood = (now: Date) => sql`h.expires_at > ${now} and h.answered_by is null
  and exists (
    select from users u join companies c on c.company_id = u.company_id
    where u.company_id = h.company_id and u.user_id = h.user_id and u.session_epoch = h.user_epoch
      and c.session_epoch = h.company_epoch
  )`

/**
 * Consumes the challenge of a sign-in, and with it those that wait for the same member in the same network; false if it is
 * not good any more. The member is held, so of several requests at once one finds it.
 */
export async function consumeSignIn(
  tx: Transaction,
  companyId: string,
  { userId, hash, network, now }: { userId: string; hash: Buffer; network: string; now: Date },
): Promise<boolean> {
  const { rows } = await sql`
    with good as (
      select h.challenge_hash from second_factor_challenges h
      where h.company_id = ${companyId} and h.user_id = ${userId} and h.challenge_hash = ${hash} and ${isStillGood(now)}
    ), gone as (
      delete from second_factor_challenges h using good
      where h.company_id = ${companyId} and h.user_id = ${userId} and h.purpose = 'sign_in'
        and (h.challenge_hash = ${hash} or h.network = ${network})
      returning h.challenge_hash
    )
    select from gone where challenge_hash = ${hash}`.execute(tx)
  return rows.length > 0
}

/** Marks the challenge of a proof as answered by a request; false if it is not good any more. */
export async function answerProof(
  tx: Transaction,
  companyId: string,
  { userId, hash, answeredBy, now }: { userId: string; hash: Buffer; answeredBy: Buffer; now: Date },
): Promise<boolean> {
  const { rows } = await sql`
    update second_factor_challenges h set answered_by = ${answeredBy}
    where h.company_id = ${companyId} and h.user_id = ${userId} and h.challenge_hash = ${hash} and ${isStillGood(now)}
    returning h.challenge_hash`.execute(tx)
  return rows.length > 0
}

/** Consumes the challenge of an enrolment; false if the session has none with this hash. */
export async function consumeEnrolment(
  tx: Transaction,
  companyId: string,
  { userId, sessionId, hash, now }: { userId: string; sessionId: string; hash: Buffer; now: Date },
): Promise<boolean> {
  const { rows } = await sql`
    delete from second_factor_challenges h
    where h.company_id = ${companyId} and h.user_id = ${userId} and h.challenge_hash = ${hash}
      and h.purpose = 'enrolment' and h.session_id = ${sessionId} and ${isStillGood(now)}
    returning h.challenge_hash`.execute(tx)
  return rows.length > 0
}

/** A row with this hash, which no challenge has, stands for all challenges that expire until then. */
export const EVERY_HASH = Buffer.alloc(0)

/** Marks the challenge of a sign-in by passkey alone as used; false if it was before. */
export async function useUnstored(tx: Transaction, hash: Buffer, expiresAt: Date): Promise<boolean> {
  const { rows } = await sql`
    insert into used_passkey_challenges (challenge_hash, expires_at)
    select ${hash}::bytea, ${expiresAt}::timestamptz where not exists (
      select from used_passkey_challenges where challenge_hash = ${EVERY_HASH} and expires_at >= ${expiresAt}
    )
    on conflict do nothing returning challenge_hash`.execute(tx)
  return rows.length > 0
}

/** Deletes the sign-ins of a member that wait for a second factor in one network. */
export async function deleteWaiting(
  tx: Transaction,
  companyId: string,
  userId: string,
  network: string,
): Promise<void> {
  await sql`
    delete from second_factor_challenges
    where company_id = ${companyId} and user_id = ${userId} and purpose = 'sign_in' and network = ${network}`.execute(
    tx,
  )
}

/** Deletes the challenges of a member that came after the password. */
export async function deletePasswordProven(
  tx: Transaction,
  companyId: string,
  userId: string,
): Promise<void> {
  await sql`
    delete from second_factor_challenges
    where company_id = ${companyId} and user_id = ${userId} and password_proven`.execute(tx)
}
