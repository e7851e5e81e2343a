import { PEOPLE } from '../clients/start-clients.ts'
import { CLUSTER_FAULTS, UPGRADE } from '../faults/cluster-list.ts'
import { bind, type Fault } from '../faults/fault.ts'
import { FAULTS } from '../faults/list.ts'
import type { Lasting } from '../faults/plan.ts'
import { type ClusterTarget, openClusterTarget } from '../target/open-cluster-target.ts'
import { openTarget } from '../target/open-target.ts'
import type { Site } from '../target/site.ts'
import type { Watched } from './watch.ts'

/** What a run needs of its target, whatever that is made of. */
export interface Stage {
  site: Site
  watched: readonly Watched[]
  /** Processes of each of these that answer. */
  workers: number
  faults: Record<string, Fault>
  lasting: Lasting
  /** When the database acknowledged a write past the service; empty where it is there as soon as a fault is undone. */
  databaseWrites: readonly number[]
  /** Resolves when the target is as before a fault that has been undone. */
  settle(): Promise<void>
}

export interface StageOptions {
  /** The cluster, in place of two instances on one Postgres. */
  isCluster: boolean
  workers: number
  /** The project whose service it is; this one by default. */
  project: string | undefined
  /** How long each fault lasts; by default at random. */
  faultSeconds: number | undefined
  say(line: string): void
  signal: AbortSignal
}

export const SIZE = { companies: 2, people: PEOPLE }
const LASTING = { least: 1_500, more: 6_000 }
/** A primary that says nothing is replaced after 20 s: some come back before that. */
const CLUSTER_LASTING = { least: 10_000, more: 20_000 }

export async function openStage(
  { isCluster, faultSeconds, ...options }: StageOptions,
  cleanup: AsyncDisposableStack,
): Promise<Stage> {
  const open = isCluster ? openClusterStage : openPair
  const stage = await open(options, cleanup)
  return faultSeconds === undefined ? stage : { ...stage, lasting: { least: faultSeconds * 1_000, more: 1 } }
}

type Opening = Omit<StageOptions, 'isCluster' | 'faultSeconds'>

async function openPair(options: Opening, cleanup: AsyncDisposableStack): Promise<Stage> {
  const target = await openTarget({ ...options, size: SIZE }, cleanup)
  return {
    site: target,
    watched: target.instances,
    workers: options.workers,
    faults: bind(FAULTS, target),
    lasting: LASTING,
    databaseWrites: [],
    settle: async () => {},
  }
}

async function openClusterStage(options: Opening, cleanup: AsyncDisposableStack): Promise<Stage> {
  return stageOf(await openClusterTarget({ ...options, size: SIZE }, cleanup), options.workers)
}

export function stageOf(target: ClusterTarget, workers: number): Stage {
  return {
    site: target,
    watched: target.cluster.instances,
    workers,
    faults: bind({ ...CLUSTER_FAULTS, upgrade: UPGRADE }, target),
    lasting: CLUSTER_LASTING,
    databaseWrites: target.databaseWrites,
    settle: target.cluster.healthy,
  }
}
