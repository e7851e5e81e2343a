import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type Cluster, openCluster } from '../../cluster/open-cluster.ts'
import { ACCESS_TOKEN_TTL_SECONDS, createCompanies, openMailbox, type Site } from './site.ts'

/** Production on one computer: clients come by its two public proxies. */
export interface ClusterTarget extends Site {
  cluster: Cluster
  /** The checkout whose service it was at first; undefined: this one. */
  project: string | undefined
}

interface Options {
  project: string | undefined
  say(line: string): void
  signal: AbortSignal
}

const Made = Type.Object({ companyId: Type.String() })
const Reader = Type.Object({ id: Type.String(), secret: Type.String() })
const EMAIL = 'admin@fault.example'
const PASSWORD = 'four wide blue chairs'

export async function openClusterTarget(
  { project, say, signal }: Options,
  cleanup: AsyncDisposableStack,
): Promise<ClusterTarget> {
  const { url, mails } = await openMailbox(cleanup)
  const variables = { SMTP_URL: url, ACCESS_TOKEN_TTL_SECONDS }
  const cluster = await openCluster({ say, signal, checkout: project, variables }, cleanup)
  await cluster.healthy()
  // By the commands of operators: those of an earlier checkout know its tables.
  async function createCompany() {
    const command = ['company', 'create', '--name', 'Fault test', '--admin-email', EMAIL, '--json']
    const { companyId } = Value.Parse(Made, JSON.parse(await cluster.adminWith(PASSWORD, ...command)))
    return { companyId, email: EMAIL, password: PASSWORD }
  }
  const command = ['client', 'create', '--name', 'Fault test', '--scope', 'events:read', '--json']
  const reader = Value.Parse(Reader, JSON.parse(await cluster.admin(...command)))
  return {
    ...{ cluster, project, reader, mails },
    urls: cluster.urls,
    platformUrls: cluster.platformUrls,
    instances: cluster.instances,
    settle: cluster.healthy,
    companies: await createCompanies({ createCompany }, cluster.operator.DATABASE_URL),
  }
}
