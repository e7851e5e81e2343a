import { requireStatus } from '../kit/client.ts'
import { createHistogram, latencyAt } from '../kit/drive.ts'
import type { Operation } from '../kit/operations.ts'
import { readStored, type Stored } from '../kit/postgres.ts'
import { usageOf } from '../kit/processes.ts'
import { type Cryptography, measureCryptography } from './cryptography.ts'
import { drive, type Measurement } from './drive.ts'
import type { Scenario } from './scenarios.ts'
import type { Gatehouse, Service } from './services.ts'
import { measureStatement, type Statement } from './statements.ts'

/** How a scenario is measured: in rounds, each with the plain service, what an operation cannot do without, and gatehouse. */
export interface Plan {
  gatehouse: Gatehouse
  plain: Service
  postgresPid: number | undefined
  /** For scripts of pgbench. */
  folder: string
  connections: number
  rounds: number
  roundMs: number
  rate: number | undefined
  signal: AbortSignal
  onSecond(what: string, requests: number): void
}

/** One service in one scenario. Times are in milliseconds, and CPU times for one operation; null where they cannot be read. */
export interface Side {
  /** Requests per second. */
  rate: number
  p50: number
  p95: number
  p99: number
  max: number
  serviceMs: number | null
  postgresMs: number | null
  /** In bytes, for one operation. */
  written: Stored
  succeeded: number
  errors: Record<string, number>
}

export interface Figures {
  scenario: string
  about: string
  connections: number
  events: number
  gatehouse: Side
  /** Null where the plain service cannot do it. */
  plain: Side | null
  /** Gatehouse divided by the plain service, a value for each round: rates, and CPU times of service and Postgres. */
  rateRatios: number[]
  cpuRatios: number[]
  /** CPU time of gatehouse and Postgres, divided by that of the parts, for each round. */
  costRatios: number[]
  /** CPU time in milliseconds of each part, for one operation; the mean of the rounds. */
  parts: Record<string, number>
  /** Resident memory of gatehouse at the end of each round, in MB. */
  memoryMb: number[]
  /** Highest share of the time that the load generator's thread was busy. */
  busyShare: number
}

/** What a side did in one round. */
interface Turn {
  run: Measurement
  serviceMs: number | null
  postgresMs: number | null
  written: Stored
}

const MAX_WARM_UP_MS = 2_000
const MIN_PART_MS = 1_000
const MAX_PART_MS = 60_000

export async function measureScenario(name: string, scenario: Scenario, plan: Plan): Promise<Figures | null> {
  const { gatehouse, plain, rounds, signal } = plan
  const isCompared = !scenario.isOfPlatform
  const services = isCompared ? [plain, gatehouse] : [gatehouse]
  const url = scenario.isOfPlatform ? gatehouse.platformUrl : gatehouse.url
  const durationMs = Math.min(MAX_WARM_UP_MS, plan.roundMs)
  for (const service of services) {
    const operations = await scenario.operations(service, plan.connections, durationMs / 1000)
    await drive({ url: service === gatehouse ? url : service.url, operations, durationMs, signal })
  }
  const turns: { gatehouse: Turn; plain: Turn | null; parts: Record<string, number>; memoryMb: number }[] = []
  let busyShare = 0
  for (let round = 1; round <= rounds && !signal.aborted; round += 1) {
    const label = (what: string) => (requests: number) =>
      plan.onSecond(`${name} ${round}/${rounds} ${what}`, requests)
    const plainTurn = isCompared ? await takeTurn(plain, plain.url, scenario, plan, label('plain')) : null
    const parts = await measureParts(scenario, plan)
    // A round without gatehouse says nothing.
    if (signal.aborted) break
    const loop = performance.eventLoopUtilization()
    const turn = await takeTurn(gatehouse, url, scenario, plan, label('gatehouse'))
    busyShare = Math.max(busyShare, performance.eventLoopUtilization(loop).utilization)
    const memoryMb = (usageOf(gatehouse.pid)?.residentBytes ?? 0) / 2 ** 20
    turns.push({ gatehouse: turn, plain: plainTurn, parts, memoryMb })
  }
  if (turns.length === 0) return null
  const own = turns.map((turn) => turn.gatehouse)
  const theirs = turns.flatMap((turn) => turn.plain ?? [])
  const ratios = (of: (turn: Turn) => number) => theirs.map((turn, n) => of(own[n] as Turn) / of(turn))
  const sum = (parts: Record<string, number>) => Object.values(parts).reduce((total, ms) => total + ms, 0)
  return {
    scenario: name,
    about: scenario.about,
    connections: plan.connections,
    events: scenario.events ?? 1,
    gatehouse: sideOf(own),
    plain: theirs.length > 0 ? sideOf(theirs) : null,
    rateRatios: ratios(({ run }) => run.succeeded / run.seconds),
    cpuRatios: ratios(cpuMsOf).filter(Number.isFinite),
    costRatios: turns.map((turn) => cpuMsOf(turn.gatehouse) / sum(turn.parts)).filter(Number.isFinite),
    parts: Object.fromEntries(
      Object.keys(turns[0]?.parts ?? {}).map((part) => [
        part,
        turns.reduce((total, { parts }) => total + (parts[part] ?? 0), 0) / turns.length,
      ]),
    ),
    memoryMb: turns.map(({ memoryMb }) => memoryMb),
    busyShare,
  }
}

