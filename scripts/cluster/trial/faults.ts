import { setTimeout as sleep } from 'node:timers/promises'
import type { Machine } from '../machine.ts'
import type { Cluster } from '../open-cluster.ts'

/** What can happen to a cluster, one at a time. Each resolves when what it did has been undone. */
type Fault = (cluster: Cluster) => Promise<void>

/** Longer than the 20 s after which a primary is replaced that says nothing. */
const AWAY_MS = 30_000
const STALLED_MS = 15_000
const PROXY_AWAY_MS = 10_000
/** So that both proxies use an instance again. */
const SETTLED_MS = 5_000

async function primaryOf({ database }: Cluster): Promise<Machine> {
  const n = await database.primary()
  const machine = database.machines[n - 1]
  if (!machine) throw new Error(`there is no machine ${n}`)
  return machine
}

const ofPrimary =
  (begin: (machine: Machine) => Promise<void>, forMs: number): Fault =>
  async (cluster) => {
    const machine = await primaryOf(cluster)
    await begin(machine)
    await sleep(forMs)
    await machine.heal()
  }

const WALRECEIVER = /walreceiver/

export const FAULTS: Record<string, { what: string; run: Fault }> = {
  'postgres-killed': {
    what: 'all processes of Postgres on the primary are killed',
    run: ofPrimary((machine) => machine.signalPostgres('SIGKILL'), AWAY_MS),
  },
  'machine-killed': {
    what: "all processes of the primary's machine are killed",
    run: ofPrimary((machine) => machine.kill(), AWAY_MS),
  },
  'machine-frozen': {
    what: "all processes of the primary's machine stop for 30 s",
    run: ofPrimary((machine) => machine.freeze(), AWAY_MS),
  },
  'machine-partitioned': {
    what: "the network of the primary's machine is down for 30 s",
    run: ofPrimary((machine) => machine.cutOff(), AWAY_MS),
  },
  'machine-isolated': {
    what: "the primary's machine hears nothing of the other two for 30 s, and is reached by the instances",
    run: ofPrimary((machine) => machine.isolate(), AWAY_MS),
  },
  'postgres-frozen': {
    what: 'Postgres alone stops on the primary for 30 s, longer than ttl',
    run: ofPrimary((machine) => machine.signalPostgres('SIGSTOP'), AWAY_MS),
  },
  'patroni-killed': {
    what: 'Patroni alone is killed on the primary, and started again',
    run: ofPrimary(async (machine) => machine.killPatroni(), STALLED_MS),
  },
  switchover: {
    what: 'the primary hands over to its synchronous standby',
    async run({ database }) {
      await database.switchOver()
      await sleep(STALLED_MS)
    },
  },
  'replication-stalled': {
    what: 'both standbys take nothing for 15 s',
    async run({ database: { machines } }) {
      await Promise.all(machines.map((machine) => machine.signalPostgres('SIGSTOP', WALRECEIVER)))
      await sleep(STALLED_MS)
      await Promise.all(machines.map((machine) => machine.signalPostgres('SIGCONT', WALRECEIVER)))
    },
  },
  'etcd-away': {
    what: 'all of etcd stops for 30 s',
    async run({ database: { machines } }) {
      for (const machine of machines) machine.signalEtcd('SIGSTOP')
      await sleep(AWAY_MS)
      for (const machine of machines) machine.signalEtcd('SIGCONT')
    },
  },
  'public-proxy-killed': {
    what: 'one of the public proxies is away for 10 s',
    async run({ publicProxies: [proxy] }) {
      await proxy?.stop()
      await sleep(PROXY_AWAY_MS)
      proxy?.start()
    },
  },
  'database-proxy-killed': {
    what: 'the HAProxy between an instance and its database is away for 10 s',
    async run({ databaseProxies: [proxy], readiness }) {
      await proxy?.stop()
      await sleep(PROXY_AWAY_MS)
      const ready = (await readiness()).filter(({ isReady }) => isReady).map(({ name }) => name)
      proxy?.start()
      if (ready.join() !== 'instance-2') throw new Error(`ready meanwhile: ${ready.join() || 'none'}`)
    },
  },
}

/**
 * Of a cluster whose instances are those of a checkout: each is replaced by that of this one, and then by the earlier one
 * again.
 */
export const rollingUpgrade =
  (checkout: string): Fault =>
  async (cluster) => {
    await cluster.migrate()
    for (const next of [undefined, checkout]) {
      for (const instance of cluster.instances) {
        await instance.stop()
        await instance.start(next)
        await cluster.healthy()
        await sleep(SETTLED_MS)
      }
    }
  }
