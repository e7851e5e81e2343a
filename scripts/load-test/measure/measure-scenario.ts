import { drive } from '../drive/drive.ts'
import type { OpenScenario, Scenario, ScenarioContext } from '../scenarios/scenario.ts'
import { type Figures, toFigures } from './figures.ts'
import { clearProgress } from './progress.ts'
import { measureRound, type Plan, type Round, type ScenarioRun } from './round.ts'

const MAX_WARM_UP_MS = 2_000

/** Opens a scenario, warms it up, measures its rounds and closes it. Null if it was interrupted before. */
export async function measureScenario(
  name: string,
  scenario: Scenario,
  context: ScenarioContext,
  plan: Plan,
): Promise<Figures | null> {
  await using cleanup = new AsyncDisposableStack()
  const open = await scenario.open(context, cleanup)
  const scenarioRun = { name, scenario, open, baseline: comparableBaseline(scenario, open, plan), plan }
  await warmUp(scenarioRun)
  const rounds: Round[] = []
  for (let number = 1; number <= plan.rounds && !plan.signal.aborted; number += 1)
    rounds.push(await measureRound(scenarioRun, number))
  clearProgress()
  return rounds.length > 0 ? toFigures(scenarioRun, context.connections, rounds) : null
}

/** A fixed rate says nothing about the highest rate, so it is not compared with a limit of the machine. */
function comparableBaseline(scenario: Scenario, open: OpenScenario, plan: Plan): ScenarioRun['baseline'] {
  return scenario.baseline?.compare === 'rate' && plan.rate !== undefined ? undefined : open.baseline
}

/** Caches fill and code is compiled before anything counts. */
async function warmUp({ baseline, open, plan: { roundMs, signal } }: ScenarioRun): Promise<void> {
  const durationMs = Math.min(MAX_WARM_UP_MS, roundMs)
  if (baseline) await drive({ operations: baseline, durationMs, signal })
  await drive({ operations: await open.operations(durationMs / 1000), durationMs, signal })
}
