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
 * The fault test: runs the real thing, breaks it, notes what every client saw, and lets a checker decide whether any legal
 * order explains it. Imports run one way: each folder of fault-test/ uses only those above it.
 *
 *   checker/  the history, the rule of each kind of subject, and the search for an order
 *   target/   two instances of the service on one Postgres, by a proxy of ours, or the cluster; and a mail server
 *   clients/  what people and servers do
 *   faults/   what happens in the meantime, and when
 *   run/      one run, from the start to the verdict
 */

const USAGE = `Usage: npm run fault-test -- [options]

Runs two instances of the service on their own Postgres, breaks them, and lets a checker decide afterwards whether any legal
order of what clients did explains what they saw: no acknowledged event, rotation, logout, secret, or emailed token is lost,
doubled, or undone, and all else was answered 503 or not at all. Limits: back within 5 s, and each answer within 12. The exit
status is 1 if something is not explained, or a limit is broken.

  --seed TEXT         makes the same faults again, and clients that choose by the same numbers (a new one)
  --seconds N         how long faults come and go (60), 600 at most; each comes once at least
  --faults LIST       comma-separated; all by default
  --fault-seconds N   how long each fault lasts (at random: some seconds; on the cluster 10 to 30)
  --cluster           breaks what \`npm run cluster\` starts, by the faults of the second list

${listOf(FAULTS)}

With --cluster:

${listOf(CLUSTER_FAULTS)}`

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
  // What was opened is closed, whatever it is doing.
  const result = await Promise.race([running, once(signal, 'abort').then(() => null)])
  if (!result) {
    running.catch(() => {})
    console.log('Ended early, so this shows nothing.')
    process.exitCode = 1
    return
  }
  console.log(`\n${toText(result)}`)
  if (result.violations.length + result.brokenLimits.length > 0) process.exitCode = 1
}

await runMain('fault-test', main)
process.exit()
