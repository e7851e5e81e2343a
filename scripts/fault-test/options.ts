import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { UsageError } from '../kit/errors.ts'
import { CLUSTER_FAULTS } from './faults/cluster-list.ts'
import { FAULTS, possibleFaults } from './faults/list.ts'

export const USAGE = `Usage: npm run fault-test -- [options]

Runs two instances of the service on a Postgres of their own, breaks them, and lets a checker decide afterwards whether any
legal order of what clients did explains what they saw: no acknowledged event, rotation, logout, secret, or mailed token is
lost, doubled, or undone, and all else was answered 503 or not at all. Beside these clients, 500 wait. Limits: back within
5 s, each answer within 12 and of /livez within one, 350 MB for a process, and what waits for a hash. The exit status is 1
if something is not explained, or a limit is broken.

  --seed TEXT         makes the same faults again, and clients that choose by the same numbers (a new one)
  --seconds N         how long faults come and go (60), 600 at most
  --workers N         processes of each instance that answer (1; on the cluster 2, the most)
  --faults LIST       comma-separated; all by default
  --fault-seconds N   how long each fault lasts (at random: some seconds; on the cluster 10 to 30)
  --cluster           breaks what \`npm run cluster\` starts, by the faults of the second list
  --overlap           a second series of faults beside the first
  --service DIR       the service of another checkout of the project

${listOf(FAULTS)}

With --cluster:

${listOf(CLUSTER_FAULTS)}`

function listOf(faults: Record<string, { what: string }>): string {
  return Object.entries(faults)
    .map(([name, { what }]) => `  ${name.padEnd(21)} ${what}`)
    .join('\n')
}

export interface Options {
  seed: string
  seconds: number
  isCluster: boolean
  workers: number
  faultSeconds: number | undefined
  faults: readonly string[]
  isOverlapping: boolean
  project: string | undefined
}

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const values = parseValues(args)
  if (values.help) return null
  const {
    seed = randomBytes(4).toString('hex'),
    service,
    overlap = false,
    cluster = false,
    'fault-seconds': fault,
  } = values
  if (overlap && cluster) throw new UsageError('on the cluster, faults come one at a time')
  const possible = cluster ? Object.keys(CLUSTER_FAULTS) : possibleFaults()
  const faults = values.faults?.split(',') ?? possible
  const unknown = faults.filter((name) => !(name in (cluster ? CLUSTER_FAULTS : FAULTS)))
  if (unknown.length > 0) throw new UsageError(`there is no fault ${unknown.join(', ')}`)
  const impossible = faults.filter((name) => !possible.includes(name))
  if (impossible.length > 0) throw new UsageError(`${impossible.join(', ')}: only root can do this`)
  if (service !== undefined && !existsSync(join(service, 'scripts/start')))
    throw new UsageError(`--service must be a checkout of the project, not ${service}`)
  return {
    seed,
    seconds: wholeNumber('seconds', values.seconds, 600),
    isCluster: cluster,
    workers: wholeNumber('workers', values.workers ?? (cluster ? '2' : '1'), cluster ? 2 : 16),
    faultSeconds: fault === undefined ? undefined : wholeNumber('fault-seconds', fault, 600),
    faults,
    isOverlapping: overlap,
    project: service === undefined ? undefined : resolve(service),
  }
}

function parseValues(args: string[]) {
  const text = { type: 'string' } as const
  try {
    return parseArgs({
      args,
      options: {
        seed: text,
        seconds: { ...text, default: '60' },
        workers: text,
        faults: text,
        'fault-seconds': text,
        cluster: { type: 'boolean' },
        overlap: { type: 'boolean' },
        service: text,
        help: { type: 'boolean' },
      },
    }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function wholeNumber(name: string, text: string, most: number): number {
  const value = Number(text)
  if (Number.isInteger(value) && value > 0 && value <= most) return value
  throw new UsageError(`--${name} must be a whole number from 1 to ${most}, not ${text}`)
}
