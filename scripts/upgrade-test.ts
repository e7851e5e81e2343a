import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { openConnection } from './load-test/database/connection.ts'
import { createDatabase, openPostgres } from './load-test/database/postgres.ts'
import { UsageError } from './load-test/usage-error.ts'
import { checkOut, findCommit, LAST_RELEASE } from './upgrade-test/checkout.ts'
import { register, signIn } from './upgrade-test/members.ts'
import { startSide } from './upgrade-test/side.ts'
import { WORK } from './upgrade-test/work.ts'

/**
 * The upgrade test: the service of an earlier commit and that of this checkout, side by side on one database, as during an
 * upgrade. upgrade-test/work.ts has what they do together.
 */

const LONGEST_MS = 15 * 60_000

const USAGE = `Usage: npm run upgrade-test -- [COMMIT]

Starts the service of COMMIT, by default of the last release (${LAST_RELEASE}), and then that of this checkout beside it,
which migrates their database. What is begun at one of them goes on at the other, and the other way round. Each request
is printed with the side that it went to, and at the end what passed; the exit status is 1 if something failed. The
database is a new one: on the server of DATABASE_URL, or on a Postgres of its own.`

interface Outcome {
  title: string
  /** Null if it passed. */
  fault: string | null
}

async function main(): Promise<void> {
  const options = readOptions()
  if (options.help) return console.log(USAGE)
  const commit = await findCommit(options.commit ?? LAST_RELEASE)
  if (commit) return report(await run(commit, stopSignal()))
  if (options.commit) throw new UsageError(`This repository has no commit ${options.commit}.`)
  const advice = 'Get it with `git fetch --unshallow`.'
  console.log(`Skipped: the history here does not have the last release, ${LAST_RELEASE}. ${advice}`)
}

function readOptions(): { help: boolean; commit: string | undefined } {
  try {
    const help = { type: 'boolean', default: false } as const
    const { values, positionals } = parseArgs({ options: { help }, allowPositionals: true })
    const [commit, ...more] = positionals
    if (more.length > 0) throw new Error('Give one COMMIT.')
    return { ...values, commit }
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Aborts when the test is asked to end, or takes too long. What was started is then stopped in order. */
function stopSignal(): AbortSignal {
  const stop = new AbortController()
  const end = (why: string) => stop.abort(new UsageError(`${why}, so this shows nothing.`))
  process.on('SIGINT', () => end('Ended early')).on('SIGTERM', () => end('Ended early'))
  setTimeout(() => end('It took too long'), LONGEST_MS).unref()
  return stop.signal
}

async function run(commit: string, signal: AbortSignal): Promise<Outcome[]> {
  await using cleanup = new AsyncDisposableStack()
  const postgres = await openPostgres(cleanup)
  const checkout = await checkOut(commit, postgres.folder, signal)
  const databaseUrl = await createDatabase(postgres, cleanup)
  const connection = await openConnection(databaseUrl)
  cleanup.defer(() => connection.end())
  const variables = {
    MASTER_KEYS: `upgrade:${randomBytes(32).toString('base64')}`,
    PUBLIC_URL: 'http://upgrade.example',
    PLATFORM_PORT: '0',
    // All requests come from one network.
    RATE_LIMIT_SCALE: '1000',
  }
  const deployment = { databaseUrl, folder: postgres.folder, variables, signal }

  const name = commit.slice(0, 7)
  // It has statements and rows of its own before the present one migrates the tables under it.
  const old = await startSide(name, checkout, deployment, cleanup)
  const world = { connection, admin: await register(old, old, old) }
  const present = await startSide('present', undefined, deployment, cleanup)

  const outcomes: Outcome[] = []
  async function attempt(title: string, work: () => Promise<unknown>): Promise<void> {
    console.log(`\n${title}`)
    const fault = await work().then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    )
    signal.throwIfAborted()
    outcomes.push({ title, fault })
  }
  for (const [title, work] of Object.entries(WORK)) {
    await attempt(`${title}: ${name}, then present`, () => work(old, present, world))
    await attempt(`${title}: present, then ${name}`, () => work(present, old, world))
  }
  await attempt(`a start on the new tables: ${name}`, async () => {
    const late = await startSide(`${name}-late`, checkout, deployment, cleanup)
    await present.ask('GET /auth/session', { by: await signIn(late, world.admin) })
  })
  return outcomes
}

function report(outcomes: Outcome[]): void {
  console.log()
  for (const { title, fault } of outcomes)
    console.log(fault ? `FAILED  ${title}: ${fault}` : `passed  ${title}`)
  const failed = outcomes.filter(({ fault }) => fault !== null).length
  console.log(`\n${outcomes.length - failed} passed, ${failed} failed.`)
  if (failed > 0) process.exitCode = 1
}

await main().catch((error: unknown) => {
  // What the signal has broken off says why only in its cause.
  const fault = error instanceof Error && error.name === 'AbortError' ? error.cause : error
  console.error(fault instanceof UsageError ? fault.message : fault)
  process.exitCode = 1
})
