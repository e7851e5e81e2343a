import { requireStatus } from '../kit/client.ts'
import { createHistogram, latencyAt } from '../kit/drive.ts'
import type { Operation } from '../kit/operations.ts'
import { type Postgres, readStored } from '../kit/postgres.ts'
import { cpuMsOf } from '../kit/processes.ts'
import { type Cryptography, measureCryptography } from './cryptography.ts'
import { drive, type Measurement } from './drive.ts'
import type { Scenario } from './scenarios.ts'
import type { Gatehouse, Service } from './services.ts'
import { measureStatement, type Statement } from './statements.ts'

/** Each round measures the plain service, the parts that an operation needs, and gatehouse. */
export interface Plan {
  gatehouse: Gatehouse
  plain: Service
  postgres: Postgres
  rounds: number
  roundMs: number
  signal: AbortSignal
}

/** CPU times in milliseconds, and bytes that Postgres stored. NaN where they cannot be read, or nothing succeeded. */
interface Cost {
  serviceMs: number
  postgresMs: number
  logBytes: number
  tableBytes: number
}

/** One round of a service. Costs are totals. */
interface Turn extends Measurement, Cost {
  /** Share of the time that the load generator's thread was busy. */
  busyShare: number
}

/** All rounds of a service. Costs are per operation. */
export interface Side extends Cost {
  rate: number
  p50: number
  p99: number
  succeeded: number
  errors: Record<string, number>
  busyShare: number
}

/** The JSON report has null for NaN. */
export interface Figures {
  scenario: string
  gatehouse: Side
  /** Null where the plain service cannot do it. */
  plain: Side | null
  /** Gatehouse divided by the plain service, per round: rates, and CPU times of service and Postgres. */
  rateRatios: number[]
  cpuRatios: number[]
  /** CPU time of gatehouse and Postgres, divided by the parts' CPU time, per round. */
  costRatios: number[]
  /** CPU time in milliseconds of each part per operation: the mean of the rounds. */
  parts: Record<string, number>
}

type Parts = Record<string, number>

const MAX_WARM_UP_MS = 2_000
const MIN_PART_MS = 1_000

export async function measureScenario(name: string, scenario: Scenario, plan: Plan): Promise<Figures | null> {
  const { gatehouse, rounds, signal } = plan
  const own = scenario.isOfPlatform ? { ...gatehouse, url: gatehouse.platformUrl } : gatehouse
  const plain = scenario.isOfPlatform ? null : plan.plain
  const warmUp = { ...plan, roundMs: Math.min(MAX_WARM_UP_MS, plan.roundMs) }
  for (const service of plain ? [plain, own] : [own]) await takeTurn(service, scenario, warmUp)
  const all: { own: Turn; plain: Turn | null; parts: Parts }[] = []
  for (let round = 1; round <= rounds; round += 1) {
    console.error(`${name}, round ${round} of ${rounds}`)
    const before = plain && (await takeTurn(plain, scenario, plan))
    const parts = await measureParts(scenario, plan)
    // A round without gatehouse has no result.
    if (signal.aborted) break
    all.push({ own: await takeTurn(own, scenario, plan), plain: before, parts })
  }
  const [first] = all
  if (!first) return null
  const compared = all.flatMap(({ own, plain }) => (plain ? [{ own, plain }] : []))
  return {
    scenario: name,
    gatehouse: sideOf(all.map(({ own }) => own)),
    plain: plain && sideOf(compared.map(({ plain }) => plain)),
    rateRatios: compared.map(({ own, plain }) => rateOf(own) / rateOf(plain)).filter(Number.isFinite),
    cpuRatios: compared.map(({ own, plain }) => costOf(own) / costOf(plain)).filter(Number.isFinite),
    costRatios: all
      .map(({ own, parts }) => costOf(own) / sumOf(Object.values(parts)))
      .filter(Number.isFinite),
    parts: Object.fromEntries(
      Object.keys(first.parts).map((part) => [
        part,
        sumOf(all.map(({ parts }) => parts[part] ?? Number.NaN)) / all.length,
      ]),
    ),
  }
}

