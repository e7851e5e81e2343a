import { abortOnInterrupt, runMain } from './kit/command.ts'
import { openPostgres } from './kit/postgres.ts'
import { describeMachine, requireWritable, writeReport } from './kit/report.ts'
import { type Figures, measureScenario } from './load-test/measure.ts'
import { type Options, readOptions, USAGE } from './load-test/options.ts'
import { isClean, toText } from './load-test/report.ts'
import { startGatehouse, startPlain } from './load-test/services.ts'
import { openStatements } from './load-test/statements.ts'

/**
 * The load test: puts load on gatehouse and on a plain service beside it, scenario by scenario, and compares what an operation
 * costs with that service, and with what it cannot do without.
 */

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return console.log(USAGE)
  await requireWritable(options.json)
  const signal = abortOnInterrupt()
  const figures = await measureAll(options, signal)
  console.log(`\n${describeMachine()}\n\n${toText(figures)}`)
  if (signal.aborted) console.log('\nEnded early: these are the figures until then.')
  await writeReport(options.json, { wasInterrupted: signal.aborted, figures })
  process.exitCode = isClean(figures) ? 0 : 1
}

async function measureAll(options: Options, signal: AbortSignal): Promise<Figures[]> {
  await using cleanup = new AsyncDisposableStack()
  const postgres = await openPostgres(cleanup)
  const gatehouse = await startGatehouse(postgres, options, cleanup)
  const plain = await startPlain(postgres, cleanup)
  const { folder, pid: postgresPid } = postgres
  if (postgresPid !== undefined) await openStatements({ ...gatehouse, pid: postgresPid, folder })
  const all: Figures[] = []
  for (const [name, scenario] of options.scenarios) {
    if (signal.aborted) break
    const connections = options.connections ?? scenario.connections
    const services = { gatehouse, plain, postgresPid, folder }
    const figures = await measureScenario(name, scenario, {
      ...{ ...options, ...services, connections, signal, onSecond: showProgress },
    })
    if (figures) all.push(figures)
  }
  showProgress('', 0)
  return all
}

const CLEAR_LINE = '\r\u001b[K'
let shown = ''

/** One line that is overwritten each second, or a line for each part of a round in a file. */
function showProgress(what: string, requests: number): void {
  const line = what && `${what}: ${requests.toLocaleString('en')} requests/s`
  if (process.stderr.isTTY) process.stderr.write(`${CLEAR_LINE}${line}`)
  else if (line && what !== shown) console.error(line)
  shown = what
}

await runMain('load-test', main)
