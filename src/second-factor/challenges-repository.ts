import { type RawBuilder, sql } from 'kysely'
import type { MemberIds } from '../company/account.ts'
import { type Identity, identityColumns } from '../company/identity-repository.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { ChallengePurpose, SessionKind } from '../database/schema.ts'

/** A challenge stores the epochs of its user and company, so whatever ends their sessions also invalidates it. */

const MAX_TRIES = 5

export interface NewChallenge {
  userId: string
  hash: Buffer
  purpose: ChallengePurpose
  /** For a sign-in, which has no session yet. */
  mode: SessionKind | null
  sessionId: string | null
  isPasswordProven: boolean
  network: string
  ipAddress: string
  createdAt: Date
  expiresAt: Date
}

/** False if password or factors changed since the check. Locks the user: a later change invalidates the challenge. */
export async function insertSignIn(
  db: Executor,
  { companyId, userId, passwordHash, secondFactors }: Identity,
  challenge: NewChallenge,
): Promise<boolean> {
  const member = sql`
    select company_id, user_id, session_epoch from users
    where company_id = ${companyId} and user_id = ${userId} and status = 'active'
      and password_hash = ${passwordHash} and second_factors = ${secondFactors}::text[]
    for share`
  return await insertFor(db, member, challenge)
}

/** False if the session has ended. */
export async function insertOfSession(db: Executor, companyId: string, challenge: NewChallenge) {
  const member = sql`
    select u.company_id, u.user_id, u.session_epoch
    from users u
    join sessions s on s.company_id = u.company_id and s.user_id = u.user_id and s.user_epoch = u.session_epoch
    where u.company_id = ${companyId} and u.user_id = ${challenge.userId} and u.status = 'active'
      and s.session_id = ${challenge.sessionId} and s.end_reason is null
    for share of u`
  return await insertFor(db, member, challenge)
}

async function insertFor(db: Executor, member: RawBuilder<unknown>, challenge: NewChallenge) {
  const { numAffectedRows } = await sql`
    with member as (${member})
    insert into second_factor_challenges (company_id, user_id, challenge_hash, purpose, mode, session_id, password_proven,
      user_epoch, company_epoch, network, ip_address, created_at, expires_at)
    select m.company_id, m.user_id, ${challenge.hash}::bytea, ${challenge.purpose}, ${challenge.mode}::text,
      ${challenge.sessionId}::uuid, ${challenge.isPasswordProven}, m.session_epoch, c.session_epoch,
      ${challenge.network}, ${challenge.ipAddress}, ${challenge.createdAt}, ${challenge.expiresAt}
    from member m join companies c on c.company_id = m.company_id`.execute(db)
  return numAffectedRows === 1n
}

const isValid = (now: Date) => sql`h.expires_at > ${now} and h.tries < ${MAX_TRIES} and h.answered_by is null
  and h.user_epoch = u.session_epoch and u.status = 'active'
  and exists (select from companies c
    where c.company_id = h.company_id and c.session_epoch = h.company_epoch and c.status = 'active')`

/** `limit 1` keeps the planner from starting at the company and reading all of its users. */
const ownerOf = (table: 'h' | 'f') => sql`
  cross join lateral (
    select * from users u
    where u.company_id = ${sql.ref(`${table}.company_id`)} and u.user_id = ${sql.ref(`${table}.user_id`)} limit 1
  ) u
  join accounts a on a.company_id = u.company_id and a.user_id = u.user_id`

/** Neither a challenge nor a credential ID names its company. */
export async function findSignInAcrossCompanies(db: Executor, hash: Buffer, now: Date) {
  const { rows } = await sql<Identity & { mode: SessionKind }>`
    select h.mode, ${identityColumns}
    from second_factor_challenges h ${ownerOf('h')}
    where h.challenge_hash = ${hash} and h.purpose = 'sign_in' and ${isValid(now)}`.execute(db)
  const [row] = rows
  if (!row) return undefined
  const { mode, ...identity } = row
  return { mode, identity }
}

export async function findOwnerOfPasskeyAcrossCompanies(db: Executor, credentialId: Buffer) {
  const { rows } = await sql<Identity>`
    select ${identityColumns}
    from second_factors f ${ownerOf('f')}
    where f.credential_id = ${credentialId}`.execute(db)
  return rows[0]
}

/** `answeredBy` is the digest of the request that completed the challenge. */
export async function findProof(
  db: Executor,
  { companyId, userId, sessionId }: MemberIds & { sessionId: string },
  hash: Buffer,
  now: Date,
) {
  return await db
    .selectFrom('second_factor_challenges')
    .select(['password_proven as isPasswordProven', 'answered_by as answeredBy'])
    .where((eb) => eb.and({ company_id: companyId, user_id: userId, challenge_hash: hash }))
    .where((eb) => eb.and({ purpose: 'proof', session_id: sessionId }))
    .where('expires_at', '>', now)
    .executeTakeFirst()
}