const sumOf = (values: number[]) => values.reduce((sum, value) => sum + value, 0)
const rateOf = ({ succeeded, seconds }: Measurement) => succeeded / seconds
const costOf = ({ serviceMs, postgresMs, succeeded }: Turn) => (serviceMs + postgresMs) / succeeded

async function takeTurn(service: Service, scenario: Scenario, plan: Plan): Promise<Turn> {
  const { roundMs: durationMs, signal, postgres } = plan
  const operations = await scenario.operations(service, scenario.connections, durationMs / 1000)
  const read = async () => ({
    serviceMs: cpuMsOf(service.pid),
    postgresMs: cpuMsOf(postgres.pid),
    ...(await readStored(service.databaseUrl)),
  })
  const before = await read()
  const loop = performance.eventLoopUtilization()
  const measured = await drive({ url: service.url, operations, durationMs, signal })
  const busyShare = performance.eventLoopUtilization(loop).utilization
  const after = await read()
  return {
    ...{ ...measured, busyShare },
    serviceMs: after.serviceMs - before.serviceMs,
    postgresMs: after.postgresMs - before.postgresMs,
    logBytes: after.log - before.log,
    tableBytes: after.tables - before.tables,
  }
}

/** CPU time in milliseconds of each part, measured one after the other. Takes as long as a turn of a service. */
async function measureParts(scenario: Scenario, plan: Plan): Promise<Parts> {
  const { gatehouse, postgres, roundMs, signal } = plan
  const statements = Object.entries(scenario.statements ?? {}) as [Statement, number][]
  const cryptography = Object.entries(scenario.cryptography ?? {}) as [Cryptography, number][]
  const count = statements.length + cryptography.length
  if (postgres.pid === undefined || count === 0) return {}
  const durationMs = Math.max(MIN_PART_MS, roundMs / (count + 1))
  const parts: Parts = { 'smallest response': await measureResponse(scenario, plan, durationMs) }
  for (const [statement, times] of statements)
    parts[statement] = times * (await measureStatement(statement, gatehouse, postgres, durationMs, signal))
  for (const [work, times] of cryptography)
    if (!signal.aborted) parts[work] = times * measureCryptography(work, durationMs)
  return parts
}

async function measureResponse({ connections }: Scenario, { plain, signal }: Plan, durationMs: number) {
  const smallest: Operation = {
    request: () => ({ method: 'GET', path: '/' }),
    take: (answer) => requireStatus(200, answer),
  }
  const before = cpuMsOf(plain.pid)
  const operations = Array.from({ length: connections }, () => smallest)
  const { succeeded } = await drive({ url: plain.url, operations, durationMs, signal })
  return (cpuMsOf(plain.pid) - before) / succeeded
}

function sideOf(turns: Turn[]): Side {
  const histogram = createHistogram()
  const errors: Record<string, number> = {}
  for (const turn of turns) {
    histogram.add(turn.histogram)
    for (const [code, count] of Object.entries(turn.errors)) errors[code] = (errors[code] ?? 0) + count
  }
  const sum = (of: (turn: Turn) => number) => sumOf(turns.map(of))
  const succeeded = sum((turn) => turn.succeeded)
  return {
    rate: succeeded / sum(({ seconds }) => seconds),
    p50: latencyAt(histogram, 50),
    p99: latencyAt(histogram, 99),
    serviceMs: sum(({ serviceMs }) => serviceMs) / succeeded,
    postgresMs: sum(({ postgresMs }) => postgresMs) / succeeded,
    logBytes: sum(({ logBytes }) => logBytes) / succeeded,
    tableBytes: sum(({ tableBytes }) => tableBytes) / succeeded,
    succeeded,
    errors,
    busyShare: Math.max(...turns.map(({ busyShare }) => busyShare)),
  }
}
