import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Disturbance } from '../../kit/tcp-proxy.ts'
import { MAX_CONNECTIONS } from '../target/database.ts'
import type { Disorder, Instance } from '../target/instance.ts'
import type { Target } from '../target/open-target.ts'
import { canHaveDisks, type SmallDisk } from '../target/small-disk.ts'
import type { FaultOf } from './fault.ts'
import { killsOf } from './kills.ts'

/** What can happen to two instances on one Postgres. */

type Fault = FaultOf<Target>

const HIT = 10
const CLOCK_SHIFT_MS = 60_000
const SETTLED_MS = 1_000

const cut = (when: 'before' | 'during' | 'after'): Fault => ({
  what: `connections to the database are cut ${when} statements and commits`,
  breaks: 'way',
  run: (target, random, ms) => disturb(target, { kind: 'cut', when, isHit: () => random.isOneIn(HIT) }, ms),
})

export const MAIL_AWAY: FaultOf<Pick<Target, 'mail'>> = {
  what: 'the mail server is away',
  breaks: 'mail',
  async run({ mail }, _, ms) {
    await mail.stop()
    await sleep(ms)
    await mail.start()
  },
}

export const FAULTS: Record<string, Fault> = {
  'postgres-killed': {
    what: 'all processes of Postgres are killed, and it starts again later',
    breaks: 'database',
    async run({ database }, _, ms) {
      database.signal('SIGKILL')
      await sleep(ms)
      await database.start()
    },
  },
  'postgres-stopped': {
    what: 'all processes of Postgres stop for a while (SIGSTOP)',
    breaks: 'database',
    async run({ database }, _, ms) {
      database.signal('SIGSTOP')
      await sleep(ms)
      database.signal('SIGCONT')
    },
  },
  'postgres-restarted': {
    what: 'Postgres is restarted in order',
    breaks: 'database',
    async run({ database }) {
      await database.stop()
      await database.start()
    },
  },
  'cut-before': cut('before'),
  'cut-during': cut('during'),
  'cut-after': cut('after'),
  'all-cut': {
    what: 'all connections to the database are cut, again and again',
    breaks: 'way',
    async run({ proxy }, random, ms) {
      for (const end = performance.now() + ms; performance.now() < end; await sleep(random.below(1_000)))
        proxy.cutAll()
    },
  },
  latency: {
    what: 'what goes to the database and back is late by 50 to 250 ms',
    breaks: 'way',
    run: (target, random, ms) => disturb(target, { kind: 'latency', ms: 50 + random.below(200) }, ms),
  },
  trickle: {
    what: 'what goes to the database and back trickles',
    breaks: 'way',
    run: (target, random, ms) => disturb(target, { kind: 'trickle', bytes: 100 + random.below(900) }, ms),
  },
  'requests-stalled': {
    what: 'nothing reaches the database',
    breaks: 'way',
    run: (target, _, ms) => disturb(target, { kind: 'stall', ways: ['to server'] }, ms),
  },
  'answers-stalled': {
    what: 'nothing comes back from the database, which gets all',
    breaks: 'way',
    run: (target, _, ms) => disturb(target, { kind: 'stall', ways: ['to client'] }, ms),
  },
  ...killsOf<Target>(({ instances }) => instances),
  'rolling-restart': {
    what: 'each instance is restarted by SIGTERM, one after the other',
    breaks: 'instances',
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
    breaks: 'instances',
    restarts: true,
    run: ({ instances }, random, ms) =>
      runInDisorder(
        random.pick(instances),
        { clockShiftMs: random.isOneIn(2) ? CLOCK_SHIFT_MS : -CLOCK_SHIFT_MS },
        ms,
      ),
  },
  'table-locked': {
    what: 'a table is locked against all use',
    breaks: 'database',
    run: ({ database }, random, ms) =>
      database.use(async (connection) => {
        const table = random.pick(['sessions', 'events', 'users', 'signing_secrets', 'mail_outbox'])
        await connection.query(`begin; lock table ${table} in access exclusive mode`)
        await sleep(ms)
        await connection.query('rollback')
      }),
  },
  'no-connections': {
    what: 'the database has no connections left',
    breaks: 'database',
    run: ({ database }, _, ms) => database.use((connection) => takeAll(connection, database.url(), ms)),
  },
  'read-only': {
    what: 'the database is read-only',
    breaks: 'database',
    run: ({ database }, _, ms) => database.use(setFor(ms, 'default_transaction_read_only', 'on')),
  },
  'commits-stalled': {
    what: 'the database answers what reads, and acknowledges no commit: its standby is away',
    breaks: 'database',
    run: ({ database }, _, ms) => database.use(setFor(ms, 'synchronous_standby_names', 'none')),
  },
  'database-disk-full': {
    what: "the database's disk is full, and then freed (needs root)",
    breaks: 'database',
    async run({ database, databaseDisk }, _, ms) {
      await fill(databaseDisk, ms)
      // It ends where it cannot write its log (PANIC).
      await database.recover()
    },
  },
  'log-disk-full': {
    what: "the disk of the instances' logs is full, and then freed (needs root)",
    // An instance that starts says so in its log.
    breaks: 'instances',
    run: ({ logDisk }, _, ms) => fill(logDisk, ms),
  },
  'log-closed': {
    what: "nobody reads an instance's log any more",
    breaks: 'instances',
    restarts: true,
    run: ({ instances }, random, ms) => runInDisorder(random.pick(instances), { isLogClosed: true }, ms),
  },
  'mail-away': MAIL_AWAY,
}

