import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { openConnection } from '../../load-test/database/connection.ts'
import { openClient } from '../../load-test/http-client.ts'
import { obtainSigningKey } from '../../load-test/operations/signing-key.ts'
import type { Cluster } from '../open-cluster.ts'
import { startClients } from './clients.ts'
import { type History, longestGap, newHistory } from './history.ts'

/** One fault under a steady load, and whether what clients were told is what is stored afterwards. */
export interface Outcome {
  fault: string
  secondsWithoutWrite: number
  acknowledged: number
  attempts: number
  /** Attempts that failed and were made again, by status or by the error of the connection. */
  failed: { [what: string]: number }
  violations: string[]
}

const Company = TypeCompiler.Compile(Type.Object({ companyId: Type.String(), password: Type.String() }))
const EMAIL = 'admin@trial.example'
const STEADY_MS = 5_000

/** `restarts` says that the processes of the instances are meant to be started again. */
export async function runTrial(
  cluster: Cluster,
  fault: string,
  { run, restarts = false }: { run: (cluster: Cluster) => Promise<void>; restarts?: boolean },
): Promise<Outcome> {
  const [url = ''] = cluster.urls
  const created: unknown = JSON.parse(
    await cluster.admin('company', 'create', '--name', fault, '--admin-email', EMAIL, '--json'),
  )
  if (!Company.Check(created)) throw new Error('company create printed something else')
  const { companyId, password } = created
  const admin = { companyId, email: EMAIL, password }
  const setUp = openClient(url, { connections: 1 })
  const signingKey = await obtainSigningKey(setUp, admin)
  await setUp.close()

  const history = newHistory()
  const sender = { companyId, signingKey }
  const clients = startClients({ urls: cluster.urls, admin, sender, history })
  await sleep(STEADY_MS)
  const processes = () => cluster.instances.flatMap((instance) => instance.processes()).join()
  const processesBefore = processes()
  const from = performance.now()
  await run(cluster)
  await cluster.healthy()
  await sleep(STEADY_MS)
  const to = performance.now()
  const open = await clients.stop()

  for (const session of history.ended) await clients.requireEnded(session)
  for (const session of open) await clients.requireOneSuccessor(session)
  await clients.close()
  await requireStored(cluster, companyId, history)
  if (!restarts && processes() !== processesBefore) {
    history.violations.push(`processes of instances: ${processesBefore}, then ${processes()}`)
  }
  const during = history.failedAttempts.filter(({ at }) => at >= from)
  return {
    fault,
    secondsWithoutWrite: longestGap(history, from, to),
    acknowledged: history.acknowledgedAt.length,
    attempts: history.attempts,
    failed: countBy(during.map(({ what }) => what)),
    violations: history.violations,
  }
}

async function requireStored(cluster: Cluster, companyId: string, history: History): Promise<void> {
  const connection = await openConnection(cluster.operator.DATABASE_URL)
  try {
    const events = await connection.query<{ id: string }>(
      'select event_id as id from events where company_id = $1',
      [companyId],
    )
    const stored = new Set(events.rows.map(({ id }) => id))
    const lost = history.events.filter((id) => !stored.has(id))
    if (lost.length > 0) history.violations.push(`${lost.length} acknowledged events are not stored`)
    const sessions = await connection.query<{ id: string }>(
      'select session_id as id from sessions where company_id = $1 and ended_at is not null',
      [companyId],
    )
    const ended = new Set(sessions.rows.map(({ id }) => id))
    const alive = history.ended.filter(({ id }) => !ended.has(id))
    if (alive.length > 0) history.violations.push(`${alive.length} acknowledged logouts are not stored`)
  } finally {
    await connection.end()
  }
}

function countBy(all: string[]): { [what: string]: number } {
  const counts: { [what: string]: number } = {}
  for (const one of all) counts[one] = (counts[one] ?? 0) + 1
  return counts
}
