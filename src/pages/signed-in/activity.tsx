import { download } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { Section, Title } from '../parts.tsx'
import { usePages, Waiting } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Session } from '../routes.ts'
import { Chart } from './activity-chart.tsx'
import { ActivityFilter } from './activity-filter.tsx'
import { EntryTable } from './entry-table.tsx'

export function Activity({ session: { accessContext } }: { session: Session }) {
  const [{ action, outcome, actor, subject, ...days }] = useQuery()
  const filter = { action, outcome, actor, subject, ...timesOf(days) }
  const { pages, first, moreButton } = usePages('GET /auth/audit', { limit: 100, ...filter })
  const hasEntries = pages.some(({ entries }) => entries.length > 0)
  const saving = useChange()
  function save(format: string, accept: string): Promise<void> {
    const { companyHandle, companyId } = accessContext
    // Swedish dates are local, and written as in ISO 8601.
    const name = `audit-${companyHandle ?? companyId}-${new Date().toLocaleDateString('sv')}.${format.toLowerCase()}`
    return saving.run(() => download(name, 'GET /auth/audit', { query: filter, headers: { accept } }))
  }
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
            {Object.entries(FORMATS).map(([format, type]) => (
              <button
                key={format}
                type="button"
                class="small"
                aria-disabled={saving.isBusy}
                onClick={() => save(format, type)}
              >
                {format}
              </button>
            ))}
          </div>
        }
      >
        <Outcome of={saving} />
        <ActivityFilter />
        <Waiting of={first} />
        {first.data && !hasEntries && (
          <p class="quiet" role="status">
            No events match. Clear the filter or choose different days.
          </p>
        )}
        {hasEntries && <EntryTable pages={pages} />}
        {moreButton('Show older')}
      </Section>
    </>
  )
}

const FORMATS = { CSV: 'text/csv', NDJSON: 'application/x-ndjson' }

/** `from` and `to` are local days, and include the whole last day. `day` is a bar of the chart, in UTC. */
function timesOf({ from, to, day }: Record<string, string>) {
  const [first, last, zone] = day ? [day, day, 'Z'] : [from, to, '']
  return { from: timeAt(`${first}T00:00${zone}`), to: timeAt(`${last}T24:00${zone}`) }
}

function timeAt(text: string): string | undefined {
  const time = Date.parse(text)
  return Number.isNaN(time) ? undefined : new Date(time).toISOString()
}
