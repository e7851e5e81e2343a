import { useEffect, useRef, useState } from 'preact/hooks'

/** How pages load what they show, and say that they wait or what failed. */

interface Loaded<Value> {
  /** Null until it is there. What was loaded before stays while something else is loaded. */
  value: Value | null
  error: string | null
  reload: () => void
}

/** Loads what a page shows, and again when a value of `on` changes. */
export function useLoaded<Value>(load: () => Promise<Value>, on: unknown[] = []): Loaded<Value> {
  const [value, setValue] = useState<Value | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    let isCurrent = true
    load().then(
      (loaded) => {
        if (!isCurrent) return
        setValue(loaded)
        setError(null)
      },
      (fault: Error) => isCurrent && setError(fault.message),
    )
    return () => {
      isCurrent = false
    }
  }, [turn, ...on])
  return { value, error, reload: () => setTurn((last) => last + 1) }
}

/** Says that something is not loaded yet, or could not be. */
export function Waiting({ of: { value, error, reload } }: { of: Loaded<unknown> }) {
  if (!error) return value === null ? <p class="quiet">Loading…</p> : null
  return (
    <p class="error box" role="alert">
      {error}{' '}
      <button type="button" class="small" onClick={reload}>
        Try again
      </button>
    </p>
  )
}

interface Page<Row> {
  rows: Row[]
  nextCursor: string | null
}

/** Loads a list page by page, from the beginning when a value of `on` changes. */
export function usePages<Row extends { id: string }>(
  load: (cursor: string | null) => Promise<Page<Row>>,
  on: unknown[],
) {
  const first = useLoaded(() => load(null), on)
  const [rows, setRows] = useState<Row[]>([])
  const [cursor, setCursor] = useState<string | null>(null)
  const more = useChange()
  // What is shown now; an answer for another list comes too late.
  const shown = useRef<Page<Row> | null>(null)
  useEffect(() => {
    shown.current = first.value
    if (!first.value) return
    setRows(first.value.rows)
    setCursor(first.value.nextCursor)
  }, [first.value])

  const readOn = () =>
    more.run(async () => {
      const before = shown.current
      const next = await load(cursor)
      if (shown.current !== before) return
      setRows((all) => [...all, ...next.rows])
      setCursor(next.nextCursor)
    })
  return {
    first,
    rows,
    /** Puts a row in the place of the one with its id. */
    replace: (row: Row) => setRows((all) => all.map((one) => (one.id === row.id ? row : one))),
    remove: (id: string) => setRows((all) => all.filter((one) => one.id !== id)),
    /** A button that reads on, if there is more. */
    moreButton: (label: string) => (
      <>
        {more.shown}
        {cursor !== null && (
          <button type="button" onClick={readOn} disabled={more.isBusy}>
            {label}
          </button>
        )}
      </>
    ),
  }
}

/** Runs one change at a time, and keeps what it says if it is refused. */
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

const POLLED_MS = 10 * 60_000

/** Runs again and again while the page is looked at, for ten minutes at most: what is asked for keeps a session alive. */
export function usePolling(run: () => void, everyMs: number, isActive = true): void {
  const current = useRef(run)
  current.current = run
  useEffect(() => {
    if (!isActive) return
    const timer = setInterval(() => document.hidden || current.current(), everyMs)
    const end = setTimeout(() => clearInterval(timer), POLLED_MS)
    return () => {
      clearInterval(timer)
      clearTimeout(end)
    }
  }, [everyMs, isActive])
}
