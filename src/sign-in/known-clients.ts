import { createHmac } from 'node:crypto'
import type { Context } from '../context.ts'
import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import { deriveKey } from '../crypto/sealing.ts'
import type { Executor, Transaction } from '../database/connect.ts'
import type { SessionKind } from '../database/schema.ts'
import type { Client } from '../limits/client.ts'
import type { System } from '../system.ts'
import type { KnownClient, KnownUntil } from './known-clients-fragments.ts'
import { findKnownUntil, learnClients } from './known-clients-repository.ts'

/**
 * Networks and devices from which a member has signed in. They can still sign in while strangers flood sign-in or
 * guess the member's password. A device is a browser with a cookie that only sign-in sets.
 */

const KNOWN_MS = 90 * 86_400_000
/** Use extends the time, but writes the row at most once a day. */
const RENEW_AFTER_MS = 86_400_000
const DIGEST_BYTES = 16

/** Where a sign-in comes from, in the form of its digests. */
export interface Digests {
  /** The network's digest by each master key; the first is in use. */
  networks: Buffer[]
  device: Buffer | null
}

export interface Recognition {
  /** Whether the member has signed in from this network or device. */
  isKnown: boolean
  /** The device's digest if it is known: then limits and queues count it, and not the network. */
  device: string | undefined
  /** What becomes known when the sign-in is completed. */
  learns: KnownClient[]
  /** The device cookie to set; null in token mode. */
  cookie: string | null
}

export interface KnownClients {
  digestsOf(companyId: string, attempt: Attempt): Digests
  /** Makes a network known for a user who has proven it in another way than by sign-in. */
  learnNetwork(
    tx: Transaction,
    user: { companyId: string; userId: string },
    network: string,
    now: number,
  ): Promise<void>
  recognize(known: KnownUntil, digests: Digests, attempt: Attempt): Recognition
  /** Looks up whether a member whose company is known only now comes from a known network or device. */
  lookUp(db: Executor, user: { companyId: string; userId: string }, attempt: Attempt): Promise<Recognition>
}

interface Attempt {
  mode: SessionKind
  /** The device cookie of the request. */
  device: string | undefined
  client: Pick<Client, 'network'>
  now: number
}

/** Until when a network or device that is learnt now stays known. */
export function knownUntil(now: number): Date {
  return new Date(now + KNOWN_MS)
}

export function createKnownClients({ config, system }: Pick<Context, 'config' | 'system'>): KnownClients {
  const keys = config.masterKeys.map(({ key }) => deriveKey(key, 'known networks'))
  const digest = (key: Buffer, text: string) =>
    createHmac('sha256', key).update(text).digest().subarray(0, DIGEST_BYTES)

  const networksOf = (companyId: string, network: string) =>
    keys.map((key) => digest(key, `${companyId} ${network}`))

  const digestsOf = (companyId: string, { client, device }: Attempt) => ({
    networks: networksOf(companyId, client.network),
    device: device === undefined ? null : hashOpaque(device),
  })

  return {
    digestsOf,
    async learnNetwork(tx, { companyId, userId }, network, now) {
      const learns = networksOf(companyId, network)
        .slice(0, 1)
        .map((digest): KnownClient => ({ kind: 'network', digest }))
      await learnClients(tx, companyId, userId, learns, knownUntil(now))
    },

    recognize: (known, digests, attempt) => recognize(system, known, digests, attempt),

    async lookUp(db, { companyId, userId }, attempt) {
      const digests = digestsOf(companyId, attempt)
      return recognize(system, await findKnownUntil(db, companyId, userId, digests), digests, attempt)
    },
  }
}

function recognize(
  system: System,
  { networkKnownUntil, deviceKnownUntil }: KnownUntil,
  digests: Digests,
  { mode, device, now }: Attempt,
): Recognition {
  const isKnown = (until: Date | null) => until !== null && until.getTime() > now
  const isFresh = (until: Date | null) => until !== null && until.getTime() > now + KNOWN_MS - RENEW_AFTER_MS
  const isKnownDevice = isKnown(deviceKnownUntil)
  const learns: KnownClient[] = []
  const [network] = digests.networks
  if (network && !isFresh(networkKnownUntil)) learns.push({ kind: 'network', digest: network })
  // A value that the member's sign-in did not make is replaced: somebody could have planted it.
  const cookie = mode === 'cookie' ? (isKnownDevice && device) || generateOpaque(system.randomBytes) : null
  const deviceDigest = cookie && hashOpaque(cookie)
  if (deviceDigest && !isFresh(deviceKnownUntil)) learns.push({ kind: 'device', digest: deviceDigest })
  return {
    isKnown: isKnownDevice || isKnown(networkKnownUntil),
    device: isKnownDevice ? digests.device?.toString('base64url') : undefined,
    learns,
    cookie,
  }
}
