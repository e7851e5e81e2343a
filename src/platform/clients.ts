import { timingSafeEqual } from 'node:crypto'
import { Counter } from 'prom-client'
import { createOpaque, type Opaque } from '../crypto/opaque.ts'
import type { Context } from '../http/context.ts'
import type { System } from '../system.ts'
import * as repository from './repository.ts'

/** Who of the platform asks: each process knows all clients, as they were a second ago at most. */

const MAX_AGE_MS = 1_000
const HOUR_MS = 3_600_000

export const SCOPES = ['introspect', 'events:read'] as const
export type Scope = (typeof SCOPES)[number]

/** They name no cell: a service can have one for several of them. */
export function clientSecrets({ randomBytes }: Pick<System, 'randomBytes'>): Opaque {
  return createOpaque(undefined, randomBytes)
}

type Options = Pick<Context, 'db' | 'system' | 'registry'> & { onFailure(cause: unknown): void }

export function createClientCheck({ db, system, registry, onFailure }: Options) {
  const secrets = clientSecrets(system)
  const refused = new Counter({
    name: 'gatehouse_platform_clients_refused_total',
    help: 'Requests of platform clients whose id or secret was wrong',
    registers: [registry],
  })
  let known: { readAt: number; clients: Map<string, repository.ClientWithSecrets> } | undefined
  let reading: Promise<void> | undefined
  /** The hour in which this process has noted a client last. */
  const notedHours = new Map<string, number>()

  async function read(): Promise<void> {
    // Before the statement is sent: what is deleted meanwhile can be in its answer.
    const readAt = system.elapsed()
    const clients = await repository.listClientsWithSecrets(db)
    known = { readAt, clients: new Map(clients.map((client) => [client.id, client])) }
  }

  /** All who wait share one statement. One that began too early for this request is followed by another. */
  async function find(id: string): Promise<repository.ClientWithSecrets | undefined> {
    const since = system.elapsed() - MAX_AGE_MS
    while (!known || known.readAt <= since) {
      reading ??= read().finally(() => {
        reading = undefined
      })
      await reading
    }
    return known.clients.get(id)
  }

  /** No answer waits for it, or fails with it. */
  function noteUse(id: string, now: number): void {
    const hour = Math.floor(now / HOUR_MS)
    if (notedHours.get(id) === hour) return
    notedHours.set(id, hour)
    repository.touchClient(db, id, new Date(hour * HOUR_MS)).catch((cause) => {
      notedHours.delete(id)
      onFailure(cause)
    })
  }

  /** Null for a wrong id or secret, which costs a digest and refuses nobody else. @throws an error of the database */
  return async (id: string, secret: string, now: number) => {
    const client = await find(id)
    const hash = secrets.hash(secret)
    if (!client || !hash || !isOf(client, hash)) {
      refused.inc()
      return null
    }
    noteUse(id, now)
    return client
  }
}

/** Compares with both, so that the time does not tell which it is. */
function isOf({ secretHash, formerSecretHash }: repository.ClientWithSecrets, hash: Buffer): boolean {
  const isCurrent = timingSafeEqual(secretHash, hash)
  const isFormer = timingSafeEqual(formerSecretHash ?? secretHash, hash)
  return isCurrent || isFormer
}