async function disturb({ proxy }: Target, disturbance: Disturbance, ms: number): Promise<void> {
  proxy.disturb(disturbance)
  await sleep(ms)
  proxy.disturb(null)
}

/** @throws where there is no such disk: then the fault is not to be chosen */
async function fill(disk: SmallDisk | undefined, ms: number): Promise<void> {
  if (!disk) throw new Error('this fault needs root')
  await disk.fill()
  await sleep(ms)
  await disk.free()
}

async function runInDisorder(instance: Instance, disorder: Disorder, ms: number): Promise<void> {
  await instance.stop()
  await instance.start(disorder)
  await sleep(ms)
  await instance.stop()
  await instance.start()
}

/** Of the connections of a fault, so that it tells them from those of the service. */
const TAKEN = 'taken by a fault'
/** The service takes some as soon as they are free. */
const ROUNDS = 20
/** Three are not given to all; one is of the probe of the database, and one of each fault at a time. */
const FEW = 6

/** Those of the service end, and all are taken by others. @throws if the service has kept some */
async function takeAll(operator: pg.Client, url: string, ms: number): Promise<void> {
  const taken: pg.Client[] = []
  const takeOne = async () => {
    const one = new pg.Client({ connectionString: url, application_name: TAKEN })
    one.on('error', () => {})
    await one.connect()
    taken.push(one)
  }
  try {
    for (let round = 0; round < ROUNDS && taken.length < MAX_CONNECTIONS - FEW; round += 1) {
      await operator.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
        where backend_type = 'client backend' and application_name <> $1 and pid <> pg_backend_pid()`,
        [TAKEN],
      )
      // The last ones find none left.
      await Promise.allSettled(Array.from({ length: MAX_CONNECTIONS - taken.length }, takeOne))
    }
    if (taken.length < MAX_CONNECTIONS - FEW)
      throw new Error(`only ${taken.length} connections could be taken`)
    await sleep(ms)
  } finally {
    await Promise.allSettled(taken.map((one) => one.end()))
  }
}

/** For transactions that begin from now on. */
const setFor = (ms: number, setting: string, value: string) => async (connection: pg.Client) => {
  await connection.query(`alter system set ${setting} = '${value}'`)
  await connection.query('select pg_reload_conf()')
  await sleep(ms)
  await connection.query(`alter system reset ${setting}`)
  await connection.query('select pg_reload_conf()')
}

const OF_ROOT = ['database-disk-full', 'log-disk-full']

/** Those that can be made here. */
export const possibleFaults = () =>
  Object.keys(FAULTS).filter((name) => canHaveDisks() || !OF_ROOT.includes(name))
