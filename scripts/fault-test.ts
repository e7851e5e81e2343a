import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { CLUSTER_FAULTS, CLUSTER_LASTING } from './fault-test/faults/cluster-list.ts'
import { choose, type Fault } from './fault-test/faults/fault.ts'
import { FAULTS, LASTING } from './fault-test/faults/list.ts'
import type { RunOptions } from './fault-test/run/disturb.ts'
import { toText } from './fault-test/run/report.ts'
import { runFaults } from './fault-test/run/run-faults.ts'
import { openClusterTarget } from './fault-test/target/cluster-target.ts'
import { openPair } from './fault-test/target/pair.ts'
import type { Site } from './fault-test/target/site.ts'
import { abortOnInterrupt, readArgs, readNumber, runMain, UsageError } from './kit/command.ts'

/**
 * The fault test: breaks a real service, records what every client saw, and checks whether some legal order of requests
 * explains it. Each folder of fault-test/ imports only folders above it:
 *
 *   checker/  the history, the rules of each kind of subject, and the search for an order
 *   target/   two instances on one Postgres behind a TCP proxy, or the cluster; and a mail server
 *   clients/  people and programs that send requests
 *   faults/   the faults, and their plan
 *   run/      one run, from the start to the verdict
 */

const USAGE = `Usage: npm run fault-test -- [options]

Injects faults into two instances and one Postgres, then checks that some legal order of the clients' requests explains
everything they saw: no acknowledged event, rotation, logout, secret, or emailed token is lost, doubled, or undone. Also
fails if recovery takes over 5 seconds, or a response over 12 seconds. Exits with status 1 after a failure. Needs Linux.

  --seed TEXT         Repeats a run's faults and random choices (default: a new seed, which is printed)
  --seconds N         Sets the time for faults (default: 60, at most 600); each fault comes at least once
  --faults LIST       Runs only these faults, separated by commas
  --fault-seconds N   Sets the time of each fault (default: 1.5 to 7.5, on the cluster 10 to 30, at random)
  --cluster           Breaks the cluster of \`npm run cluster\` instead, with the faults of the second list

Faults:
${listOf(FAULTS)}

Faults with --cluster:
${listOf(CLUSTER_FAULTS)}

Examples:
  npm run fault-test -- --seconds 120
  npm run fault-test -- --faults latency,cut --seed 1a2b3c4d`

function listOf(faults: Record<string, { what: string }>): string {
  return Object.entries(faults)
    .map(([name, { what }]) => `  ${name.padEnd(21)} ${what}`)
    .join('\n')
}

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean' } as const
const OPTIONS = {
  ...{ seed: TEXT, seconds: { ...TEXT, default: '60' }, faults: TEXT, 'fault-seconds': TEXT },
  ...{ cluster: FLAG, help: FLAG },
}
const SECONDS = { isWhole: true, max: 600 }

/** Null for --help. @throws UsageError */
function readOptions() {
  const { values } = readArgs({ options: OPTIONS })
  if (values.help) return null
  const { seed = randomBytes(4).toString('hex'), cluster = false, 'fault-seconds': fault, faults } = values
  const seconds = readNumber('seconds', values.seconds, SECONDS)
  const usual = cluster ? CLUSTER_LASTING : LASTING
  const lasting =
    fault === undefined ? usual : { least: readNumber('fault-seconds', fault, SECONDS) * 1000, more: 1 }
  const names = faults?.split(',')
  const run = cluster
    ? prepare(openClusterTarget, CLUSTER_FAULTS, names)
    : prepare((_, cleanup) => openPair({}, cleanup), FAULTS, names)
  return { seed, seconds, lasting, run }
}

function prepare<Target extends Site>(
  open: (options: RunOptions, cleanup: AsyncDisposableStack) => Promise<Target>,
  faults: Record<string, Fault<Target>>,
  names?: string[],
) {
  const chosen = choose(faults, names)
  return async (options: RunOptions, cleanup: AsyncDisposableStack) =>
    runFaults(await open(options, cleanup), chosen, options, cleanup)
}

async function main(): Promise<void> {
  const options = readOptions()
  if (!options) return console.log(USAGE)
  if (process.platform !== 'linux') throw new UsageError('The fault test needs Linux.')
  const signal = abortOnInterrupt()
  console.log(`seed ${options.seed}`)
  await using cleanup = new AsyncDisposableStack()
  const running = options.run({ ...options, signal, say: console.log }, cleanup)
  const result = await Promise.race([running, once(signal, 'abort').then(() => null)])
  if (!result) {
    running.catch(() => {})
    console.log('Ended early, so there is no result.')
    process.exitCode = 1
    return
  }
  console.log(`\n${toText(result)}`)
  if (result.violations.length + result.brokenLimits.length > 0) process.exitCode = 1
}

await runMain('fault-test', main)
process.exit()
