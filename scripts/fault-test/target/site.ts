import { type Company, openCompany } from '../../kit/company.ts'
import type { Instance } from '../../kit/instance.ts'
import { createMailServer } from '../../kit/mail-server.ts'
import type { ServiceSettings } from '../../kit/operator.ts'
import { findPlace } from '../../kit/places.ts'

export interface Site {
  urls: readonly string[]
  platformUrls: readonly string[]
  companies: readonly Pick<Company, 'admin' | 'people'>[]
  reader: { id: string; secret: string }
  mails: readonly Mail[]
  instances: readonly Instance[]
  /** Resolves when the target has recovered from a fault. */
  settle(): Promise<void>
}

export interface Mail {
  recipient: string
  /** From `Message-ID`. */
  id: string
  at: number
  token: string
}

const PEOPLE = 6

/** The first token of each session is used again at the end of a run. */
export const ACCESS_TOKEN_TTL_SECONDS = '3600'

/** `settings`: of an operator. */
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
