import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { drive, Failure, type Measurement, merge, type Second } from './load-test/drive.ts'
import { toPage } from './load-test/page.ts'
import { usageOf } from './load-test/processes.ts'
import {
  type Figures,
  isClean,
  latencies,
  machine,
  percentileCurve,
  ratioOf,
  toText,
} from './load-test/report.ts'
import {
  joinTarget,
  openPostgres,
  type Postgres,
  startTarget,
  type Target,
  UsageError,
} from './load-test/target.ts'
import { type Context, DAILY, type OpenTrial, TRIALS, type Trial } from './load-test/trials.ts'

/** The load test: puts scenarios on a service, and holds each against what the machine can do, in the same run. */

const USAGE = `Usage: npm run load-test -- [options]

Without --url it starts a service and a Postgres of its own, or makes databases on DATABASE_URL's.

  --scenario NAMES    comma-separated, or \`all\`; ${DAILY.join(', ')} by default
  --duration SECONDS  of load for each scenario, and as long again for what it is held against (15)
  --rounds N          into which both are divided, alternating, so that a noisy machine cancels out (3)
  --connections N     virtual users, each with a connection (8 to 64, as the scenario has it)
  --rate N            open loop: operations a second, due whether or not the service keeps up; latency
                      counts from when they were due. Closed loop without it
  --sessions N        that exist beforehand (10000; \`scale\`: 5000000)
  --url URL           a service that runs already. Set COMPANY_ID, EMAIL and PASSWORD of an admin in the
                      environment, or DATABASE_URL, MASTER_KEYS and PUBLIC_URL as the service has them.
                      What the load makes stays there. Events are signed with SIGNING_SECRET, if it is
                      set; without it the company gets a new secret, and its senders must use that
  --json FILE         the figures for programs
  --html FILE         the figures with plots, one page that needs nothing else

A service that runs already must have RATE_LIMIT_SCALE set, such as 1000000: it multiplies all limits, is
refused in production and says so in the log. Ctrl-C ends the load and still reports. The exit status is 1 if
any answer was wrong or an error other than 429.

${Object.entries(TRIALS)
  .map(([name, { about }]) => `  ${name.padEnd(14)} ${about}`)
  .join('\n')}`

const WARM_UP_MS = 2_000
/** Above this share of its time, the load generator itself may be what limits a rate. */
const MAX_BUSY_SHARE = 0.95

const SEE_HELP = '`npm run load-test -- --help` lists the options.'
const values = readOptions()

function readOptions() {
  try {
    return parseArgs({
      options: {
        scenario: { type: 'string', default: DAILY.join(',') },
        duration: { type: 'string', default: '15' },
        rounds: { type: 'string', default: '3' },
        connections: { type: 'string' },
        rate: { type: 'string' },
        sessions: { type: 'string' },
        url: { type: 'string' },
        json: { type: 'string' },
        html: { type: 'string' },
        help: { type: 'boolean' },
      },
    }).values
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${SEE_HELP}`)
    return process.exit(1)
  }
}

const stop = new AbortController()
process.on('SIGINT', () => {
  // The second time means it.
  if (stop.signal.aborted) process.exit(130)
  console.error('\nending; once more to leave without a report')
  stop.abort()
})

function positive(
  name: 'duration' | 'rounds' | 'connections' | 'rate' | 'sessions',
  fallback: number,
): number {
  const text = values[name]
  const number = text === undefined ? fallback : Number(text)
  if (!(number > 0) || (name !== 'duration' && name !== 'rate' && !Number.isInteger(number)))
    throw new UsageError(`--${name} must be a number above 0, not ${text}`)
  return number
}

async function run(): Promise<void> {
  const names = values.scenario === 'all' ? Object.keys(TRIALS) : values.scenario.split(',')
  const chosen = names.map((name): [string, Trial] => {
    const trial = TRIALS[name]
    if (!trial)
      throw new UsageError(`there is no scenario ${name}; there are ${Object.keys(TRIALS).join(', ')}`)
    return [name, trial]
  })
  const rounds = positive('rounds', 3)
  const roundMs = (positive('duration', 15) / rounds) * 1000
  const rate = values.rate === undefined ? undefined : positive('rate', 1)
  const sessions = positive('sessions', 10_000)
  if (values.url !== undefined) originOf(values.url)

  await Promise.all([values.json, values.html].map(requireWritable))

  const house = openHouse(sessions)
  const figures: Figures[] = []
  try {
    for (const [name, trial] of chosen) {
      if (stop.signal.aborted) break
      const connections = positive('connections', trial.connections)
      const context: Context = {
        connections,
        target: house.target,
        ownsTarget: values.url === undefined,
        scaleSessions: positive('sessions', 5_000_000),
      }
      const measured = await measure(name, trial, context, { rounds, roundMs, rate })
      if (measured.rounds > 0) figures.push(measured)
    }
  } finally {
    await house.close()
  }
  const about = machine()
  console.log(
    `\n${about.cores} cores (${about.cpu}), ${about.memoryGb} GB, Node ${about.node}: ${values.url === undefined ? 'load generator, service and Postgres' : 'the load generator'}\n`,
  )
  console.log(toText(figures))
  const wasInterrupted = stop.signal.aborted
  if (wasInterrupted) console.log('\nEnded early: this is what was measured until then.')
  const report = {
    wasInterrupted,
    sharesMachine: values.url === undefined,
    machine: about,
    command: process.argv.slice(2),
    at: new Date().toISOString(),
    figures,
  }
  if (values.json) await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`)
  if (values.html) await writeFile(values.html, toPage(report))
  process.exitCode = isClean(figures) ? 0 : 1
}

