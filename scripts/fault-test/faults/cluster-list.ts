import { setTimeout as sleep } from 'node:timers/promises'
import type { Machine } from '../../cluster/machine.ts'
import type { ClusterTarget } from '../target/cluster-target.ts'
import type { Fault, Lasting } from './fault.ts'

/** Patroni replaces a silent primary after 20 s. Some come back before that. */
export const CLUSTER_LASTING: Lasting = { least: 10_000, more: 20_000 }

const WALRECEIVER = /walreceiver/

const ofPrimary =
  (begin: (machine: Machine) => Promise<void>): Fault<ClusterTarget>['run'] =>
  async ({ cluster: { database } }, _, ms) => {
    const machine = database.machines[(await database.primary()) - 1]
    if (!machine) throw new Error('there is no such machine')
    try {
      await begin(machine)
      await sleep(ms)
    } finally {
      await machine.heal()
    }
  }

export const CLUSTER_FAULTS: Record<string, Fault<ClusterTarget>> = {
  'postgres-killed': {
    what: 'Kills all processes of Postgres on the primary',
    run: ofPrimary((machine) => machine.signalPostgres('SIGKILL')),
  },
  'machine-killed': {
    what: "Kills all processes of the primary's machine",
    run: ofPrimary((machine) => machine.kill()),
  },
  'machine-frozen': {
    what: "Freezes all processes of the primary's machine",
    run: ofPrimary((machine) => machine.freeze()),
  },
  'machine-partitioned': {
    what: "Takes down the network of the primary's machine",
    run: ofPrimary((machine) => machine.cutOff()),
  },
  'machine-isolated': {
    what: "Cuts the primary's machine off from the other two, but not from the instances",
    run: ofPrimary((machine) => machine.isolate()),
  },
  'postgres-frozen': {
    what: 'Freezes only Postgres on the primary',
    run: ofPrimary((machine) => machine.signalPostgres('SIGSTOP')),
  },
  'patroni-killed': {
    what: 'Kills only Patroni on the primary, and restarts it',
    run: ofPrimary(async (machine) => machine.killPatroni()),
  },
  switchover: {
    what: 'Makes the synchronous standby the primary',
    async run({ cluster: { database } }, _, ms) {
      await database.switchOver()
      await sleep(ms)
    },
  },
  'replication-stalled': {
    what: 'Stops both standbys from receiving the log',
    async run({ cluster: { database } }, _, ms) {
      const toAll = (signal: NodeJS.Signals) =>
        Promise.all(database.machines.map((machine) => machine.signalPostgres(signal, WALRECEIVER)))
      await toAll('SIGSTOP')
      await sleep(ms)
      await toAll('SIGCONT')
    },
  },
  'etcd-away': {
    what: 'Freezes etcd on all machines',
    async run({ cluster: { database } }, _, ms) {
      for (const machine of database.machines) machine.signalEtcd('SIGSTOP')
      await sleep(ms)
      for (const machine of database.machines) machine.signalEtcd('SIGCONT')
    },
  },
  'public-proxy-killed': {
    what: 'Kills a public proxy, and restarts it later',
    async run({ cluster }, random, ms) {
      const proxy = random.pick(cluster.publicProxies)
      await proxy.stop()
      await sleep(ms)
      proxy.start()
    },
  },
  'database-proxy-killed': {
    what: 'Kills the HAProxy between an instance and its database, and restarts it later',
    async run({ cluster: { databaseProxies, readiness } }, random, ms) {
      const n = random.below(databaseProxies.length)
      await databaseProxies[n]?.stop()
      await sleep(ms)
      const ready = await readiness()
      databaseProxies[n]?.start()
      if (ready.some((isReady, index) => isReady === (index === n)))
        throw new Error(`ready without the proxy of ${n + 1}: ${ready.join()}`)
    },
  },
}
