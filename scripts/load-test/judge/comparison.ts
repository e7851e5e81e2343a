import { readFile } from 'node:fs/promises'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Figures } from '../measure/figures.ts'
import { UsageError } from '../usage-error.ts'

/** Compares figures with those of an earlier report. */

/** What is read of an earlier report. */
const EarlierReport = Type.Object({
  at: Type.String(),
  figures: Type.Array(
    Type.Object({
      scenario: Type.String(),
      connections: Type.Number(),
      targetRate: Type.Union([Type.Number(), Type.Null()]),
      rate: Type.Number(),
      roundRates: Type.Optional(Type.Array(Type.Number())),
      latencyMs: Type.Object({ p50: Type.Number(), p95: Type.Optional(Type.Number()), p99: Type.Number() }),
      cpuMs: Type.Object({ service: Type.Union([Type.Number(), Type.Null()]) }),
    }),
  ),
})
export type EarlierReport = Static<typeof EarlierReport>
type Earlier = EarlierReport['figures'][number]

/** Changes are shares: 0.1 is ten percent more. Null where one of both is unknown. */
export interface Change {
  scenario: string
  rate: number | null
  p50: number | null
  p95: number | null
  p99: number | null
  cpu: number | null
  /** By how much the rates of rounds differ, of now or before, whichever is more. */
  noise: number | null
  /** What was not the same in both runs. */
  differs: string | null
}

/** Called before anything is measured. @throws UsageError */
export async function readEarlierReport(file: string): Promise<EarlierReport> {
  const text = await readFile(file, 'utf8').catch((error) => {
    throw new UsageError(`The report to compare with cannot be read: ${error.message}`)
  })
  const report = parseJson(text)
  if (!Value.Check(EarlierReport, report))
    throw new UsageError(`${file} is no report of the load test; write one with --json`)
  return report
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The changes of the scenarios that both have. */
export function compare(figures: Figures[], earlier: EarlierReport): Change[] {
  return figures.flatMap((now) => {
    const before = earlier.figures.find(({ scenario }) => scenario === now.scenario)
    return before ? [changeOf(now, before)] : []
  })
}

function changeOf(now: Figures, before: Earlier): Change {
  const { latencyMs } = now
  return {
    scenario: now.scenario,
    rate: changeFrom(before.rate, now.rate),
    p50: changeFrom(before.latencyMs.p50, latencyMs.p50),
    p95: changeFrom(before.latencyMs.p95, latencyMs.p95),
    p99: changeFrom(before.latencyMs.p99, latencyMs.p99),
    cpu: changeFrom(before.cpuMs.service, now.cpuMs.service),
    noise: noiseOf([now.roundRates, before.roundRates ?? []]),
    differs: differenceOf(now, before),
  }
}

function changeFrom(before: number | null | undefined, now: number | null): number | null {
  return before && now !== null ? now / before - 1 : null
}

/** Needs two rounds at least. */
function noiseOf(runs: number[][]): number | null {
  const spreads = runs
    .filter((rates) => rates.length > 1)
    .map((rates) => (Math.max(...rates) - Math.min(...rates)) / mean(rates))
  return spreads.length > 0 ? Math.max(...spreads) : null
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function differenceOf(now: Figures, before: Earlier): string | null {
  if (now.connections !== before.connections)
    return `${before.connections} connections before, ${now.connections} now`
  if (now.targetRate !== before.targetRate)
    return `${describeLoop(before.targetRate)} before, ${describeLoop(now.targetRate)} now`
  return null
}

function describeLoop(targetRate: number | null): string {
  return targetRate === null ? 'a closed loop' : `${targetRate}/s`
}