/** The services of this run, started when first asked for, and the Postgres that they share. */
function openHouse(sessions: number) {
  const targets = new Map<number, Promise<Target>>()
  let postgres: Promise<Postgres> | undefined
  async function open(count: number): Promise<Target> {
    if (values.url !== undefined) return await joinTarget(originOf(values.url), count, stop.signal)
    if (count > 100_000) console.error(`making ${count.toLocaleString('en')} sessions`)
    postgres ??= openPostgres()
    return await startTarget(await postgres, count)
  }
  return {
    target(count = sessions): Promise<Target> {
      const known = targets.get(count) ?? open(count)
      targets.set(count, known)
      return known
    },
    async close() {
      // One that did not start has been reported.
      for (const target of targets.values()) await (await target.catch(() => null))?.close()
      await (await postgres)?.close()
    },
  }
}

async function measure(
  name: string,
  trial: Trial,
  context: Context,
  { rounds, roundMs, rate }: { rounds: number; roundMs: number; rate: number | undefined },
): Promise<Figures> {
  const opened = await trial.open(context)
  try {
    return await measureOpened(name, trial, opened, context.connections, { rounds, roundMs, rate })
  } finally {
    await opened.close()
  }
}

async function measureOpened(
  name: string,
  trial: Trial,
  { target, operations, against, disturb }: OpenTrial,
  connections: number,
  { rounds, roundMs, rate }: { rounds: number; roundMs: number; rate: number | undefined },
): Promise<Figures> {
  const { signal } = stop
  const events = trial.events ?? 1
  const measured: Measurement[] = []
  const bases: Measurement[] = []
  const ratios: number[] = []
  const memoryMb: number[] = []
  const notes: string[] = []
  const cpuMs = { service: 0, postgres: 0 }
  let hasUsage = true
  let busyShare = 0

  // What a fixed rate reaches says nothing of the most that there is.
  const compared = trial.against?.compare === 'rate' && rate !== undefined ? undefined : against
  const warmUpMs = Math.min(WARM_UP_MS, roundMs)
  if (compared) await drive({ operations: compared, durationMs: warmUpMs, signal })
  await drive({ operations: await operations(warmUpMs / 1000), durationMs: warmUpMs, signal })

  for (let round = 1; round <= rounds && !signal.aborted; round += 1) {
    const show = (what: string) => (second: Second, left: number) =>
      live(`${name} ${round}/${rounds} ${what}`, second, left, events)
    // Without what disturbs the one, the other has to have the same rate.
    const limit = compared && {
      operations: compared,
      durationMs: roundMs,
      rate: trial.against?.compare === 'p99' ? rate : undefined,
    }
    const base = limit && (await drive({ ...limit, signal, onSecond: show(trial.against?.name ?? '') }))
    const own = await operations(roundMs / 1000)
    const calm = await disturb?.()
    const before = [usageOf(target.servicePid), usageOf(target.postgresPid)]
    const loop = performance.eventLoopUtilization()
    const result = await drive({
      operations: own,
      durationMs: roundMs,
      rate,
      signal,
      onSecond: show('service'),
    })
    const after = [usageOf(target.servicePid), usageOf(target.postgresPid)]
    busyShare = Math.max(busyShare, performance.eventLoopUtilization(loop).utilization)
    if (calm) notes.push(await calm())

    measured.push(result)
    const [service, postgres] = after.map(
      (usage, index) => (usage?.cpuMs ?? Number.NaN) - (before[index]?.cpuMs ?? Number.NaN),
    )
    cpuMs.service += service ?? Number.NaN
    cpuMs.postgres += postgres ?? Number.NaN
    hasUsage &&= after[0] !== null
    if (after[0]) memoryMb.push(after[0].residentBytes / 2 ** 20)
    if (base) {
      bases.push(base)
      ratios.push(
        trial.against?.compare === 'p99'
          ? result.histogram.getValueAtPercentile(99) / base.histogram.getValueAtPercentile(99)
          : result.succeeded / result.seconds / (base.succeeded / base.seconds),
      )
    }
  }
  clearLive()
  if (busyShare > MAX_BUSY_SHARE)
    notes.push(
      `the load generator was busy ${Math.round(busyShare * 100)} % of the time, and may be what held it up`,
    )

  const all = merge(measured)
  const base = merge(bases)
  const ratio = ratioOf(ratios)
  const perOperation = (ms: number) =>
    hasUsage && Number.isFinite(ms) && all.succeeded > 0 ? ms / all.succeeded : null
  return {
    scenario: name,
    about: trial.about,
    connections,
    targetRate: rate ?? null,
    rounds: measured.length,
    seconds: all.seconds,
    unit: events > 1 ? 'events' : 'requests',
    rate: all.seconds > 0 ? (all.succeeded * events) / all.seconds : 0,
    latencyMs: latencies(all),
    succeeded: all.succeeded,
    errors: Object.fromEntries(all.errors),
    wrong: all.wrong,
    cpuMs: { service: perOperation(cpuMs.service), postgres: perOperation(cpuMs.postgres) },
    memoryMb,
    against:
      (trial.against &&
        ratio && {
          ...trial.against,
          value:
            trial.against.compare === 'p99' ? latencies(base).p99 : (base.succeeded * events) / base.seconds,
          ratio,
        }) ||
      null,
    notes,
    percentiles: percentileCurve(all),
    series: all.series,
  }
}

