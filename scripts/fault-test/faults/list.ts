import { setTimeout as sleep } from 'node:timers/promises'
import { runStatement } from '../../kit/postgres.ts'
import { sendSignal } from '../../kit/processes.ts'
import type { Disturbance } from '../../kit/tcp-proxy.ts'
import type { Pair } from '../target/pair.ts'
import { canHaveDisks, type SmallDisk } from '../target/small-disk.ts'
import type { Fault, Lasting } from './fault.ts'

/** What can happen to two instances on one Postgres: one fault of each kind. */

export const LASTING: Lasting = { least: 1_500, more: 6_000 }

/** One in so many requests to the database. */
const HIT = 10
const CLOCK_SHIFT_MS = 60_000
const SETTLED_MS = 1_000

const ALWAYS: Record<string, Fault<Pair>> = {
  'postgres-killed': {
    what: 'all processes of Postgres are killed, and it starts again later',
    async run({ database }, _, ms) {
      database.kill()
      await sleep(ms)
      await database.start()
    },
  },
  'postgres-restarted': {
    what: 'Postgres is restarted in order',
    async run({ database }) {
      await database.stop()
      await database.start()
    },
  },
  cut: {
    what: 'connections to the database are cut before, during, or after statements and commits',
    async run(pair, random, ms) {
      for (const when of ['before', 'during', 'after'] as const)
        await disturb(pair, { kind: 'cut', when, isHit: () => random.isOneIn(HIT) }, ms / 3)
    },
  },
  latency: {
    what: 'data to and from the database is late by 50 to 250 ms',
    run: (pair, random, ms) => disturb(pair, { kind: 'latency', ms: 50 + random.below(200) }, ms),
  },
  'answers-stalled': {
    what: 'nothing comes back from the database, which gets everything',
    run: (pair, _, ms) => disturb(pair, { kind: 'stall', ways: ['to client'] }, ms),
  },
  'worker-killed': {
    what: 'a worker is killed',
    restarts: true,
    async run({ instances }, random, ms) {
      const [, ...workers] = random.pick(instances).processes()
      sendSignal(random.pick(workers), 'SIGKILL')
      await sleep(ms)
    },
  },
  'instance-killed': {
    what: 'all processes of an instance are killed, and it starts again later',
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
    what: 'each instance is restarted by SIGTERM, one after the other',
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
    what: 'an instance runs with a clock that is wrong by a minute',
    restarts: true,
    async run({ instances }, random, ms) {
      const instance = random.pick(instances)
      const shiftMs = random.isOneIn(2) ? CLOCK_SHIFT_MS : -CLOCK_SHIFT_MS
      // Without a space, at which NODE_OPTIONS would be split.
      const shift = `data:text/javascript,const{now}=Date;Date.now=()=>now()+${shiftMs}`
      await instance.stop()
      await instance.start({ NODE_OPTIONS: `--import=${shift}` })
      await sleep(ms)
      await instance.stop()
      await instance.start()
    },
  },
  'commits-stalled': {
    what: 'the database answers reads, and acknowledges no commit: its standby is away',
    async run({ database }, _, ms) {
      await setStandbys(database.url(), 'none')
      await sleep(ms)
      await setStandbys(database.url(), '')
    },
  },
}

/** Only root can have small disks. */
const DISK_FAULTS: Record<string, Fault<Pair>> = {
  'database-disk-full': {
    what: "the database's disk is full, and then freed",
    async run({ database, databaseDisk }, _, ms) {
      await fill(databaseDisk, ms)
      // It ends where it cannot write its log (PANIC).
      await database.start()
    },
  },
  'log-disk-full': {
    what: "the disk of the instances' logs is full, and then freed",
    run: ({ logDisk }, _, ms) => fill(logDisk, ms),
  },
}

export const FAULTS = { ...ALWAYS, ...(canHaveDisks() && DISK_FAULTS) }

async function disturb({ proxy }: Pair, disturbance: Disturbance, ms: number): Promise<void> {
  proxy.disturb(disturbance)
  await sleep(ms)
  proxy.disturb(null)
}

/** For transactions that begin after it. */
async function setStandbys(url: string, names: string): Promise<void> {
  await runStatement(url, `alter system set synchronous_standby_names = '${names}'`)
  await runStatement(url, 'select pg_reload_conf()')
}

async function fill(disk: SmallDisk | undefined, ms: number): Promise<void> {
  await disk?.fill()
  await sleep(ms)
  await disk?.free()
}
