/** npm forwards the Ctrl-C that the terminal has sent to us too. Within this time both are one. */
const SAME_INTERRUPT_MS = 500

/** The first Ctrl-C ends the work in order, the second one the process. */
export function abortOnInterrupt(): AbortSignal {
  const stop = new AbortController()
  let firstAt = 0
  function onSignal(): void {
    if (!stop.signal.aborted) {
      firstAt = performance.now()
      console.error('\nending; press Ctrl-C again to leave at once, whatever stays')
      stop.abort()
    } else if (performance.now() - firstAt > SAME_INTERRUPT_MS) process.exit(130)
  }
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal)
  return stop.signal
}
