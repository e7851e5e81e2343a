import { timingSafeEqual } from 'node:crypto'
import { Counter } from 'prom-client'
import { createOpaque, type Opaque } from '../crypto/opaque.ts'
import type { Context } from '../http/context.ts'
import type { System } from '../system.ts'
import * as repository from './repository.ts'

/** Each process keeps all platform clients in memory, at most one second old. */

const MAX_AGE_MS = 1_000
const HOUR_MS = 3_600_000

export const SCOPES = ['introspect', 'events:read'] as const
export type Scope = (typeof SCOPES)[number]

/** Secrets don't name a cell: a platform service can use one in several cells. */
export function clientSecrets({ randomBytes }: Pick<System, 'randomBytes'>): Opaque {
  return createOpaque(undefined, randomBytes)
}

type Options = Pick<Context, 'db' | 'system' | 'registry'> & { onFailure(cause: unknown): void }

export function createClientCheck({ db, system, registry, onFailure }: Options) {
  const secrets = clientSecrets(system)
  const refused = new Counter({
    name: 'gatehouse_platform_clients_refused_total',
    help: 'Requests of platform clients with a wrong ID or secret',
    registers: [registry],
  })
  let known: { readAt: number; clients: Map<string, repository.ClientWithSecrets> } | undefined
  let reading: Promise<void> | undefined
  const notedHours = new Map<string, number>()

  async function read(): Promise<void> {
    // Taken before the statement is sent: its result can still have a client that is deleted in the meantime.
    const readAt = system.elapsed()
    const clients = await repository.listClientsWithSecrets(db)
    known = { readAt, clients: new Map(clients.map((client) => [client.id, client])) }
  }

  /** Concurrent requests share a statement. If it began too early for this request, the loop reads again. */
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

  /** Not awaited: a response neither waits for this write nor fails with it. */
  function noteUse(id: string, now: number): void {
    const hour = Math.floor(now / HOUR_MS)
    if (notedHours.get(id) === hour) return
    notedHours.set(id, hour)
    repository.touchClient(db, id, new Date(hour * HOUR_MS)).catch((cause) => {
      notedHours.delete(id)
      onFailure(cause)
    })
  }

  /** Null for a wrong id or secret. A guess costs one digest and locks nobody out. @throws database errors */
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

/** Always compares with both, so that timing doesn't reveal which one matches. */
function isOf({ secretHash, formerSecretHash }: repository.ClientWithSecrets, hash: Buffer): boolean {
  const isCurrent = timingSafeEqual(secretHash, hash)
  const isFormer = timingSafeEqual(formerSecretHash ?? secretHash, hash)
  return isCurrent || isFormer
}
