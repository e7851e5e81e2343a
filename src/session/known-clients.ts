import { createHmac } from 'node:crypto'
import type { MemberIds } from '../company/account.ts'
import type { Tx } from '../database/connect.ts'
import type { SessionKind } from '../database/schema.ts'
import type { Context } from '../http/context.ts'
import type { Client } from '../limits/client.ts'
import { learnClients, listKnownClients } from './repository.ts'
import type { KnownClient, KnownUntil } from './session-fragments.ts'

/** Networks and browsers that a member has signed in from. Floods of strangers cannot lock them out. */

const KNOWN_MS = 90 * 86_400_000
/** The row is written at most once a day. */
const RENEW_AFTER_MS = 86_400_000
const DIGEST_BYTES = 16

export interface Recognition {
  isKnown: boolean
  /** Only if known: then limits and queues count by device instead of by network. */
  device: string | undefined
  learns: KnownClient[]
  cookie: string | null
}

interface Visit {
  mode: SessionKind
  deviceCookie: string | undefined
  client: Pick<Client, 'network'>
  now: number
}

export function knownUntil(now: number): Date {
  return new Date(now + KNOWN_MS)
}

function keyOf({ kind, digest }: KnownClient): string {
  return `${kind} ${digest.toString('hex')}`
}

/** One digest per master key. The first key is the current one. */
function networksOf({ networkKeys }: Pick<Context, 'networkKeys'>, companyId: string, network: string) {
  return networkKeys.map((key): KnownClient => {
    const digest = createHmac('sha256', key).update(`${companyId} ${network}`).digest()
    return { kind: 'network', digest: digest.subarray(0, DIGEST_BYTES) }
  })
}

/** For a network that a member used without signing in, such as to reset a password. */
export async function learnNetwork(
  context: Pick<Context, 'networkKeys'>,
  tx: Tx,
  { companyId, userId }: MemberIds,
  { client: { network }, now }: Pick<Visit, 'client' | 'now'>,
): Promise<void> {
  const learns = networksOf(context, companyId, network).slice(0, 1)
  await learnClients(tx, companyId, { userId, learns, until: knownUntil(now) })
}

export async function recognizeMember(
  context: Pick<Context, 'db' | 'networkKeys' | 'opaque'>,
  { companyId, userId }: MemberIds,
  visit: Visit,
): Promise<Recognition> {
  const clients = await listKnownClients(context.db, companyId, userId)
  const known = Object.fromEntries(clients.map((one) => [keyOf(one), one.knownUntil.toISOString()]))
  return recognize(context, companyId, known, visit)
}

export function recognize(
  { opaque, ...context }: Pick<Context, 'networkKeys' | 'opaque'>,
  companyId: string,
  known: KnownUntil,
  { mode, deviceCookie, client, now }: Visit,
): Recognition {
  const networks = networksOf(context, companyId, client.network)
  const untilOf = (client: KnownClient) => Date.parse(known?.[keyOf(client)] ?? '') || 0
  const isFresh = (until: number) => until > now + KNOWN_MS - RENEW_AFTER_MS
  const networkKnownUntil = Math.max(...networks.map(untilOf))
  const deviceHash = deviceCookie === undefined ? null : opaque.hash(deviceCookie)
  const deviceKnownUntil = deviceHash ? untilOf({ kind: 'device', digest: deviceHash }) : 0
  const isKnownDevice = deviceKnownUntil > now
  const learns: KnownClient[] = []
  const [network] = networks
  if (network && !isFresh(networkKnownUntil)) learns.push(network)
  // An unknown value is replaced, because an attacker could have planted it.
  const cookie = mode === 'cookie' ? (isKnownDevice && deviceCookie) || opaque.generate() : null
  const deviceDigest = cookie && opaque.hash(cookie)
  if (deviceDigest && !isFresh(deviceKnownUntil)) learns.push({ kind: 'device', digest: deviceDigest })
  return {
    isKnown: isKnownDevice || networkKnownUntil > now,
    device: isKnownDevice ? deviceHash?.toString('base64url') : undefined,
    learns,
    cookie,
  }
}
