import { once } from 'node:events'
import { COMMANDS, carryOut, describe } from './cluster/commands.ts'
import { sendCommand } from './cluster/control.ts'
import { openCluster } from './cluster/open-cluster.ts'
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
       npm run cluster -- kill|freeze|partition [leader|1|2|3]
       npm run cluster -- heal                  undoes these
       npm run cluster -- switchover
       npm run cluster -- stop|start            both instances, for a restore

Three machines with etcd, Patroni and Postgres, each in a network of its own; two instances of the service with two workers,
and the HAProxy of each for its database; two public HAProxy. It needs root and Debian's packages.

\`npm run fault-test -- --cluster\` breaks such a cluster under load, and judges what its clients saw.
`

async function main(): Promise<void> {
  const options = { help: { type: 'boolean' } } as const
  const { values, positionals } = readArgs({ options, allowPositionals: true })
  const [command] = positionals
  if (values.help) console.log(USAGE)
  else if (command === undefined) await untilStopped()
  else if (command in COMMANDS) console.log(await sendCommand(positionals))
  else throw new UsageError(`There is no \`${command}\`.`)
}

/** Leaves nothing behind. */
async function untilStopped(): Promise<void> {
  const signal = abortOnInterrupt()
  await using cleanup = new AsyncDisposableStack()
  await Promise.race([start(signal, cleanup), once(signal, 'abort')])
}

async function start(signal: AbortSignal, cleanup: AsyncDisposableStack): Promise<void> {
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

await runMain('cluster', main)
process.exit()
