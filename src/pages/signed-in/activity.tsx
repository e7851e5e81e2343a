import { useRef } from 'preact/hooks'
import { call, download } from '../api.ts'
import { useChange, Waiting } from '../data.tsx'
import { usePages } from '../list.tsx'
import { Section, Title } from '../parts.tsx'
import { useQuery } from '../router.ts'
import type { AuditEntry } from '../routes.ts'
import { Chart } from './activity-chart.tsx'
import { ActivityFilter } from './activity-filter.tsx'
import { EntryTable, type Names } from './entry-table.tsx'

/** The audit log and its chart. The query keeps the filter. */
export function Activity() {
  const [query] = useQuery()
  const { action, actor, from, to } = query
  // Includes the whole last day.
  const filter = { action, actor, from: startOf(from, 0), to: startOf(to, 1) }
  const entries = usePages<AuditEntry, { names: Names }>(async (cursor, signal) => {
    const page = { limit: 100, cursor, ...filter }
    const answer = await call('GET /auth/audit', { query: page, ...(signal && { signal }) })
    return { rows: answer.entries, names: answer.names, nextCursor: answer.nextCursor }
  }, filter)
  const { rows, pages, first } = entries
  /** Includes names from previously shown entries. */
  const seen = useRef<Record<string, string>>({})
  const names = Object.assign(seen.current, ...pages.map((page) => page.names))
  const saving = useChange()
  const save = (format: keyof typeof FORMATS) =>
    saving.run(() => download(filter, FORMATS[format], `audit.${format.toLowerCase()}`))
  return (
    <>
      <Title>Activity</Title>
      <Chart />
      <Section
        id="trail"
        title="Audit log"
        aside={
          // biome-ignore lint/a11y/useSemanticElements: two buttons are not a set of fields
          <div class="downloads" role="group" aria-label="Download matching events">
            <span class="quiet">Download</span>
            {FORMAT_NAMES.map((format) => (
              <button
                key={format}
                type="button"
                class="small"
                disabled={saving.isBusy}
                onClick={() => save(format)}
              >
                {format}
              </button>
            ))}
          </div>
        }
      >
        {saving.shown}
        <ActivityFilter names={names} />
        <Waiting of={first} />
        {first.value && rows.length === 0 && (
          <p class="empty" role="status">
            No events match. Clear the filter or choose different days.
          </p>
        )}
        {rows.length > 0 && <EntryTable entries={rows} names={names} />}
        {entries.moreButton('Show older')}
      </Section>
    </>
  )
}

const FORMATS = { CSV: 'text/csv', NDJSON: 'application/x-ndjson' }
const FORMAT_NAMES = ['CSV', 'NDJSON'] as const

const DAY_MS = 24 * 60 * 60_000

/** The start of a day in UTC plus `daysLater`. Undefined without a valid day. */
function startOf(day: string | undefined, daysLater: number): string | undefined {
  const time = Date.parse(`${day}T00:00:00Z`)
  return Number.isNaN(time) ? undefined : new Date(time + daysLater * DAY_MS).toISOString()
}
