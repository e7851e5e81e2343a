import { abortOnInterrupt, runMain } from './kit/command.ts'
import { openPostgres } from './kit/postgres.ts'
import { describeMachine, requireWritable, writeReport } from './kit/report.ts'
import { type Figures, measureScenario } from './load-test/measure.ts'
import { type Options, readOptions, USAGE } from './load-test/options.ts'
import { isClean, toText } from './load-test/report.ts'
import { startGatehouse, startPlain } from './load-test/services.ts'
import { openStatements } from './load-test/statements.ts'

/**
 * The load test: puts load on gatehouse and on a plain service in turn. Compares the cost of an operation with the cost in the
 * plain service, and with the cost of the parts that it needs.
 */

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return console.log(USAGE)
  await requireWritable(options.json)
  const signal = abortOnInterrupt()
  const figures = await measureAll(options, signal)
  console.log(`\n${describeMachine()}\n\n${toText(figures)}`)
  if (signal.aborted) console.log('\nEnded early: the figures are incomplete.')
  await writeReport(options.json, { wasInterrupted: signal.aborted, figures })
  process.exitCode = isClean(figures) ? 0 : 1
}

async function measureAll(
  { scenarios, workers, ...options }: Options,
  signal: AbortSignal,
): Promise<Figures[]> {
  await using cleanup = new AsyncDisposableStack()
  const postgres = await openPostgres(cleanup)
  const gatehouse = await startGatehouse(postgres, workers, cleanup)
  const plain = await startPlain(postgres, cleanup)
  await openStatements(gatehouse, postgres)
  const plan = { ...options, gatehouse, plain, postgres, signal }
  const all: Figures[] = []
  for (const [name, scenario] of scenarios) {
    const figures = signal.aborted ? null : await measureScenario(name, scenario, plan)
    if (figures) all.push(figures)
  }
  return all
}

await runMain('load-test', main)
