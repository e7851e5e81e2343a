import type { Part } from '../baselines/part.ts'
import type { Stored } from '../database/stored.ts'
import { type Measurement, merge, type Second } from '../drive/measurement.ts'
import type { Baseline } from '../scenarios/scenario.ts'
import type { ProcessCpu, Round, ScenarioRun } from './round.ts'
import {
  type Latencies,
  latencies,
  type PercentilePoint,
  percentileCurve,
  type Ratio,
  ratioOf,
} from './statistics.ts'

/** The result of one scenario, as the JSON report has it. */
export interface Figures {
  scenario: string
  about: string
  connections: number
  /** Operations a second in the open loop; null in the closed loop. */
  targetRate: number | null
  rounds: number
  seconds: number
  /** What `rate` counts. Everything else counts operations. */
  unit: 'requests' | 'events'
  eventsPerRequest: number
  rate: number
  /** The rate of each round: how far they differ shows how noisy the machine was. */
  roundRates: number[]
  latencyMs: Latencies
  succeeded: number
  /** Number of failures by code. */
  errors: Record<string, number>
  wrong: number
  /** For each operation that succeeded. */
  cpuMs: ProcessCpu
  /** In bytes, for each operation that succeeded. */
  written: Stored | null
  /** Resident memory of the service at the end of each round, in MB. */
  memoryMb: number[]
  baseline: ComparedBaseline | null
  /** Null if it cannot be measured here. */
  cost: Cost | null
  notes: string[]
  percentiles: PercentilePoint[]
  series: Second[]
}

export interface ComparedBaseline extends Baseline {
  /** Its rate, or its 99th percentile in milliseconds. */
  value: number
  /** The service's value divided by the baseline's. */
  ratio: Ratio
}

/** What an operation costs beside what it cannot do without. */
export interface Cost {
  /** CPU time of service and Postgres for an operation, divided by that of its parts. */
  ratio: Ratio
  /** CPU time in milliseconds that an operation needs of each. */
  parts: { name: string; times: number; cpuMs: number }[]
}

/** Above this share of its time, the load generator itself may be what limits the rate. */
const MAX_BUSY_SHARE = 0.95

export function toFigures(
  { name, scenario, open, plan }: ScenarioRun,
  connections: number,
  rounds: Round[],
): Figures {
  const run = merge(rounds.map((round) => round.run))
  const events = scenario.eventsPerOperation ?? 1
  return {
    scenario: name,
    about: scenario.about,
    connections,
    targetRate: plan.rate ?? null,
    rounds: rounds.length,
    seconds: run.seconds,
    unit: events > 1 ? 'events' : 'requests',
    eventsPerRequest: events,
    rate: run.seconds > 0 ? rateOf(run) * events : 0,
    roundRates: rounds.map((round) => rateOf(round.run) * events),
    latencyMs: latencies(run),
    succeeded: run.succeeded,
    errors: Object.fromEntries(run.errors),
    wrong: run.wrong,
    cpuMs: {
      service: cpuMsPerOperation(rounds, 'service', run.succeeded),
      postgres: cpuMsPerOperation(rounds, 'postgres', run.succeeded),
    },
    written: writtenPerOperation(rounds, run.succeeded),
    memoryMb: rounds.flatMap(({ memoryBytes }) => (memoryBytes === null ? [] : [memoryBytes / 2 ** 20])),
    baseline: scenario.baseline ? compareWith(scenario.baseline, rounds, events) : null,
    cost: open.parts ? costOf(open.parts, rounds) : null,
    notes: notesOf(rounds),
    percentiles: percentileCurve(run),
    series: run.series,
  }
}

function cpuMsPerOperation(rounds: Round[], program: keyof ProcessCpu, succeeded: number): number | null {
  let sum = 0
  for (const { cpuMs } of rounds) sum += cpuMs[program] ?? Number.NaN
  return Number.isFinite(sum) && succeeded > 0 ? sum / succeeded : null
}

function writtenPerOperation(rounds: Round[], succeeded: number): Stored | null {
  const known = rounds.flatMap(({ written }) => written ?? [])
  if (known.length < rounds.length || succeeded === 0) return null
  const sum = (what: keyof Stored) => sumOf(known.map((written) => written[what]))
  return { log: sum('log') / succeeded, tables: sum('tables') / succeeded }
}

function costOf(parts: Part[], rounds: Round[]): Cost | null {
  const ratio = ratioOf(
    rounds.map(({ run, cpuMs, partsMs }) => {
      const needed = parts.map(({ times }, index) => times * (partsMs[index] ?? Number.NaN))
      const used = (cpuMs.service ?? Number.NaN) + (cpuMs.postgres ?? Number.NaN)
      return used / run.succeeded / sumOf(needed)
    }),
  )
  if (!ratio) return null
  return {
    ratio,
    parts: parts.map(({ name, times }, index) => {
      const measured = rounds.flatMap(({ partsMs }) => partsMs[index] ?? [])
      return { name, times, cpuMs: (times * sumOf(measured)) / measured.length }
    }),
  }
}

function sumOf(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0)
}

function compareWith(baseline: Baseline, rounds: Round[], events: number): ComparedBaseline | null {
  const compared = rounds.flatMap((round) =>
    round.baseline ? [{ run: round.run, baseline: round.baseline }] : [],
  )
  const read = baseline.compare === 'p99' ? p99Of : rateOf
  const ratio = ratioOf(compared.map((round) => read(round.run) / read(round.baseline)))
  if (!ratio) return null
  const value = read(merge(compared.map((round) => round.baseline)))
  return { ...baseline, value: baseline.compare === 'rate' ? value * events : value, ratio }
}

function p99Of(measurement: Measurement): number {
  return latencies(measurement).p99
}

function rateOf({ succeeded, seconds }: Measurement): number {
  return succeeded / seconds
}

function notesOf(rounds: Round[]): string[] {
  const notes = rounds.flatMap(({ note }) => (note === null ? [] : [note]))
  const busyShare = Math.max(0, ...rounds.map((round) => round.busyShare))
  if (busyShare <= MAX_BUSY_SHARE) return notes
  const percent = Math.round(busyShare * 100)
  return [...notes, `the load generator was busy ${percent} % of the time, and may have limited the rate`]
}
