import { Failure } from './load-test/drive/failure.ts'
import { abortOnInterrupt } from './load-test/interrupt.ts'
import { compare, type EarlierReport, readEarlierReport } from './load-test/judge/comparison.ts'
import { findMissed } from './load-test/judge/thresholds.ts'
import type { Figures } from './load-test/measure/figures.ts'
import { measureScenario } from './load-test/measure/measure-scenario.ts'
import { type Options, readOptions, USAGE } from './load-test/options.ts'
import { comparisonText } from './load-test/report/comparison.ts'
import { describeMachine, describePrograms, readMachine } from './load-test/report/machine.ts'
import { isClean, type Report } from './load-test/report/report.ts'
import { toText } from './load-test/report/text.ts'
import { requireWritable, writeReport } from './load-test/report/write-report.ts'
import { openTargets } from './load-test/target/targets.ts'
import { UsageError } from './load-test/usage-error.ts'

/**
 * The load test: puts load on a service, scenario by scenario, and compares each with a baseline, such as the
 * most that the machine can do. Imports run one way: each folder of load-test/ uses only those above it.
 *
 *   drive/       runs operations in a closed or an open loop and measures them
 *   operations/  what virtual users do: HTTP requests, each with the check of its answer
 *   database/    Postgres, and a company with users and sessions that are created in bulk
 *   target/      the service under load: started here, or joined by --url
 *   baselines/   what results are compared with: argon2id, the smallest answer, single statements
 *   scenarios/   which operations and which baseline belong together
 *   measure/     rounds, the use of CPU and memory, and the figures of a scenario
 *   judge/       limits for CI, and the comparison with an earlier report
 *   report/      the figures as text, JSON and HTML
 *
 * Besides these: options.ts reads the command line; http-client.ts, interrupt.ts, start-child.ts and process-usage.ts serve
 * several folders. Files named *-process.ts run in processes of their own.
 */

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return console.log(USAGE)
  try {
    await requireWritable(options.files)
    const earlier = options.compare === undefined ? null : await readEarlierReport(options.compare)
    const signal = abortOnInterrupt()
    const figures = await measureAll(options, signal)
    await report(options, figures, signal.aborted)
    judge(options, figures, earlier)
  } catch (error) {
    throw explain(error, options)
  }
}

async function measureAll(options: Options, signal: AbortSignal): Promise<Figures[]> {
  await using cleanup = new AsyncDisposableStack()
  const findTarget = openTargets({ ...options, signal }, cleanup)
  const all: Figures[] = []
  for (const [name, scenario] of options.scenarios) {
    if (signal.aborted) break
    const context = {
      connections: options.connections ?? scenario.connections,
      findTarget,
      startsServices: options.url === undefined,
      scaleSessions: options.scaleSessions,
    }
    const figures = await measureScenario(name, scenario, context, { ...options, signal })
    if (figures) all.push(figures)
  }
  return all
}

async function report(options: Options, figures: Figures[], wasInterrupted: boolean): Promise<void> {
  const machine = readMachine()
  const sharesMachine = options.url === undefined
  console.log(`\n${describeMachine(machine)}: ${describePrograms(sharesMachine)}\n`)
  console.log(toText(figures))
  if (wasInterrupted) console.log('\nEnded early: these are the figures until then.')
  const command = process.argv.slice(2)
  const at = new Date().toISOString()
  const content: Report = { wasInterrupted, sharesMachine, machine, command, at, figures }
  await writeReport(content, options.files)
  process.exitCode = isClean(figures) ? 0 : 1
}

/** Compares with an earlier report, and with the limits for CI. */
function judge({ thresholds }: Options, figures: Figures[], earlier: EarlierReport | null): void {
  if (earlier) console.log(`\n${comparisonText(compare(figures, earlier), earlier.at)}`)
  const missed = findMissed(thresholds, figures)
  for (const line of missed) console.error(line)
  if (missed.length > 0) process.exitCode = 1
}

/** What you can correct becomes a sentence; any other error keeps its stack trace. */
function explain(error: unknown, { url }: Options): unknown {
  if (error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED')
    return new UsageError(`Nothing answers at ${url ?? 'DATABASE_URL'}: ${error.message}`)
  if (error instanceof Failure) {
    const hint = error.code.startsWith('429') ? ' Start the service with RATE_LIMIT_SCALE=1000000.' : ''
    return new UsageError(`The load cannot be prepared: the service answered ${error.code}.${hint}`)
  }
  return error
}

await main().catch((error: unknown) => {
  const help = '`npm run load-test -- --help` lists the options.'
  console.error(error instanceof UsageError ? `${error.message}\n${help}` : error)
  process.exitCode = 1
})
