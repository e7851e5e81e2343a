import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { COMMANDS, carryOut, describe } from './cluster/commands.ts'
import { sendCommand } from './cluster/control.ts'
import { openCluster } from './cluster/open-cluster.ts'
import { FAULTS, rollingUpgrade } from './cluster/trial/faults.ts'
import { type Outcome, runTrial } from './cluster/trial/run-trial.ts'
import { UsageError } from './load-test/usage-error.ts'
import { checkOut, findCommit, LAST_RELEASE } from './upgrade-test/checkout.ts'

/**
 * The cluster: production on one computer, from the files of deploy/. Imports run one way, each file uses those above it:
 *
 *   programs.ts      Debian's packages       network.ts     a network for each machine
 *   supervise.ts     starts what has ended   machine.ts     etcd, Patroni, Postgres
 *   database.ts      three of them           instance.ts    the service, its proxies
 *   control.ts       from another terminal   open-cluster.ts all of it
 *   commands.ts      what can be done to it
 *   trial/           faults under load, and whether what clients were told is stored
 */

const USAGE = `Usage: npm run cluster                       starts it; Ctrl-C ends it, and nothing stays
       npm run cluster -- status
       npm run cluster -- kill|freeze|partition [leader|standby|1|2|3]
       npm run cluster -- heal                  undoes these
       npm run cluster -- switchover
       npm run cluster -- stop|start            both instances, for a restore
       npm run cluster -- try [FAULT…] [--times N]
       npm run cluster -- upgrade [COMMIT] [--times N]

Three machines with etcd, Patroni and Postgres, each in a network of its own; two instances of the service with two workers,
and the HAProxy of each for its database; two public HAProxy. It needs root and Debian's packages.

try starts a cluster of its own, puts a steady load on it, and does each FAULT to it, by default all of them, N times (1).
Afterwards it compares what clients were told with what is stored; the exit status is 1 if something was lost. upgrade does
the same while each instance of COMMIT, by default of the last release (${LAST_RELEASE}), is replaced by one of this
checkout, and then by one of COMMIT again.

${Object.entries(FAULTS)
  .map(([name, { what }]) => `  ${name.padEnd(22)} ${what}`)
  .join('\n')}
`

async function main(): Promise<void> {
  const { help, times, words } = readOptions()
  const [command, ...rest] = words
  if (help) console.log(USAGE)
  else if (command === undefined) await untilStopped(start)
  else if (COMMANDS.includes(command)) console.log(await sendCommand(words))
  else if (command === 'try') {
    const faults = readFaults(rest)
    await untilStopped((session) => tryFaults(faults, times, session))
  } else if (command === 'upgrade') {
    const commit = await readCommit(rest)
    await untilStopped((session) => tryUpgrade(commit, times, session))
  } else throw new UsageError(`There is no \`${command}\`.`)
}

function readOptions() {
  try {
    const options = {
      help: { type: 'boolean', default: false },
      times: { type: 'string', default: '1' },
    } as const
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    const times = Number(values.times)
    if (!Number.isInteger(times) || times < 1 || times > 100)
      throw new Error('--times takes a number from 1 to 100.')
    return { help: values.help, times, words: positionals }
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function stopSignal(): AbortSignal {
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => stop.abort(name))
  return stop.signal
}

interface Session {
  cleanup: AsyncDisposableStack
  signal: AbortSignal
}

/** Works until it is done or asked to end, and leaves nothing behind. */
async function untilStopped(work: (session: Session) => Promise<void>): Promise<void> {
  const signal = stopSignal()
  await using cleanup = new AsyncDisposableStack()
  await Promise.race([work({ cleanup, signal }), once(signal, 'abort')])
  if (signal.aborted) console.log('Ending …')
}

async function start({ cleanup, signal }: Session): Promise<void> {
  const cluster = await openCluster({ say: console.log, signal }, cleanup)
  await cluster.healthy()
  cluster.accept((words) => carryOut(cluster, words))
  const acme = ['--name', 'Acme', '--admin-email', 'ada@acme.example']
  const company = await cluster.admin('company', 'create', ...acme)
  console.log(`\n${await describe(cluster)}\n\n${company}\nFiles and logs: ${cluster.folder}`)
  console.log('For operators, on the primary of the moment, and for pg_dump and psql:\n')
  for (const [name, value] of Object.entries(cluster.operator)) console.log(`  export ${name}=${value}`)
  console.log('\nIn another terminal: npm run cluster -- kill leader. Ctrl-C ends all of it.')
  await once(signal, 'abort')
}

async function tryFaults(names: string[], times: number, { cleanup, signal }: Session): Promise<void> {
  const cluster = await openCluster({ say: console.log, signal }, cleanup)
  await cluster.healthy()
  for (const name of names) {
    const fault = FAULTS[name]
    for (let time = 0; fault && time < times; time += 1) report(await runTrial(cluster, name, fault))
  }
}

async function tryUpgrade(commit: string, times: number, { cleanup, signal }: Session): Promise<void> {
  const parent = await mkdtemp(join(tmpdir(), 'gatehouse-cluster-'))
  cleanup.defer(() => rm(parent, { recursive: true, force: true }))
  const checkout = await checkOut(commit, parent, signal)
  const cluster = await openCluster({ say: console.log, signal, checkout }, cleanup)
  await cluster.healthy()
  const upgrade = { run: rollingUpgrade(checkout), restarts: true }
  for (let time = 0; time < times; time += 1) report(await runTrial(cluster, 'upgrade', upgrade))
}

/** All of them by default. @throws UsageError for one that does not exist */
function readFaults(names: string[]): string[] {
  const unknown = names.filter((name) => !(name in FAULTS))
  if (unknown.length > 0) throw new UsageError(`There is no fault ${unknown.join(', ')}.`)
  return names.length > 0 ? names : Object.keys(FAULTS)
}

async function readCommit([name = LAST_RELEASE, ...more]: string[]): Promise<string> {
  if (more.length > 0) throw new UsageError('Give one COMMIT.')
  const commit = await findCommit(name)
  if (!commit) throw new UsageError(`This repository has no commit ${name}.`)
  return commit
}

function report(outcome: Outcome): void {
  console.log(toText(outcome))
  if (outcome.violations.length > 0) process.exitCode = 1
}

function toText({ fault, secondsWithoutWrite, acknowledged, attempts, failed, violations }: Outcome): string {
  const failures = Object.entries(failed).map(([what, count]) => `${what} ${count}`)
  return [
    `${fault}: ${secondsWithoutWrite.toFixed(1)} s without a write; ${acknowledged} changes acknowledged,`,
    `${attempts} attempts, of which failed: ${failures.join(', ') || 'none'};`,
    violations.length === 0 ? 'nothing lost' : `VIOLATED:\n  ${violations.slice(0, 10).join('\n  ')}`,
  ].join(' ')
}

await main().catch((error: unknown) => {
  console.error(error instanceof UsageError ? error.message : error)
  process.exitCode = 1
})
process.exit()
