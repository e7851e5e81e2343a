import { useRef, useState } from 'preact/hooks'
import { useChange, useLoaded } from './data.tsx'
import { useQuery } from './router.ts'

/** Paginated lists. */

interface Page<Row> {
  rows: Row[]
  nextCursor: string | null
}

/** Loaded together when Back returns to a list. */
const MAX_PAGES = 50

/**
 * Starts from the first page when the filter or `turn` changes. The query keeps the number of pages as `shown`, so that
 * Back restores them. A change of the filter sets it to ''.
 */
export function usePages<Row extends { id: string }, More extends object>(
  load: (cursor: string | undefined, signal?: AbortSignal) => Promise<Page<Row> & More>,
  filter: Record<string, string | undefined>,
  turn = 0,
) {
  const wanted = JSON.stringify(filter)
  /** Rows are shown only under the filter that they match, even while a different one loads, or if it fails. */
  const [loaded, setLoaded] = useState<{ filter: string; pages: (Page<Row> & More)[] } | null>(null)
  /** Detects responses for a previous list. */
  const list = useRef(0)
  const more = useChange()
  const [{ shown = '1' }, changeQuery] = useQuery()
  const last = useLoaded(
    async (signal) => {
      list.current += 1
      const read = [await load(undefined, signal)]
      for (let left = Math.min(Number(shown), MAX_PAGES) - 1; left > 0; left -= 1) {
        const next = read.at(-1)?.nextCursor
        if (next) read.push(await load(next, signal))
      }
      list.current += 1
      setLoaded({ filter: wanted, pages: read })
    },
    { on: [wanted, turn] },
  )
  const value = loaded?.filter === wanted ? loaded.pages : null
  const pages = value ?? []
  const cursor = pages.at(-1)?.nextCursor ?? null
  const readOn = () =>
    more.run(async () => {
      const before = list.current
      const page = await load(cursor ?? undefined)
      if (list.current !== before) return
      change((all) => [...all, page])
      changeQuery({ shown: String(pages.length + 1) })
    })
  const change = (edit: (pages: (Page<Row> & More)[]) => (Page<Row> & More)[]) =>
    setLoaded((all) => all && { ...all, pages: edit(all.pages) })
  const changeRows = (edit: (rows: Row[]) => Row[]) =>
    change((all) => all.map((page) => ({ ...page, rows: edit(page.rows) })))
  return {
    first: { ...last, value },
    pages,
    rows: pages.flatMap(({ rows }) => rows),
    /** Replaces the row with the same ID. */
    replace: (row: Row) => changeRows((rows) => rows.map((one) => (one.id === row.id ? row : one))),
    remove: (id: string) => changeRows((rows) => rows.filter((one) => one.id !== id)),
    /** A button that loads the next page, if there is one. */
    moreButton: (label: string) => (
      <>
        {more.shown}
        {cursor !== null && (
          <button type="button" onClick={readOn} disabled={more.isBusy}>
            {more.isBusy ? 'One moment…' : label}
          </button>
        )}
      </>
    ),
  }
}
