import { type Company, openCompany } from '../../kit/company.ts'
import type { Instance } from '../../kit/instance.ts'
import { createMailServer } from '../../kit/mail-server.ts'
import type { ServiceSettings } from '../../kit/operator.ts'
import { findPlace } from '../../kit/places.ts'

/** What clients need of a target, whatever it is made of. */
export interface Site {
  /** The ways to the service, without a path; each is tried. */
  urls: readonly string[]
  /** The same for services of the platform. */
  platformUrls: readonly string[]
  companies: readonly Pick<Company, 'admin' | 'people'>[]
  /** A service of the platform, which reads events. */
  reader: { id: string; secret: string }
  /** The email that has come so far. */
  mails: readonly Mail[]
  instances: readonly Instance[]
  /** Resolves when all is as before a fault that has been undone. */
  settle(): Promise<void>
}

export interface Mail {
  recipient: string
  /** Of its `Message-ID`. */
  id: string
  at: number
  token: string
}

/** Of each of two companies. */
const PEOPLE = 6

/** The first token of each session is used again at the end of a run. */
export const ACCESS_TOKEN_TTL_SECONDS = '3600'

/** `settings`: with the owner of the tables. */
export async function createCompanies(
  settings: ServiceSettings,
): Promise<Pick<Site, 'companies' | 'reader'>> {
  await using cleanup = new AsyncDisposableStack()
  const one = await openCompany(settings, cleanup)
  const other = await openCompany(settings, cleanup)
  return {
    companies: [one, other].map(({ admin, people }) => ({ admin, people: people.slice(0, PEOPLE) })),
    reader: await one.operator.createClient(['events:read']),
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
