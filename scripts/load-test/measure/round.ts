import { readStored, type Stored } from '../database/stored.ts'
import { drive } from '../drive/drive.ts'
import type { Operation } from '../drive/load.ts'
import type { Measurement } from '../drive/measurement.ts'
import { type Usage, usageOf } from '../process-usage.ts'
import type { OpenScenario, Scenario } from '../scenarios/scenario.ts'
import type { Target } from '../target/target.ts'
import { type OnSecond, progressLine } from './progress.ts'

/** How a scenario is measured. */
export interface Plan {
  rounds: number
  roundMs: number
  /** Operations a second in the open loop; undefined in the closed loop. */
  rate: number | undefined
  signal: AbortSignal
}

export interface ScenarioRun {
  name: string
  scenario: Scenario
  open: OpenScenario
  /** Undefined if the run is not compared. */
  baseline: Operation[] | undefined
  plan: Plan
}

export interface Round {
  run: Measurement
  baseline: Measurement | null
  cpuMs: ProcessCpu
  /** CPU time in milliseconds of each of the scenario's parts, once; null where it cannot be read. */
  partsMs: (number | null)[]
  /** What was written meanwhile, also for other work; null where it cannot be read. */
  written: Stored | null
  /** Resident memory of the service at the end. */
  memoryBytes: number | null
  /** Share of the time that the load generator's thread was busy. */
  busyShare: number
  /** What disturbed the round. */
  note: string | null
}

/** CPU time in milliseconds; null where it cannot be read. */
export interface ProcessCpu {
  service: number | null
  postgres: number | null
}

/** Measures the baseline, then the service. */
export async function measureRound(scenarioRun: ScenarioRun, number: number): Promise<Round> {
  const { open, plan } = scenarioRun
  const baseline = await measureBaseline(scenarioRun, number)
  const partsMs = await measureParts(scenarioRun)
  const operations = await open.operations(plan.roundMs / 1000)
  const disturbance = await open.disturb?.()
  const storedBefore = await readStored(open.target.databaseUrl)
  const before = readUsages(open.target)
  const loop = performance.eventLoopUtilization()
  const run = await drive({
    operations,
    durationMs: plan.roundMs,
    rate: plan.rate,
    signal: plan.signal,
    onSecond: showProgress(scenarioRun, number, 'service'),
  })
  const after = readUsages(open.target)
  const { utilization } = performance.eventLoopUtilization(loop)
  const storedAfter = await readStored(open.target.databaseUrl)
  return {
    run,
    baseline,
    cpuMs: {
      service: cpuMsBetween(before.service, after.service),
      postgres: cpuMsBetween(before.postgres, after.postgres),
    },
    partsMs,
    written: storedBefore &&
      storedAfter && {
        log: storedAfter.log - storedBefore.log,
        tables: storedAfter.tables - storedBefore.tables,
      },
    memoryBytes: after.service?.residentBytes ?? null,
    busyShare: utilization,
    note: (await disturbance?.stop()) ?? null,
  }
}

async function measureBaseline(scenarioRun: ScenarioRun, number: number): Promise<Measurement | null> {
  const { scenario, baseline, plan } = scenarioRun
  if (!baseline || !scenario.baseline) return null
  const { name, compare } = scenario.baseline
  return await drive({
    operations: baseline,
    durationMs: plan.roundMs,
    // Latencies can be compared only at the same rate; a limit of the machine is found in the closed loop.
    rate: compare === 'p99' ? plan.rate : undefined,
    signal: plan.signal,
    onSecond: showProgress(scenarioRun, number, name),
  })
}

/** One after the other, for as long together as the service is measured. */
async function measureParts({ open: { parts = [] }, plan }: ScenarioRun): Promise<(number | null)[]> {
  const measured: (number | null)[] = []
  for (const part of parts) measured.push(await part.measure(plan.roundMs / parts.length, plan.signal))
  return measured
}

function showProgress({ name, scenario, plan }: ScenarioRun, number: number, what: string): OnSecond {
  return progressLine(`${name} ${number}/${plan.rounds} ${what}`, scenario.eventsPerOperation)
}

function readUsages({ servicePid, postgresPid }: Target): { service: Usage | null; postgres: Usage | null } {
  return { service: usageOf(servicePid), postgres: usageOf(postgresPid) }
}

function cpuMsBetween(before: Usage | null, after: Usage | null): number | null {
  return before && after ? after.cpuMs - before.cpuMs : null
}
