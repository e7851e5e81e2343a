import { useRef } from 'preact/hooks'
import { download } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { Section, Title } from '../parts.tsx'
import { usePages, Waiting } from '../queries.tsx'
import { useQuery } from '../router.ts'
import { Chart } from './activity-chart.tsx'
import { ActivityFilter } from './activity-filter.tsx'
import { EntryTable } from './entry-table.tsx'

/** The audit log and its chart. The query keeps the filter. */
export function Activity() {
  const [query] = useQuery()
  const { action, actor, from, to } = query
  // Includes the whole last day.
  const filter = { action, actor, from: startOf(from, 0), to: startOf(to, 1) }
  const { pages, first, moreButton } = usePages('GET /auth/audit', { limit: 100, ...filter })
  const entries = pages.flatMap((page) => page.entries)
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
                aria-disabled={saving.isBusy}
                onClick={() => save(format)}
              >
                {format}
              </button>
            ))}
          </div>
        }
      >
        <Outcome of={saving} />
        <ActivityFilter names={names} />
        <Waiting of={first} />
        {first.data && entries.length === 0 && (
          <p class="empty" role="status">
            No events match. Clear the filter or choose different days.
          </p>
        )}
        {entries.length > 0 && <EntryTable entries={entries} names={names} />}
        {moreButton('Show older')}
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
