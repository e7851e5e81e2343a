import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { openCompany, takeSessions } from '../database/company.ts'
import { createDatabase, type Postgres } from '../database/postgres.ts'
import { startService } from './start-service.ts'
import type { Target } from './target.ts'

/** Starts a service of so many processes on a new database with this number of sessions. */
export async function startTarget(
  postgres: Postgres,
  { sessions, workers }: { sessions: number; workers: number },
  cleanup: AsyncDisposableStack,
): Promise<Target> {
  const databaseUrl = await createDatabase(postgres, cleanup)
  const settings = {
    databaseUrl,
    masterKeys: `load:${randomBytes(32).toString('base64')}`,
    // Only in tokens, so it need not be the URL that the service listens on.
    publicUrl: 'http://load.example',
  }
  const company = await openCompany(settings, sessions, cleanup)
  const logFile = join(postgres.folder, `${new URL(databaseUrl).pathname.slice(1)}.log`)
  const variables = {
    DATABASE_URL: databaseUrl,
    MASTER_KEYS: settings.masterKeys,
    PUBLIC_URL: settings.publicUrl,
    // Limits are counted as in production, but never reached.
    RATE_LIMIT_SCALE: '1000000',
    WORKERS: String(workers),
  }
  const { url, platformUrl, pid } = await startService({ variables, logFile }, cleanup)
  return {
    url,
    platform: { url: platformUrl, client: await company.operator.createClient() },
    databaseUrl,
    admin: company.admin,
    people: company.people,
    takeSessions: (count, which) => takeSessions(company, count, which),
    servicePid: pid,
    postgresPid: postgres.pid,
  }
}
