import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { postgresOf } from '../../cluster/machine.ts'
import { MACHINES } from '../../cluster/network.ts'
import { type Cluster, openCluster } from '../../cluster/open-cluster.ts'
import { ACCESS_TOKEN_TTL_SECONDS, createCompanies, openMailbox, type Site, type Size } from './site.ts'
import { watchDatabase } from './watch-database.ts'

/** Production on one computer: clients come by its two public proxies. */
export interface ClusterTarget extends Site {
  cluster: Cluster
  /** The checkout whose service it was at first; undefined: this one. */
  project: string | undefined
  /** When its primary of the moment acknowledged a write that came by no proxy. */
  databaseWrites: readonly number[]
}

interface Options {
  workers: number
  size: Size
  /** The checkout whose service it is; this one by default. */
  project: string | undefined
  say(line: string): void
  signal: AbortSignal
}

const Made = TypeCompiler.Compile(Type.Object({ companyId: Type.String() }))
const Reader = TypeCompiler.Compile(Type.Object({ id: Type.String(), secret: Type.String() }))
const EMAIL = 'admin@fault.example'
const PASSWORD = 'four wide blue chairs'

export async function openClusterTarget(
  { workers, size, project, say, signal }: Options,
  cleanup: AsyncDisposableStack,
): Promise<ClusterTarget> {
  const mail = await openMailbox(cleanup)
  const variables = { SMTP_URL: mail.url, WORKERS: String(workers), ACCESS_TOKEN_TTL_SECONDS }
  const cluster = await openCluster({ say, signal, checkout: project, variables }, cleanup)
  await cluster.healthy()
  async function admin(...command: string[]): Promise<unknown> {
    return JSON.parse(await cluster.admin(...command, '--json'))
  }
  async function createCompany() {
    const command = ['company', 'create', '--name', 'Fault test', '--admin-email', EMAIL, '--json']
    const made: unknown = JSON.parse(await cluster.adminWith(PASSWORD, ...command))
    if (!Made.Check(made)) throw new Error('company create printed something else')
    return { companyId: made.companyId, email: EMAIL, password: PASSWORD }
  }
  const { DATABASE_URL: url } = cluster.operator
  const urls = MACHINES.map((n) => Object.assign(new URL(url), { host: postgresOf(n) }).href)
  return {
    cluster,
    project,
    databaseWrites: watchDatabase(urls, cleanup),
    mail,
    urls: cluster.urls,
    platformUrls: cluster.platformUrls,
    ...(await createCompanies({ createCompany }, cluster.operator.DATABASE_URL, size)),
    async reader() {
      const made = await admin('client', 'create', '--name', 'Fault test', '--scope', 'events:read')
      if (!Reader.Check(made)) throw new Error('client create printed something else')
      return made
    },
  }
}