/** For one operation. NaN where it cannot be read, or nothing succeeded. */
function cpuMsOf({ run, serviceMs, postgresMs }: Turn): number {
  return ((serviceMs ?? Number.NaN) + (postgresMs ?? Number.NaN)) / run.succeeded
}

async function takeTurn(
  service: Service,
  url: string,
  scenario: Scenario,
  { connections, roundMs, rate, signal, postgresPid }: Plan,
  onSecond: (requests: number) => void,
): Promise<Turn> {
  const operations = await scenario.operations(service, connections, roundMs / 1000)
  const stored = await readStored(service.databaseUrl)
  const before = [usageOf(service.pid), usageOf(postgresPid)] as const
  const run = await drive({ url, operations, durationMs: roundMs, rate, signal, onSecond })
  const after = [usageOf(service.pid), usageOf(postgresPid)] as const
  const { log, tables } = await readStored(service.databaseUrl)
  const used = (n: 0 | 1) => (before[n] && after[n] ? after[n].cpuMs - before[n].cpuMs : null)
  return {
    run,
    serviceMs: used(0),
    postgresMs: used(1),
    written: { log: log - stored.log, tables: tables - stored.tables },
  }
}

/** CPU time in milliseconds of each part of an operation. Measured one after the other, together for as long as a side. */
async function measureParts(scenario: Scenario, plan: Plan): Promise<Record<string, number>> {
  const { gatehouse, plain, postgresPid: pid, folder, roundMs, signal } = plan
  const { statements = {}, cryptography = {} } = scenario
  const all = Object.entries({ ...statements, ...cryptography })
  if (pid === undefined || all.length === 0) return {}
  const durationMs = Math.max(MIN_PART_MS, roundMs / (all.length + 1))
  const { databaseUrl, companyId } = gatehouse
  const smallest: Operation = {
    request: () => ({ method: 'GET', path: '/' }),
    take: (answer) => requireStatus(200, answer),
  }
  const operations = Array.from({ length: plan.connections }, () => smallest)
  const measureResponse = async (ms: number) => {
    const before = usageOf(plain.pid)
    const { succeeded } = await drive({ url: plain.url, operations, durationMs: ms, signal })
    return succeeded > 0 ? ((usageOf(plain.pid)?.cpuMs ?? 0) - (before?.cpuMs ?? 0)) / succeeded : null
  }
  const parts: Record<string, number> = {
    'smallest response': await untilMeasured(measureResponse, durationMs, signal),
  }
  for (const [name, times] of all) {
    if (signal.aborted) break
    const place = { databaseUrl, companyId, pid, folder }
    const ms =
      name in statements
        ? await untilMeasured(
            (time) => measureStatement(name as Statement, place, time, signal),
            durationMs,
            signal,
          )
        : measureCryptography(name as Cryptography, durationMs)
    parts[name] = times * ms
  }
  return parts
}

/** A machine can be so busy that nothing is done in a second: then it takes twice as long, and so on. */
async function untilMeasured(
  measure: (durationMs: number) => Promise<number | null>,
  durationMs: number,
  signal: AbortSignal,
): Promise<number> {
  for (let ms = durationMs; !signal.aborted; ms *= 2) {
    const found = await measure(ms)
    if (found !== null) return found
    if (ms > MAX_PART_MS && !signal.aborted) throw new Error(`a part was not done once in ${ms} ms`)
  }
  return Number.NaN
}

/** The rounds of one side together. */
function sideOf(turns: Turn[]): Side {
  const histogram = createHistogram()
  const errors: Record<string, number> = {}
  for (const { run } of turns) {
    histogram.add(run.histogram)
    for (const [code, count] of Object.entries(run.errors)) errors[code] = (errors[code] ?? 0) + count
  }
  const sum = (of: (turn: Turn) => number | null) =>
    turns.reduce((total, turn) => total + (of(turn) ?? Number.NaN), 0)
  const succeeded = sum(({ run }) => run.succeeded)
  const each = (total: number) => (Number.isFinite(total) && succeeded > 0 ? total / succeeded : null)
  return {
    rate: succeeded / sum(({ run }) => run.seconds),
    p50: latencyAt(histogram, 50),
    p95: latencyAt(histogram, 95),
    p99: latencyAt(histogram, 99),
    max: latencyAt(histogram, 100),
    serviceMs: each(sum(({ serviceMs }) => serviceMs)),
    postgresMs: each(sum(({ postgresMs }) => postgresMs)),
    written: {
      log: each(sum(({ written }) => written.log)) ?? 0,
      tables: each(sum(({ written }) => written.tables)) ?? 0,
    },
    succeeded,
    errors,
  }
}
