import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from './api.ts'

/** How pages load and change data: one request at a time for each resource. */

/** Polls slow down while nobody uses the page, and stop after an hour, because they keep the session alive. */
const SLOWEST_MS = 30_000
const SLOWER_EVERY_MS = 60_000
const IDLE_MS = 60 * 60_000

let usedAt = Date.now()
const USES = ['pointerdown', 'keydown', 'focus', 'visibilitychange'] as const
for (const use of USES) addEventListener(use, () => (usedAt = Date.now()), { capture: true, passive: true })

interface Loader<Value> {
  load: (signal: AbortSignal) => Promise<Value>
  onLoaded: (value: Value) => void
  onFailed: (error: Error) => void
  /** The time from a response to the next request; null to load once. */
  everyMs: () => number | null
}

/** Loads immediately, then on request or when due, until it is stopped. A reload during a request runs after it. */
function startLoading<Value>({ load, onLoaded, onFailed, everyMs }: Loader<Value>) {
  const stopped = new AbortController()
  const { signal } = stopped
  let isLoading = false
  let isAskedAgain = false
  let failures = 0
  let answeredAt = 0
  let timer: ReturnType<typeof setTimeout> | undefined

  async function run(): Promise<void> {
    isAskedAgain = isLoading
    if (isLoading) return
    isLoading = true
    clearTimeout(timer)
    try {
      const value = await load(signal)
      failures = 0
      if (!signal.aborted) onLoaded(value)
    } catch (error) {
      failures += 1
      if (!signal.aborted) onFailed(error instanceof Error ? error : new Error(String(error)))
    }
    isLoading = false
    answeredAt = Date.now()
    if (signal.aborted) return
    if (isAskedAgain) await run()
    else plan()
  }

  function plan(): void {
    clearTimeout(timer)
    const every = everyMs()
    const idle = Date.now() - usedAt
    if (every === null || isLoading || document.hidden || idle > IDLE_MS) return
    const slower = Math.min(SLOWEST_MS, every * (1 + idle / SLOWER_EVERY_MS) * 2 ** Math.min(failures, 4))
    timer = setTimeout(run, Math.max(0, answeredAt + slower - Date.now()))
  }

  for (const use of USES) addEventListener(use, plan, { capture: true, passive: true, signal })
  void run()
  return {
    reload: run,
    plan,
    stop() {
      clearTimeout(timer)
      stopped.abort()
    },
  }
}

export interface Loaded<Value> {
  /** Null until loaded. The previous value stays while a new one loads. */
  value: Value | null
  error: string | null
  /** The code of the error. */
  code: string | null
  reload: () => void
}

const NOTHING = { value: null, error: null, code: null }
const codeOf = (error: Error) => (error instanceof ApiError ? error.code : null)

/** Loads again when a value of `on` changes, and `everyMs` after each response. */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  { on = [], everyMs = null }: { on?: unknown[]; everyMs?: number | null } = {},
): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, 'reload'>>(NOTHING)
  const given = useRef({ load, everyMs })
  given.current = { load, everyMs }
  const loader = useRef<ReturnType<typeof startLoading> | null>(null)
  useEffect(() => {
    // The error belongs to the previous request.
    setState(({ value }) => ({ ...NOTHING, value }))
    loader.current = startLoading({
      load: (signal) => given.current.load(signal),
      onLoaded: (value) => setState({ ...NOTHING, value }),
      onFailed: (error) => setState(({ value }) => ({ value, error: error.message, code: codeOf(error) })),
      everyMs: () => given.current.everyMs,
    })
    return loader.current.stop
  }, on)
  useEffect(() => loader.current?.plan(), [everyMs])
  return { ...state, reload: () => void loader.current?.reload() }
}

/** The loading state or the error. If `isFinal`, a retry does not help. */
export function Waiting({ of, isFinal = false }: { of: Loaded<unknown>; isFinal?: boolean }) {
  const { value, error, reload } = of
  if (!error) return value === null ? <p class="quiet">Loading…</p> : null
  return (
    <p class="error box" role="alert">
      {error}{' '}
      {!isFinal && (
        <button type="button" class="small" onClick={reload}>
          Try again
        </button>
      )}
    </p>
  )
}

/** Runs one change at a time, and keeps its error message. */
export function useChange() {
  const [fault, setFault] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  async function run(change: () => Promise<unknown>): Promise<void> {
    setBusy(true)
    setFault(null)
    try {
      await change()
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error))
    } finally {
      setBusy(false)
    }
  }
  const shown = fault && (
    <p class="error box" role="alert">
      {fault}
    </p>
  )
  return { run, isBusy, shown }
}
