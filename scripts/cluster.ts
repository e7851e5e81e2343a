import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { COMMANDS, carryOut, describe } from './cluster/commands.ts'
import { sendCommand } from './cluster/control.ts'
import { openCluster } from './cluster/open-cluster.ts'
import { CLUSTER_LASTING, UPGRADE } from './fault-test/faults/cluster-list.ts'
import { toText } from './fault-test/run/report.ts'
import { runFaults } from './fault-test/run/run-faults.ts'
import { openClusterTarget } from './fault-test/target/cluster-target.ts'
import { checkOut, findCommit, LAST_RELEASE } from './kit/checkout.ts'
import { abortOnInterrupt, readArgs, runMain, UsageError } from './kit/command.ts'

/**
 * The cluster: production on one computer, from the files of deploy/. Imports run one way, each file uses those above it:
 *
 *   programs.ts      Debian's packages       network.ts     a network for each machine
 *   supervise.ts     starts what has ended   machine.ts     etcd, Patroni, Postgres
 *   database.ts      three of them           instance.ts    the service, its proxies
 *   control.ts       from another terminal   open-cluster.ts all of it
 *   commands.ts      what can be done to it
 *
 * What breaks it under load, and judges what its clients saw, is the fault test.
 */

const USAGE = `Usage: npm run cluster                       starts it; Ctrl-C ends it, and nothing stays
       npm run cluster -- status
       npm run cluster -- kill|freeze|partition [leader|standby|1|2|3]
       npm run cluster -- heal                  undoes these
       npm run cluster -- switchover
       npm run cluster -- stop|start            both instances, for a restore
       npm run cluster -- upgrade [COMMIT]

Three machines with etcd, Patroni and Postgres, each in a network of its own; two instances of the service with two workers,
and the HAProxy of each for its database; two public HAProxy. It needs root and Debian's packages.

upgrade starts a cluster of its own, and runs the fault test on it while each instance of COMMIT, by default of the last release
(${LAST_RELEASE}), is replaced by one of this checkout, by one of COMMIT again, and by one of this checkout; the exit status is 1
if what clients saw is not explained. \`npm run fault-test -- --cluster\` breaks such a cluster.
`

async function main(): Promise<void> {
  const options = { help: { type: 'boolean' } } as const
  const { values, positionals } = readArgs({ options, allowPositionals: true })
  const [command, ...rest] = positionals
  if (values.help) console.log(USAGE)
  else if (command === undefined) await untilStopped(start)
  else if (COMMANDS.includes(command)) console.log(await sendCommand(positionals))
  else if (command === 'upgrade') {
    const commit = await readCommit(rest)
    await untilStopped((session) => tryUpgrade(commit, session))
  } else throw new UsageError(`There is no \`${command}\`.`)
}

interface Session {
  cleanup: AsyncDisposableStack
  signal: AbortSignal
}

/** Works until it is done or asked to end, and leaves nothing behind. */
async function untilStopped(work: (session: Session) => Promise<void>): Promise<void> {
  const signal = abortOnInterrupt()
  await using cleanup = new AsyncDisposableStack()
  await Promise.race([work({ cleanup, signal }), once(signal, 'abort')])
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

async function tryUpgrade(commit: string, { cleanup, signal }: Session): Promise<void> {
  const parent = await mkdtemp(join(tmpdir(), 'gatehouse-cluster-'))
  cleanup.defer(() => rm(parent, { recursive: true, force: true }))
  const project = await checkOut(commit, parent, signal)
  const target = await openClusterTarget({ project, say: console.log, signal }, cleanup)
  const options = { seed: commit, seconds: 1, lasting: CLUSTER_LASTING, say: console.log, signal }
  const result = await runFaults(target, { upgrade: UPGRADE }, options, cleanup)
  console.log(toText(result))
  if (result.violations.length > 0) process.exitCode = 1
}

async function readCommit([name = LAST_RELEASE, ...more]: string[]): Promise<string> {
  if (more.length > 0) throw new UsageError('Give one COMMIT.')
  const commit = await findCommit(name)
  if (!commit) throw new UsageError(`This repository has no commit ${name}.`)
  return commit
}

await runMain('cluster', main)
process.exit()
