import { insertAnalysts } from '../../kit/company.ts'
import type { Instance } from '../../kit/instance.ts'
import { createMailServer } from '../../kit/mail-server.ts'
import type { Credentials } from '../../kit/operations.ts'
import type { Operator } from '../../kit/operator.ts'
import { findPlace } from '../../kit/places.ts'
import { openConnection } from '../../kit/postgres.ts'

/** What clients need of a target, whatever it is made of. */
export interface Site {
  /** The ways to the service, without a path; each is tried. */
  urls: readonly string[]
  /** The same for services of the platform. */
  platformUrls: readonly string[]
  companies: readonly Company[]
  /** A service of the platform, which reads events. */
  reader: { id: string; secret: string }
  /** The email that has come so far. */
  mails: readonly Mail[]
  instances: readonly (Instance & { opsUrl: string })[]
  /** Resolves when all is as before a fault that has been undone. */
  settle(): Promise<void>
}

export interface Company {
  companyId: string
  admin: Credentials
  people: Credentials[]
}

export interface Mail {
  recipient: string
  /** Of its `Message-ID`. */
  id: string
  at: number
  token: string
}

const COMPANIES = 2
/** Of each company. */
const PEOPLE = 6

/** The first token of each session is used again at the end of a run. */
export const ACCESS_TOKEN_TTL_SECONDS = '3600'

/** `databaseUrl`: of the owner of the tables. */
export async function createCompanies(
  { createCompany }: Pick<Operator, 'createCompany'>,
  databaseUrl: string,
): Promise<Company[]> {
  const connection = await openConnection(databaseUrl)
  try {
    const companies: Company[] = []
    for (let n = 0; n < COMPANIES; n += 1) {
      const admin = await createCompany()
      const { companyId } = admin
      const emails = await insertAnalysts(connection, companyId, PEOPLE)
      companies.push({ companyId, admin, people: emails.map((email) => ({ ...admin, email })) })
    }
    return companies
  } finally {
    await connection.end()
  }
}

/** A mail server that keeps what comes. */
export async function openMailbox(cleanup: AsyncDisposableStack): Promise<{ url: string; mails: Mail[] }> {
  const mails: Mail[] = []
  const server = createMailServer({
    ...(await findPlace()),
    onMessage({ recipients, email, token }) {
      const at = performance.now()
      const { messageId: id = '' } = email
      for (const recipient of recipients) mails.push({ recipient, id, at, token })
    },
  })
  await server.start()
  cleanup.defer(() => server.stop())
  return { url: server.url, mails }
}
