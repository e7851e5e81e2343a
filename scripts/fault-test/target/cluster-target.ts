import { type Cluster, openCluster } from '../../cluster/open-cluster.ts'
import { ACCESS_TOKEN_TTL_SECONDS, createCompanies, openMailbox, type Site } from './site.ts'

export interface ClusterTarget extends Site {
  cluster: Cluster
}

export async function openClusterTarget(
  options: { say(line: string): void; signal: AbortSignal },
  cleanup: AsyncDisposableStack,
): Promise<ClusterTarget> {
  const { url, mails } = await openMailbox(cleanup)
  const variables = { SMTP_URL: url, ACCESS_TOKEN_TTL_SECONDS }
  const cluster = await openCluster({ ...options, variables }, cleanup)
  await cluster.healthy()
  const { DATABASE_URL: databaseUrl, MASTER_KEYS: masterKeys, PUBLIC_URL: publicUrl } = cluster.operator
  return {
    ...(await createCompanies({ databaseUrl, masterKeys, publicUrl })),
    ...{ cluster, mails },
    urls: cluster.urls,
    platformUrls: cluster.platformUrls,
    instances: cluster.instances,
    settle: cluster.healthy,
  }
}