/** The origin of the service that an address names: with or without the path that its interface is under. */
function originOf(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : null
  if (!url || !/^https?:$/.test(url.protocol) || !/^\/(api\/?)?$/.test(url.pathname))
    throw new UsageError(`--url must be a service's address, such as http://127.0.0.1:3000, not ${address}`)
  return url.origin
}

/** Better told now than when everything has been measured. */
async function requireWritable(file: string | undefined): Promise<void> {
  if (file === undefined) return
  await writeFile(file, '', { flag: 'a' }).catch((error) => {
    throw new UsageError(`The report cannot be written: ${error.message}`)
  })
}

function describe(error: unknown): unknown {
  if (error instanceof UsageError) return `${error.message}\n${SEE_HELP}`
  if (error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED')
    return `Nothing answers at ${values.url}: ${error.message}`
  if (error instanceof Failure) {
    const hint = error.code.startsWith('429') ? ' Start the service with RATE_LIMIT_SCALE=1000000.' : ''
    return `The load cannot be prepared: the service answered ${error.code}.${hint}`
  }
  return error
}

/** One line that is written over each second; on what is no terminal, a line every ten seconds. */
function live(
  what: string,
  { rate, p50, p99, errors, at }: Second,
  leftSeconds: number,
  events: number,
): void {
  const line = `${what}: ${Math.round(rate * events)}/s  p50 ${p50.toFixed(1)} ms  p99 ${p99.toFixed(1)} ms  ${errors} errors  ${Math.round(leftSeconds)} s left`
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${line}`)
  else if (Math.round(at) % 10 === 1) console.error(line)
}

function clearLive(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K')
}

if (values.help) console.log(USAGE)
else {
  try {
    await run()
  } catch (error) {
    console.error(describe(error))
    process.exitCode = 1
  }
}
