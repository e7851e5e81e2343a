import { openCompany, takeSessions } from '../database/company.ts'
import type { ServiceSettings } from '../database/operator.ts'
import { openClient } from '../http-client.ts'
import type { Credentials, LiveSession } from '../operations/credentials.ts'
import { openSession } from '../operations/sign-in.ts'
import { UsageError } from '../usage-error.ts'
import type { Target } from './target.ts'

/** A service that already runs: with a company of its own if its database is known, else with a given admin. */
export async function joinTarget(
  url: string,
  sessions: number,
  signal: AbortSignal,
  cleanup: AsyncDisposableStack,
): Promise<Target> {
  const { DATABASE_URL, MASTER_KEYS, PUBLIC_URL, COMPANY_ID, EMAIL, PASSWORD } = process.env
  if (DATABASE_URL && MASTER_KEYS) {
    const settings = { databaseUrl: DATABASE_URL, masterKeys: MASTER_KEYS, publicUrl: PUBLIC_URL ?? url }
    return await joinWithDatabase(url, settings, sessions, cleanup)
  }
  if (COMPANY_ID && EMAIL && PASSWORD)
    return joinAsAdmin(url, { companyId: COMPANY_ID, email: EMAIL, password: PASSWORD }, signal)
  throw new UsageError(
    'With --url, set COMPANY_ID, EMAIL and PASSWORD of an admin, or DATABASE_URL and MASTER_KEYS of the service, in the environment.',
  )
}

async function joinWithDatabase(
  url: string,
  settings: ServiceSettings,
  sessions: number,
  cleanup: AsyncDisposableStack,
): Promise<Target> {
  const company = await openCompany(settings, sessions, cleanup)
  return {
    url,
    platform: undefined,
    databaseUrl: settings.databaseUrl,
    admin: company.admin,
    people: company.people,
    takeSessions: (count, which) => takeSessions(company, count, which),
    servicePid: undefined,
    postgresPid: undefined,
  }
}

function joinAsAdmin(url: string, admin: Credentials, signal: AbortSignal): Target {
  return {
    url,
    platform: undefined,
    databaseUrl: undefined,
    admin,
    people: [admin],
    takeSessions: (count) => openSessions(url, admin, count, signal),
    servicePid: undefined,
    postgresPid: undefined,
  }
}

const SIGN_INS_AT_ONCE = 8

async function openSessions(
  url: string,
  credentials: Credentials,
  count: number,
  signal: AbortSignal,
): Promise<LiveSession[]> {
  console.error(`signing in for ${count.toLocaleString('en')} sessions`)
  const client = openClient(url, { connections: SIGN_INS_AT_ONCE })
  const sessions: LiveSession[] = []
  const loops = Array.from({ length: SIGN_INS_AT_ONCE }, async () => {
    while (sessions.length < count && !signal.aborted) sessions.push(await openSession(client, credentials))
  })
  await Promise.all(loops)
  await client.close()
  return sessions.slice(0, count)
}
