import { once } from 'node:events'
import { COMMANDS, carryOut, describe } from './cluster/commands.ts'
import { sendCommand } from './cluster/control.ts'
import { openCluster } from './cluster/open-cluster.ts'
import { abortOnInterrupt, readArgs, runMain, UsageError } from './kit/command.ts'

/**
 * The cluster: production on one computer, from the files in deploy/. Each file imports only files above it:
 *
 *   programs.ts      Debian packages          network.ts        a network for each machine
 *   supervise.ts     restarts programs        certificates.ts   TLS between machines
 *   machine.ts       etcd, Patroni, Postgres  database.ts       three machines
 *   instance.ts      the service, its proxies control.ts        from other terminals
 *   open-cluster.ts  all of it                commands.ts       faults and repairs
 */

const USAGE = `Usage: npm run cluster                Starts production on one computer until Ctrl+C, and leaves nothing behind
       npm run cluster -- COMMAND     Controls it from a second terminal

Runs three machines with etcd, Patroni, and Postgres, each in its own network, two instances with two workers, each with
an HAProxy for its database, and two public HAProxy. Needs Linux, root, and Debian packages, which it names.

  status                              Shows machines, instances, and proxies
  kill [leader|1|2|3]                 Kills all processes of a machine (default: leader)
  freeze [leader|1|2|3]               Stops all processes of a machine for a while
  partition [leader|1|2|3]            Cuts a machine off from the network
  heal                                Undoes these, and waits until the cluster is healthy
  switchover                          Makes the synchronous standby the primary
  stop, start                         Stops or starts both instances, as for a restore

Examples:
  npm run cluster -- kill leader
  npm run cluster -- heal

\`npm run fault-test -- --cluster\` breaks such a cluster under load, and checks what its clients saw.
`

async function main(): Promise<void> {
  const options = { help: { type: 'boolean' } } as const
  const { values, positionals } = readArgs({ options, allowPositionals: true })
  const [command] = positionals
  if (values.help) console.log(USAGE)
  else if (command === undefined) await untilStopped()
  else if (command in COMMANDS) console.log(await sendCommand(positionals))
  else throw new UsageError(`Unknown command: ${command}.`)
}

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
  console.log('For operator commands, pg_dump, and psql, on the current primary:\n')
  for (const [name, value] of Object.entries(cluster.operator)) console.log(`  export ${name}='${value}'`)
  console.log('\nIn a second terminal, try: npm run cluster -- kill leader. Ctrl+C stops everything.')
  await once(signal, 'abort')
}

await runMain('cluster', main)
process.exit()
