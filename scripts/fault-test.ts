import { once } from 'node:events'
import { readOptions, USAGE } from './fault-test/options.ts'
import { openStage } from './fault-test/run/open-stage.ts'
import { runFaults } from './fault-test/run/run-faults.ts'
import { toText } from './fault-test/run/text.ts'
import { UsageError } from './kit/errors.ts'
import { abortOnInterrupt } from './kit/interrupt.ts'

/**
 * The fault test: runs the real thing, breaks it, notes what every client saw, and lets a checker decide whether any legal
 * order explains it. It uses parts of the load test. Imports run one way: each folder of fault-test/ uses only those above it.
 *
 *   checker/  the history, the rule of each kind of subject, and the search for an order
 *   target/   two instances of the service on one Postgres, by a proxy of ours, or the cluster; and a mail server
 *   clients/  what people and servers do
 *   faults/   what happens meanwhile, and when
 *   run/      one run, from the start to the verdict
 */

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (!options) return console.log(USAGE)
  if (process.platform !== 'linux') throw new UsageError('The fault test needs Linux.')
  const signal = abortOnInterrupt()
  const { seed, workers, isCluster } = options
  const where = isCluster ? ' of the cluster' : ''
  console.log(
    `seed ${seed}, ${workers} ${workers === 1 ? 'worker' : 'workers'} in each of two instances${where}`,
  )
  await using cleanup = new AsyncDisposableStack()
  const given = { ...options, signal, say: console.log }
  const running = openStage(given, cleanup).then((stage) => runFaults(given, stage, cleanup))
  // What was opened is closed, whatever it is doing.
  const result = await Promise.race([running, once(signal, 'abort').then(() => null)])
  if (!result) {
    running.catch(() => {})
    console.log('Ended early, so this shows nothing.')
    process.exitCode = 1
    return
  }
  console.log(`\n${toText(result)}`)
  if (result.violations.length + result.brokenLimits.length > 0) process.exitCode = 1
}

await main().catch((error: unknown) => {
  const help = '`npm run fault-test -- --help` lists the options.'
  console.error(error instanceof UsageError ? `${error.message}\n${help}` : error)
  process.exitCode = 1
})
process.exit()
