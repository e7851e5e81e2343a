import { setTimeout as sleep } from 'node:timers/promises'
import { runStatement } from '../../kit/postgres.ts'
import { sendSignal } from '../../kit/processes.ts'
import type { Disturbance } from '../../kit/tcp-proxy.ts'
import type { Pair } from '../target/pair.ts'
import { canHaveDisks, type SmallDisk } from '../target/small-disk.ts'
import type { Fault, Lasting } from './fault.ts'

export const LASTING: Lasting = { least: 1_500, more: 6_000 }

/** One in this many requests to the database. */
const HIT = 10
const CLOCK_SHIFT_MS = 60_000
const SETTLED_MS = 1_000

const ALWAYS: Record<string, Fault<Pair>> = {
  'postgres-killed': {
    what: 'Kills all processes of Postgres, and restarts it later',
    async run({ database }, _, ms) {
      database.kill()
      await sleep(ms)
      await database.start()
    },
  },
  'postgres-restarted': {
    what: 'Restarts Postgres cleanly',
    async run({ database }) {
      await database.stop()
      await database.start()
    },
  },
  cut: {
    what: 'Cuts connections to the database before, during, or after statements and commits',
    async run(pair, random, ms) {
      for (const when of ['before', 'during', 'after'] as const)
        await disturb(pair, { kind: 'cut', when, isHit: () => random.isOneIn(HIT) }, ms / 3)
    },
  },
  latency: {
    what: 'Delays data to and from the database by 50 to 250 ms',
    run: (pair, random, ms) => disturb(pair, { kind: 'latency', ms: 50 + random.below(200) }, ms),
  },
  'answers-stalled': {
    what: 'Holds back responses of the database, which still gets all data',
    run: (pair, _, ms) => disturb(pair, { kind: 'stall', ways: ['to client'] }, ms),
  },
  'worker-killed': {
    what: 'Kills a worker',
    restarts: true,
    async run({ instances }, random, ms) {
      const [, ...workers] = random.pick(instances).processes()
      sendSignal(random.pick(workers), 'SIGKILL')
      await sleep(ms)
    },
  },
  'instance-killed': {
    what: 'Kills all processes of an instance, and restarts it later',
    restarts: true,
    async run({ instances }, random, ms) {
      const instance = random.pick(instances)
      for (const pid of instance.processes()) sendSignal(pid, 'SIGKILL')
      await instance.stop()
      await sleep(ms)
      await instance.start()
    },
  },
  'rolling-restart': {
    what: 'Restarts one instance after the other with SIGTERM',
    restarts: true,
    async run({ instances }) {
      for (const instance of instances) {
        await instance.stop()
        await instance.start()
        await sleep(SETTLED_MS)
      }
    },
  },
  'clocks-apart': {
    what: 'Sets the clock of an instance off by a minute',
    restarts: true,
    async run({ instances }, random, ms) {
      const instance = random.pick(instances)
      const shiftMs = random.isOneIn(2) ? CLOCK_SHIFT_MS : -CLOCK_SHIFT_MS
      // NODE_OPTIONS is split at spaces.
      const shift = `data:text/javascript,const{now}=Date;Date.now=()=>now()+${shiftMs}`
      await instance.stop()
      await instance.start({ NODE_OPTIONS: `--import=${shift}` })
      await sleep(ms)
      await instance.stop()
      await instance.start()
    },
  },
  'commits-stalled': {
    what: 'Takes the standby away: reads work, commits hang',
    async run({ database }, _, ms) {
      await setStandbys(database.url(), 'none')
      await sleep(ms)
      await setStandbys(database.url(), '')
    },
  },
}

const DISK_FAULTS: Record<string, Fault<Pair>> = {
  'database-disk-full': {
    what: "Fills the database's disk, and frees it later",
    async run({ database, databaseDisk }, _, ms) {
      await fill(databaseDisk, ms)
      // Postgres ends if it cannot write its log (PANIC).
      await database.start()
    },
  },
  'log-disk-full': {
    what: "Fills the disk of the instances' logs, and frees it later",
    run: ({ logDisk }, _, ms) => fill(logDisk, ms),
  },
}

export const FAULTS = { ...ALWAYS, ...(canHaveDisks() && DISK_FAULTS) }

async function disturb({ proxy }: Pair, disturbance: Disturbance, ms: number): Promise<void> {
  proxy.disturb(disturbance)
  await sleep(ms)
  proxy.disturb(null)
}

async function setStandbys(url: string, names: string): Promise<void> {
  await runStatement(url, `alter system set synchronous_standby_names = '${names}'`)
  await runStatement(url, 'select pg_reload_conf()')
}

async function fill(disk: SmallDisk | undefined, ms: number): Promise<void> {
  await disk?.fill()
  await sleep(ms)
  await disk?.free()
}
