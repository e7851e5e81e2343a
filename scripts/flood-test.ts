import { once } from 'node:events'
import type { Figures } from './flood-test/figures.ts'
import { FLOODS, TOGETHER_AIMS } from './flood-test/floods/list.ts'
import { type Options, readOptions, USAGE } from './flood-test/options.ts'
import { toText } from './flood-test/report/text.ts'
import { type Plan, runFlood } from './flood-test/run/run-flood.ts'
import { UsageError } from './kit/errors.ts'
import { abortOnInterrupt } from './kit/interrupt.ts'
import { openPostgres } from './kit/postgres.ts'
import { describeMachine, requireWritable, writeReport } from './kit/report.ts'

/**
 * The flood test: what strangers can send, beside honest users whose share of success and p99 are the result.
 * It uses parts of the load test. Imports run one way: each folder of flood-test/ uses only those above it.
 *
 *   generators/  floods of requests and of connections, as bytes on sockets
 *   target/      the service that is flooded, its tables and its mail
 *   honest/      the honest load, in a process of its own
 *   floods/      each flood with its aims; they run in a process of their own
 *   run/         one flood from the start of its service to its figures
 *   report/      the figures as text
 *
 * Besides these: options.ts reads the command line; networks.ts names IP addresses; figures.ts and aims.ts have the
 * result and what is aimed at. Files named *-process.ts run in processes of their own.
 */

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return console.log(USAGE)
  if (process.platform !== 'linux') throw new UsageError('The flood test needs Linux: see --help.')
  await requireWritable(options.json)
  const signal = abortOnInterrupt()
  const figures = await runAll(options, signal)
  const missed = figures.flatMap(({ flood, verdicts }) =>
    verdicts.filter(({ isMet }) => !isMet).map(({ aim, measured }) => `${flood}: ${aim}: ${measured}`),
  )
  console.log(`\n${describeMachine()}\n`)
  if (signal.aborted) console.log('Ended early: this is what was measured until then.')
  if (missed.length > 0) console.log(`Aims that were missed:\n${missed.join('\n')}`)
  else if (figures.length > 0) console.log('All aims were met.')
  await writeReport(options.json, { figures })
  if (options.check && (missed.length > 0 || signal.aborted)) process.exitCode = 1
}

async function runAll(options: Options, signal: AbortSignal): Promise<Figures[]> {
  await using cleanup = new AsyncDisposableStack()
  const postgres = await openPostgres(cleanup)
  const { floods, isAllTogether, ...rest } = options
  const settings = { ...rest, postgres }
  const plans: Plan[] = isAllTogether
    ? [{ name: 'all together', floods, aims: TOGETHER_AIMS, ...settings }]
    : floods.map((name) => ({ name, floods: [name], aims: FLOODS[name]?.aims ?? [], ...settings }))
  const all: Figures[] = []
  for (const plan of plans) {
    const opened = cleanup.use(new AsyncDisposableStack())
    const figures = await Promise.race([runFlood(plan, opened), aborted(signal)])
    if (!figures) break
    await opened.disposeAsync()
    console.log(`${toText(figures)}\n`)
    all.push(figures)
  }
  return all
}

/** Resolves when the signal is aborted. Then what was opened is closed, whatever it is doing. */
async function aborted(signal: AbortSignal): Promise<null> {
  if (!signal.aborted) await once(signal, 'abort')
  return null
}

await main().catch((error: unknown) => {
  const help = '`npm run flood-test -- --help` lists the options.'
  console.error(error instanceof UsageError ? `${error.message}\n${help}` : error)
  process.exitCode = 1
})
