import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { ask, firstMessage, startChild } from '../kit/child.ts'
import { openClient } from '../kit/client.ts'
import { openCompany } from '../kit/company.ts'
import { openSender, type Sender } from '../kit/events.ts'
import type { Credentials, LiveSession } from '../kit/operations.ts'
import { createDatabase, type Postgres } from '../kit/postgres.ts'
import { startService } from '../kit/service.ts'
import type { PlainReady } from './plain-process.ts'

/** gatehouse or the plain service. Each has its own database on the same Postgres. */
export interface Service {
  url: string
  databaseUrl: string
  pid: number | undefined
  people: Credentials[]
  sender: Sender
  newSessions(count: number): Promise<LiveSession[]>
}

export interface Gatehouse extends Service {
  companyId: string
  platformUrl: string
  platformClient: { id: string; secret: string }
}

const TOKEN_SECONDS = '3600'
/** Created before the measurement. */
const SESSIONS = 10_000

export async function startGatehouse(
  postgres: Postgres,
  workers: number,
  cleanup: AsyncDisposableStack,
): Promise<Gatehouse> {
  const databaseUrl = await createDatabase(postgres, cleanup)
  const masterKeys = `load:${randomBytes(32).toString('base64')}`
  // Only tokens contain it, so it need not be the listener's URL.
  const publicUrl = 'http://load.example'
  const company = await openCompany({ databaseUrl, masterKeys, publicUrl }, cleanup)
  await company.addSessions(SESSIONS, 0)
  const variables = {
    DATABASE_URL: databaseUrl,
    MASTER_KEYS: masterKeys,
    PUBLIC_URL: publicUrl,
    // Limits count as in production, but are never reached.
    RATE_LIMIT_SCALE: '1000000',
    ACCESS_TOKEN_TTL_SECONDS: TOKEN_SECONDS,
    WORKERS: String(workers),
  }
  const logFile = join(postgres.folder, 'gatehouse.log')
  const { url, platformUrl, pid } = await startService({ variables, logFile }, cleanup)
  const client = openClient(url, { connections: 1 })
  cleanup.defer(() => client.close())
  return {
    url,
    databaseUrl,
    pid,
    people: company.people,
    sender: await openSender(client, company.admin),
    newSessions: (count) => company.addSessions(count),
    companyId: company.admin.companyId,
    platformUrl,
    platformClient: await company.operator.createClient(),
  }
}

export async function startPlain(postgres: Postgres, cleanup: AsyncDisposableStack): Promise<Service> {
  const databaseUrl = await createDatabase(postgres, cleanup)
  const file = join(import.meta.dirname, 'plain-process.ts')
  // The same number of threads for argon2 as in `scripts/start`. libuv reads it at the start.
  const variables = {
    DATABASE_URL: databaseUrl,
    UV_THREADPOOL_SIZE: String(availableParallelism() + 2),
  }
  const child = startChild(file, variables, cleanup)
  const { url, companyId, email, password, signingKey } = (await firstMessage(child)) as PlainReady
  return {
    url,
    databaseUrl,
    pid: child.process.pid,
    people: [{ companyId, email, password }],
    sender: { companyId, signingKey: Buffer.from(signingKey, 'base64') },
    async newSessions(count) {
      return (await ask(child, count)) as LiveSession[]
    },
  }
}
