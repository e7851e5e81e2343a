import { useEffect, useState } from 'preact/hooks'
import { type Audit, call, download, type Member } from '../api.ts'
import { useChange, usePages, Waiting } from '../loading.tsx'
import { Time, Title } from '../parts.tsx'
import { ACTIONS, DETAILS, METHODS, REASONS } from './actions.ts'
import { Chart } from './activity-chart.tsx'
import { FilterBar } from './activity-filter.tsx'

type Entry = Audit['entries'][number]

/** The audit trail, and a chart of it. */
export function Activity() {
  const [filter, setFilter] = useState('')
  const entries = usePages<Entry>(
    async (cursor) => {
      const path = `/auth/audit?limit=50${filter}${cursor === null ? '' : `&cursor=${cursor}`}`
      const { entries: rows, nextCursor } = await call<Audit>(path, { method: 'GET' })
      return { rows, nextCursor }
    },
    [filter],
  )
  const { rows } = entries
  const names = useNames(rows)
  return (
    <>
      <Title>Activity</Title>
      <Chart />
      <section aria-labelledby="trail">
        <div class="heading">
          <h2 id="trail">What was done</h2>
          <Download query={filter.slice(1)} />
        </div>
        <FilterBar names={names} onChange={setFilter} />
        <Waiting of={entries.first} />
        {entries.first.value && rows.length === 0 && <p class="empty">Nothing of this kind has happened.</p>}
        {rows.length > 0 && (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
          <div class="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">When</th>
                  <th scope="col">Who</th>
                  <th scope="col">What</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((entry) => (
                  <Row key={entry.id} entry={entry} names={names} />
                ))}
              </tbody>
            </table>
          </div>
        )}
        {entries.moreButton('Show older')}
      </section>
    </>
  )
}

function Row({ entry, names }: { entry: Entry; names: Map<string, string> }) {
  const { occurredAt, actor, action, outcome, subject, details, ipAddress, reason, count = 1 } = entry
  return (
    <tr>
      <td>
        <Time at={occurredAt} />
        {ipAddress && <div class="quiet"> from {ipAddress}</div>}
      </td>
      <td>{actor === 'operator' ? 'an operator' : <Who id={actor ?? 'nobody known'} names={names} />}</td>
      <td>
        {outcome !== 'done' && `was ${outcome}: `}
        {reason === undefined ? (ACTIONS[action] ?? action) : subject ? 'a sign-in as' : 'a sign-in'}
        {subject && subject !== actor && !isOfFactor(action) && (
          <>
            {' '}
            <Who id={subject} names={names} />
          </>
        )}
        {details && <div class="quiet">{inWords(details)}</div>}
        {reason !== undefined && (
          <div class="quiet">
            {REASONS[reason] ?? reason}
            {count > 1 && `, ${count} times`}
          </div>
        )}
      </td>
    </tr>
  )
}

/** Whether the subject is a second factor, which only its owner knows. */
function isOfFactor(action: string): boolean {
  return action === 'second_factor_add' || action === 'second_factor_remove'
}

/** What was changed: from what to what, or what was said besides. */
function inWords(details: object): string {
  const { before, after, ...others }: { before?: object; after?: object } = { ...details }
  const nameOf = (name: string) => DETAILS[name] ?? name
  const changes = Object.entries(after ?? {}).map(
    ([name, value]) => `${nameOf(name)}: ${textOf(before?.[name as keyof typeof before])} → ${textOf(value)}`,
  )
  const said = Object.entries(others).map(([name, value]) => {
    if (name === 'reason') return REASONS[String(value)] ?? textOf(value)
    const isOfProof = ['kind', 'method', 'methods'].includes(name)
    return `${nameOf(name)}: ${isOfProof ? methodsOf(value) : textOf(value)}`
  })
  return [...changes, ...said].join('; ')
}

const textOf = (value: unknown) => [value].flat().join(', ')
/** Without what follows from the others: that there were several, or that the device verified its user. */
const methodsOf = (value: unknown) =>
  textOf([value].flat().flatMap((method) => METHODS[String(method)] ?? []))

/** A member by name; whoever is gone, by id. */
function Who({ id, names }: { id: string; names: Map<string, string> }) {
  const name = names.get(id)
  return name === undefined || name === id ? <code>{id}</code> : <span title={id}>{name}</span>
}

/** The names of the members of whom entries tell, by id. Who is deleted has none. */
function useNames(rows: Entry[]): Map<string, string> {
  const [names, setNames] = useState(new Map<string, string>())
  useEffect(() => {
    const ids = new Set(
      rows.flatMap(({ action, actor, subject }) => (isOfFactor(action) ? [actor] : [actor, subject])),
    )
    const unknown = [...ids].filter((id): id is string => id !== null && UUID.test(id) && !names.has(id))
    if (unknown.length === 0) return
    const read = (id: string) =>
      call<Member>(`/auth/members/${id}`, { method: 'GET' }).then(
        ({ name }): [string, string] => [id, name],
        (): [string, string] => [id, id],
      )
    Promise.all(unknown.map(read)).then((found) => setNames((before) => new Map([...before, ...found])))
  }, [rows])
  return names
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** All that matches, as a file. */
function Download({ query }: { query: string }) {
  const { run, isBusy, shown } = useChange()
  const save = () => run(() => download(`/auth/audit?${query}`, 'application/x-ndjson', 'audit.ndjson'))
  return (
    <>
      <button type="button" class="small" onClick={save} disabled={isBusy}>
        {isBusy ? 'One moment…' : 'Download as NDJSON'}
      </button>
      {shown}
    </>
  )
}
