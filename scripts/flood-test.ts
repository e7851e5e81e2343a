import { once } from 'node:events'
import type { Figures } from './flood-test/aims.ts'
import { type Options, readOptions, USAGE } from './flood-test/options.ts'
import { toText } from './flood-test/report.ts'
import { runFlood } from './flood-test/run.ts'
import { abortOnInterrupt, runMain, UsageError } from './kit/command.ts'
import { openPostgres } from './kit/postgres.ts'
import { describeMachine, requireWritable, writeReport } from './kit/report.ts'

/** The flood test: measures successes and latencies of honest users while strangers flood the service. */

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return console.log(USAGE)
  if (process.platform !== 'linux') throw new UsageError('The flood test needs Linux: see --help.')
  await requireWritable(options.json)
  const signal = abortOnInterrupt()
  const figures = await runAll(options, signal)
  const missed = figures.flatMap(({ flood, findings }) =>
    findings.filter(({ isMet }) => !isMet).map(({ what, measured }) => `${flood}: ${what}: ${measured}`),
  )
  console.log(`\n${describeMachine()}\n`)
  if (signal.aborted) console.log('Ended early: the figures are incomplete.')
  if (missed.length > 0) console.log(`Missed aims:\n${missed.join('\n')}`)
  else if (!signal.aborted) console.log('All aims were met.')
  await writeReport(options.json, { figures })
  if (missed.length > 0 || signal.aborted) process.exitCode = 1
}

async function runAll({ floods, seconds }: Options, signal: AbortSignal): Promise<Figures[]> {
  await using cleanup = new AsyncDisposableStack()
  const postgres = await openPostgres(cleanup)
  const all: Figures[] = []
  for (const name of floods) {
    const opened = cleanup.use(new AsyncDisposableStack())
    const figures = await Promise.race([runFlood(name, seconds, postgres, opened), aborted(signal)])
    if (!figures) break
    await opened.disposeAsync()
    console.log(`${toText(figures)}\n`)
    all.push(figures)
  }
  return all
}

async function aborted(signal: AbortSignal): Promise<null> {
  if (!signal.aborted) await once(signal, 'abort')
  return null
}

await runMain('flood-test', main)
