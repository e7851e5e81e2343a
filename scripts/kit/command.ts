import { type ParseArgsConfig, parseArgs } from 'node:util'

/** Shared by all programs: reading options, reporting mistakes, and ending cleanly. */

/** A mistake that the user can correct. It is printed without a stack trace. */
export class UsageError extends Error {}

/** `name`: the npm script, whose --help is recommended after a mistake. */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  await main().catch((error: unknown) => {
    const help = `\`npm run ${name} -- --help\` shows the options.`
    console.error(error instanceof UsageError ? `${error.message}\n${help}` : error)
    process.exitCode = 1
  })
}

/** @throws UsageError */
export function readArgs<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config)
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** A number above 0. @throws UsageError */
export function readNumber(option: string, text: string, { isWhole = false, max = 1e9 } = {}): number {
  const value = Number(text)
  if (value > 0 && value <= max && (Number.isInteger(value) || !isWhole)) return value
  const kind = isWhole ? 'whole number' : 'number'
  const most = max.toLocaleString('en')
  throw new UsageError(`--${option} must be a ${kind} above 0 and at most ${most}, not ${text}`)
}

/** npm forwards the Ctrl+C that the terminal also sends to us. Within this time, both count as one. */
const SAME_INTERRUPT_MS = 500

/** The first Ctrl+C ends the work cleanly, the second one the process. */
export function abortOnInterrupt(): AbortSignal {
  const stop = new AbortController()
  let firstAt = 0
  function onSignal(): void {
    if (!stop.signal.aborted) {
      firstAt = performance.now()
      console.error('\nEnding. Press Ctrl+C again to quit immediately, without cleaning up.')
      stop.abort()
    } else if (performance.now() - firstAt > SAME_INTERRUPT_MS) process.exit(130)
  }
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal)
  return stop.signal
}
