import { setTimeout as sleep } from 'node:timers/promises'
import type { Machine } from '../../cluster/machine.ts'
import type { ClusterTarget } from '../target/cluster-target.ts'
import type { Fault, Lasting } from './fault.ts'

/** What can happen to the cluster. */

/** A primary that says nothing is replaced after 20 s: some come back before that. */
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
    what: 'all processes of Postgres on the primary are killed',
    run: ofPrimary((machine) => machine.signalPostgres('SIGKILL')),
  },
  'machine-killed': {
    what: "all processes of the primary's machine are killed",
    run: ofPrimary((machine) => machine.kill()),
  },
  'machine-frozen': {
    what: "all processes of the primary's machine stop for a while",
    run: ofPrimary((machine) => machine.freeze()),
  },
  'machine-partitioned': {
    what: "the network of the primary's machine is down",
    run: ofPrimary((machine) => machine.cutOff()),
  },
  'machine-isolated': {
    what: "the primary's machine hears nothing of the other two, and is reached by the instances",
    run: ofPrimary((machine) => machine.isolate()),
  },
  'postgres-frozen': {
    what: 'Postgres alone stops on the primary for a while',
    run: ofPrimary((machine) => machine.signalPostgres('SIGSTOP')),
  },
  'patroni-killed': {
    what: 'Patroni alone is killed on the primary, and started again',
    run: ofPrimary(async (machine) => machine.killPatroni()),
  },
  switchover: {
    what: 'the primary hands over to its synchronous standby',
    async run({ cluster: { database } }, _, ms) {
      await database.switchOver()
      await sleep(ms)
    },
  },
  'replication-stalled': {
    what: 'both standbys take nothing',
    async run({ cluster: { database } }, _, ms) {
      const toAll = (signal: NodeJS.Signals) =>
        Promise.all(database.machines.map((machine) => machine.signalPostgres(signal, WALRECEIVER)))
      await toAll('SIGSTOP')
      await sleep(ms)
      await toAll('SIGCONT')
    },
  },
  'etcd-away': {
    what: 'all of etcd stops for a while',
    async run({ cluster: { database } }, _, ms) {
      for (const machine of database.machines) machine.signalEtcd('SIGSTOP')
      await sleep(ms)
      for (const machine of database.machines) machine.signalEtcd('SIGCONT')
    },
  },
  'public-proxy-killed': {
    what: 'one of the public proxies is killed, and starts again later',
    async run({ cluster }, random, ms) {
      const proxy = random.pick(cluster.publicProxies)
      await proxy.stop()
      await sleep(ms)
      proxy.start()
    },
  },
  'database-proxy-killed': {
    what: 'the HAProxy between an instance and its database is killed, and starts again later',
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
