import { insertAnalysts } from '../../kit/company.ts'
import { createMailServer, type MailServer } from '../../kit/mail-server.ts'
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
  /** That of those whose history is not noted. */
  crowd: Company
  /** Makes a service of the platform, which reads events. */
  reader(): Promise<{ id: string; secret: string }>
  mail: Mailbox
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

export interface Mailbox extends MailServer {
  mails: readonly Mail[]
}

export interface Size {
  companies: number
  /** Of each company. */
  people: number
}

/** The first token of each session is used again at the end of a run. */
export const ACCESS_TOKEN_TTL_SECONDS = '3600'

/** `databaseUrl`: of the owner of the tables. */
export async function createCompanies(
  operator: Pick<Operator, 'createCompany'>,
  databaseUrl: string,
  { companies: count, people }: Size,
): Promise<Pick<Site, 'companies' | 'crowd'>> {
  const connection = await openConnection(databaseUrl)
  try {
    const companies: Company[] = []
    while (companies.length <= count) {
      const admin = await operator.createCompany()
      const { companyId } = admin
      // No two companies have a member in common: a mail says nothing of its company.
      const emails = await insertAnalysts(connection, companyId, people * (companies.length + 1))
      const own = emails.slice(-people).map((email) => ({ ...admin, email }))
      companies.push({ companyId, admin, people: own })
    }
    const [crowd, ...others] = companies
    if (!crowd) throw new Error('there is a company at least')
    return { companies: others, crowd }
  } finally {
    await connection.end()
  }
}

/** A mail server that keeps what comes. */
export async function openMailbox(cleanup: AsyncDisposableStack): Promise<Mailbox> {
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
  return { ...server, mails }
}