/** False if the challenge is invalid or has no tries left. Parallel tries can't exceed the limit. */
export async function countTry(db: Executor, { companyId, userId }: MemberIds, hash: Buffer, now: Date) {
  const { numAffectedRows } = await sql`
    update second_factor_challenges h set tries = h.tries + 1
    from users u
    where h.company_id = ${companyId} and h.user_id = ${userId} and h.challenge_hash = ${hash}
      and u.company_id = h.company_id and u.user_id = h.user_id and ${isValid(now)}`.execute(db)
  return numAffectedRows === 1n
}

interface Answer {
  userId: string
  hash: Buffer
  now: Date
}

/** Ignores the number of tries, because this try is already counted. */
const isAnswered = (companyId: string, { userId, hash, now }: Answer) => sql`
  h.company_id = ${companyId} and h.user_id = ${userId} and h.challenge_hash = ${hash}
  and h.expires_at > ${now} and h.answered_by is null
  and exists (
    select from users u join companies c on c.company_id = u.company_id
    where u.company_id = h.company_id and u.user_id = h.user_id and u.session_epoch = h.user_epoch
      and c.session_epoch = h.company_epoch
  )`

/** Also consumes the member's other sign-ins from this network. Lock the member first, so that only one succeeds. */
export async function consumeSignIn(tx: Tx, companyId: string, answer: Answer & { network: string }) {
  const { userId, hash, network } = answer
  const { rows } = await sql`
    with good as (
      select h.challenge_hash from second_factor_challenges h where ${isAnswered(companyId, answer)}
    ), gone as (
      delete from second_factor_challenges h using good
      where h.company_id = ${companyId} and h.user_id = ${userId} and h.purpose = 'sign_in'
        and (h.challenge_hash = ${hash} or h.network = ${network})
      returning h.challenge_hash
    )
    select from gone where challenge_hash = ${hash}`.execute(tx)
  return rows.length > 0
}

export async function answerProof(tx: Tx, companyId: string, answer: Answer & { answeredBy: Buffer }) {
  const { numAffectedRows } = await sql`
    update second_factor_challenges h set answered_by = ${answer.answeredBy}
    where ${isAnswered(companyId, answer)}`.execute(tx)
  return numAffectedRows === 1n
}

export async function consumeEnrolment(tx: Tx, companyId: string, answer: Answer & { sessionId: string }) {
  const { numAffectedRows } = await sql`
    delete from second_factor_challenges h
    where h.purpose = 'enrolment' and h.session_id = ${answer.sessionId}
      and ${isAnswered(companyId, answer)}`.execute(tx)
  return numAffectedRows === 1n
}

/** No challenge has this hash. Its row consumes every challenge that expires no later. */
const EVERY_HASH = Buffer.alloc(0)

/** False if the challenge was already consumed. */
export async function consumeUnstored(tx: Tx, hash: Buffer, expiresAt: Date): Promise<boolean> {
  const { numAffectedRows } = await sql`
    insert into used_passkey_challenges (challenge_hash, expires_at)
    select ${hash}::bytea, ${expiresAt}::timestamptz where not exists (
      select from used_passkey_challenges where challenge_hash = ${EVERY_HASH} and expires_at >= ${expiresAt}
    )
    on conflict do nothing`.execute(tx)
  return numAffectedRows === 1n
}

const deletingChallenges = (tx: Tx, companyId: string, userId: string) =>
  tx.deleteFrom('second_factor_challenges').where('company_id', '=', companyId).where('user_id', '=', userId)

export async function deleteWaiting(tx: Tx, companyId: string, userId: string, network: string) {
  await deletingChallenges(tx, companyId, userId)
    .where('purpose', '=', 'sign_in')
    .where('network', '=', network)
    .execute()
}

export async function deletePasswordProven(tx: Tx, companyId: string, userId: string) {
  await deletingChallenges(tx, companyId, userId).where('password_proven', '=', true).execute()
}

export async function consumeUntilAcrossCompanies(
  tx: Tx,
  { expiresAt, step }: { expiresAt: Date; step: number },
): Promise<void> {
  await sql`
    insert into used_passkey_challenges as u (challenge_hash, expires_at) values (${EVERY_HASH}, ${expiresAt})
    on conflict (challenge_hash) do update set expires_at = greatest(u.expires_at, excluded.expires_at)
  `.execute(tx)
  await tx
    .updateTable('second_factors')
    .set({ last_step: String(step) })
    .where('kind', '=', 'totp')
    .where('confirmed_at', 'is not', null)
    .where('last_step', '<', String(step))
    .execute()
}
