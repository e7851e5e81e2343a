import { type RawBuilder, sql } from 'kysely'
import { type Identity, identities, identityColumns } from '../company/identity-fragments.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus } from '../database/schema.ts'
import type { Count } from '../limits/counters-repository.ts'
import { countUse } from '../limits/fragments.ts'
import { counterOf, type Quota } from '../limits/subject.ts'
import { type KnownUntil, knownUntilColumns } from './known-clients-fragments.ts'

/** The look-up of sign-in. */

export interface SignInItem {
  companyId: string
  /** In its stored form. */
  email: string
  /** The digests of the client's network. */
  networks: Buffer[]
  /** The digest of the client's device cookie. */
  device: Buffer | null
}

const signInTable = itemTable<SignInItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  email: ['text', ({ email }) => email],
  device: ['bytea', ({ device }) => device],
})

/** An account, and whether network and device of the client are known for it. */
export interface Candidate {
  identity: Identity
  known: KnownUntil
}

type Row = Identity & KnownUntil

/** Finds accounts by e-mail. One outcome per item, in order; null if there is no account. */
export async function findCandidates(db: Executor, items: SignInItem[]): Promise<(Candidate | null)[]> {
  const { rows } = await sql<Row & { ord: number }>`
    with ${networkTable(items)} ${select(items)}`.execute(db)
  return inOrder(items.length, rows).map((row) => row && toCandidate(row))
}

const networkTable = (items: SignInItem[]) => {
  const networks = items.flatMap((item, index) => item.networks.map((digest) => ({ ord: index + 1, digest })))
  return sql`network as (
    select * from unnest(${networks.map(({ ord }) => ord)}::int[], ${networks.map(({ digest }) => digest)}::bytea[])
      as n (ord, digest)
  )`
}

const select = (items: SignInItem[]) => sql`
  select i.ord::int, ${identityColumns}, ${knownUntilColumns}
  from ${signInTable(items)} ${identities}`

function toCandidate({ networkKnownUntil, deviceKnownUntil, ...identity }: Row): Candidate {
  return { identity, known: { networkKnownUntil, deviceKnownUntil } }
}

/** The counters of an attempt to sign in, in the order in which they are asked. */
export interface SignInCounters {
  ofNetwork: Chain
  /** In place of those of the network, if the device is known for the member; null without a device cookie. */
  ofDevice: Chain | null
  /** Wrong passwords of the account. If it is used up, only networks and devices that are known can sign in. */
  ofAccount: Quota
}

export interface Chain {
  /** Attempts, right or wrong. */
  attempts: Quota[]
  /** Wrong passwords for the account. */
  failures: Quota[]
}

/**
 * Finds an account, and counts an attempt to sign in to it: one use of each counter in turn, until one is used up. One
 * statement decides, so that parallel attempts cannot exceed a limit. Returns one count for each counter of the chain
 * that applies, and for the account as the last. Counts after that of a used up counter mean nothing.
 */
export async function findAndCount(
  db: Executor,
  item: SignInItem,
  { ofNetwork, ofDevice, ofAccount }: SignInCounters,
  now: number,
): Promise<FoundAndCounted> {
  const network = countInTurn('network', sql`other_device`, ofNetwork, now)
  const device = countInTurn('device', sql`known_device`, ofDevice, now)
  const account = countOne('account', sql`passed`, ofAccount, now)
  const { rows } = await sql<Partial<Row> & Found>`
    with ${networkTable([item])}, candidate as (${select([item])}),
    known_device as (select from candidate where "deviceKnownUntil" > ${new Date(now)}),
    other_device as (select where not exists (select from known_device)),
    ${sql.join([...network.steps, ...device.steps].map(({ counting }) => counting))},
    passed as (select from ${network.passed} union all select from ${device.passed}), ${account.counting}
    select c.*, k."isKnownDevice",
      (select status from companies where company_id = ${item.companyId}::uuid) as "statusOfCompany",
      case when k."isKnownDevice" then ${countsOf([...device.steps, account])}
      else ${countsOf([...network.steps, account])} end as counts
    from (select exists (select from known_device) as "isKnownDevice") k left join candidate c on true`.execute(
    db,
  )
  const [row] = rows
  if (!row) throw new Error('a sign-in returned no row')
  const { counts, isKnownDevice, statusOfCompany, ...found } = row
  return {
    candidate: isRow(found) ? toCandidate(found) : null,
    companyStatus: statusOfCompany,
    isKnownDevice,
    counts: counts.map(([uses, endsAt]) => ({ uses, windowEndsAt: new Date(endsAt) })),
  }
}

interface FoundAndCounted {
  candidate: Candidate | null
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
  isKnownDevice: boolean
  counts: Count[]
}

interface Found {
  isKnownDevice: boolean
  statusOfCompany: CompanyStatus | null
  counts: [uses: number, endsAt: number][]
}

const isRow = (found: Partial<Row>): found is Row => typeof found.userId === 'string'

interface Step {
  counting: RawBuilder<unknown>
  /** Has a row if the counter had a use left. */
  passed: RawBuilder<unknown>
  count: RawBuilder<unknown>
}

/** Counts each counter if the one before it had a use left. */
function countInTurn(
  name: string,
  source: RawBuilder<unknown>,
  chain: SignInCounters['ofDevice'],
  now: number,
) {
  const steps: Step[] = []
  for (const quota of chain ? [...chain.attempts, ...chain.failures] : []) {
    steps.push(countOne(`${name}_${steps.length + 1}`, steps.at(-1)?.passed ?? source, quota, now))
  }
  return { steps, passed: steps.at(-1)?.passed ?? source }
}

function countOne(name: string, source: RawBuilder<unknown>, quota: Quota, now: number): Step {
  const { limit } = quota
  const counter = counterOf(quota)
  const step = sql.table(name)
  return {
    counting: sql`${step} as (${countUse(limit, { counter, source, now })})`,
    passed: sql`${step} where hits <= ${limit.max}`,
    // The counter itself tells when a used up limit has uses again.
    count: sql`json_build_array(coalesce((select hits from ${step}), ${limit.max + 1}::int),
      extract(epoch from coalesce((select window_ends_at from ${step}),
        (select window_ends_at from rate_counters where counter = ${counter}), ${new Date(now)})) * 1000)`,
  }
}

const countsOf = (steps: Step[]) => sql`json_build_array(${sql.join(steps.map(({ count }) => count))})`
