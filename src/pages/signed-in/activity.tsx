import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { type Audit, call, type Daily, download, type Member } from '../api.ts'
import { Time, Title, useLoaded, Waiting } from '../parts.tsx'

type Entry = Audit['entries'][number]

/** What each action is called. */
const ACTIONS: Record<string, string> = {
  sign_in: 'signed in',
  logout: 'signed out',
  session_end: 'ended a session',
  sessions_end: 'ended sessions',
  refresh: 'refreshed a session',
  reauthenticate: 'gave the password again',
  password_change: 'changed the password',
  password_reset: 'reset the password',
  name_change: 'changed the name',
  email_change_request: 'asked for another e-mail',
  email_change: 'changed the e-mail',
  verify_email: 'confirmed the e-mail',
  register: 'registered the company',
  invite: 'invited',
  invite_resend: 'invited again',
  invite_withdraw: 'withdrew an invitation',
  accept_invitation: 'accepted an invitation',
  service_create: 'added a server',
  service_password: 'replaced the password of a server',
  user_create: 'added a member',
  user_role: 'changed a role',
  user_assignments: 'changed assignments',
  user_disable: 'disabled a member',
  user_enable: 'enabled a member',
  user_delete: 'deleted a member',
  user_unlock: 'unlocked a member',
  signing_secret_regenerate: 'replaced the signing secret',
  subscription_set: 'changed the subscription',
  company_create: 'opened the company, with',
  company_suspend: 'suspended the company',
  company_resume: 'resumed the company',
}

/** The audit trail, and a chart of it. */
export function Activity() {
  const [filter, setFilter] = useState('')
  const [rows, setRows] = useState<Entry[]>([])
  const [cursor, setCursor] = useState<string | null>(null)
  const path = `/auth/audit?limit=50${filter}`
  const { value, error, reload } = useLoaded(() => call<Audit>(path, { method: 'GET' }), [filter])
  useEffect(() => {
    if (!value) return
    setRows(value.entries)
    setCursor(value.nextCursor)
  }, [value])

  async function more(): Promise<void> {
    const next = await call<Audit>(`${path}&cursor=${cursor}`, { method: 'GET' })
    setRows([...rows, ...next.entries])
    setCursor(next.nextCursor)
  }

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
        {!value && <Waiting error={error} retry={reload} />}
        {value && rows.length === 0 && <p class="empty">Nothing of this kind has happened.</p>}
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
        {cursor && (
          <button type="button" onClick={more}>
            Show older
          </button>
        )}
      </section>
    </>
  )
}

interface FilterBarProps {
  names: Map<string, string>
  /** Gets the filter as parameters of a query, each after "&". */
  onChange: (filter: string) => void
}

/** What to show, by whom, and of which days. */
function FilterBar({ names, onChange }: FilterBarProps) {
  const form = useRef<HTMLFormElement>(null)
  const id = useId()

  function update(): void {
    if (!form.current) return
    const { action, actor, from, to } = Object.fromEntries(new FormData(form.current))
    // The last day counts as a whole.
    const filter = { action, actor, from: startOf(from, 0), to: startOf(to, 1) }
    const chosen = Object.entries(filter).filter(([, value]) => value)
    onChange(chosen.map(([name, value]) => `&${name}=${encodeURIComponent(String(value))}`).join(''))
  }

  return (
    <form ref={form} class="row" onChange={update} onSubmit={(event) => event.preventDefault()}>
      <div class="field">
        <label for={`${id}-action`}>Show</label>
        <select id={`${id}-action`} name="action">
          <option value="">everything</option>
          {Object.entries(ACTIONS).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for={`${id}-actor`}>By</label>
        <select id={`${id}-actor`} name="actor">
          <option value="">everybody</option>
          <option value="operator">operators</option>
          {[...names].map(([actor, name]) => (
            <option key={actor} value={actor}>
              {name}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for={`${id}-from`}>From</label>
        <input id={`${id}-from`} name="from" type="date" />
      </div>
      <div class="field">
        <label for={`${id}-to`}>To</label>
        <input id={`${id}-to`} name="to" type="date" />
      </div>
    </form>
  )
}

/** When a day begins where the browser is, so many days later; undefined without a day that there is. */
function startOf(day: unknown, daysLater: number): string | undefined {
  const time = new Date(`${day}T00:00`)
  time.setDate(time.getDate() + daysLater)
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}

function Row({ entry, names }: { entry: Entry; names: Map<string, string> }) {
  const { occurredAt, actor, action, outcome, subject, details, ipAddress } = entry
  return (
    <tr>
      <td>
        <Time at={occurredAt} />
        {ipAddress && <div class="quiet"> from {ipAddress}</div>}
      </td>
      <td>{actor === 'operator' ? 'an operator' : <Who id={actor ?? 'nobody known'} names={names} />}</td>
      <td>
        {ACTIONS[action] ?? action}
        {outcome !== 'done' && ` (${outcome})`}
        {subject && subject !== actor && (
          <>
            {' '}
            <Who id={subject} names={names} />
          </>
        )}
        {details && <div class="quiet">{inWords(details)}</div>}
      </td>
    </tr>
  )
}

/** What was changed: from what to what, or what was said besides. */
function inWords(details: object): string {
  const { before, after, ...others }: { before?: object; after?: object } = { ...details }
  const text = (value: unknown) => (Array.isArray(value) ? value.join(', ') : String(value))
  const changes = Object.entries(after ?? {}).map(
    ([name, value]) => `${name}: ${text(before?.[name as keyof typeof before])} → ${text(value)}`,
  )
  return [...changes, ...Object.entries(others).map(([name, value]) => `${name}: ${text(value)}`)].join('; ')
}

/** A member by name; whoever is gone, by id. */
function Who({ id, names }: { id: string; names: Map<string, string> }) {
  const name = names.get(id)
  return name === undefined || name === id ? <code>{id}</code> : <span title={id}>{name}</span>
}

/** The names of the members of whom entries tell, by id. Who is deleted has none. */
function useNames(rows: Entry[]): Map<string, string> {
  const [names, setNames] = useState(new Map<string, string>())
  useEffect(() => {
    const ids = new Set(rows.flatMap(({ actor, subject }) => [actor, subject]))
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
  const [isBusy, setBusy] = useState(false)
  const [fault, setFault] = useState<string | null>(null)
  async function save(): Promise<void> {
    setBusy(true)
    setFault(null)
    try {
      await download(`/auth/audit?${query}`, 'application/x-ndjson', 'audit.ndjson')
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <>
      <button type="button" class="small" onClick={save} disabled={isBusy}>
        {isBusy ? 'One moment…' : 'Download as NDJSON'}
      </button>
      {fault && (
        <p class="error box" role="alert">
          {fault}
        </p>
      )}
    </>
  )
}

const [WIDTH, HEIGHT] = [600, 120]

function Day({ at }: { at: string | undefined }) {
  const format = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })
  return at === undefined ? null : <time dateTime={at}>{format.format(new Date(at))}</time>
}

/** Sign-ins and refusals of the last 30 days, as bars; a table says the same to a screen reader. */
function Chart() {
  const { value, error, reload } = useLoaded(() =>
    call<Daily>('/auth/audit/daily?days=30', { method: 'GET' }),
  )
  const days = value?.days ?? []
  const most = Math.max(1, ...days.map(({ signIns, refusals }) => signIns + refusals))
  const width = WIDTH / 30
  const total = (read: (day: Daily['days'][number]) => number) =>
    days.reduce((sum, day) => sum + read(day), 0)
  return (
    <section aria-labelledby="days">
      <h2 id="days">The last 30 days</h2>
      {!value && <Waiting error={error} retry={reload} />}
      {value && (
        <>
          <svg
            class="chart"
            viewBox={`0 0 ${WIDTH} ${HEIGHT + 3}`}
            role="img"
            aria-label={`${total((day) => day.signIns)} sign-ins and ${total((day) => day.refusals)} refusals in 30 days`}
          >
            {days.map(({ date, signIns, refusals }, n) => {
              const [high, higher] = [signIns, refusals].map((count) => (HEIGHT * count) / most)
              return (
                <g key={date}>
                  <rect class="day" x={n * width + 2} width={width - 4} y={HEIGHT} height="3" />
                  <title>{`${date}: ${signIns} sign-ins, ${refusals} refusals`}</title>
                  <rect
                    class="sign-ins"
                    x={n * width + 2}
                    width={width - 4}
                    y={HEIGHT - (high ?? 0)}
                    height={high ?? 0}
                  />
                  <rect
                    class="refused"
                    x={n * width + 2}
                    width={width - 4}
                    y={HEIGHT - (high ?? 0) - (higher ?? 0)}
                    height={higher ?? 0}
                  />
                </g>
              )
            })}
          </svg>
          <p class="quiet legend">
            <span>
              <Day at={days[0]?.date} /> to today, in UTC; at most {most} a day
            </span>
            <span class="key">Sign-ins: {total((day) => day.signIns)}</span>
            <span class="key refused">Refusals: {total((day) => day.refusals)}</span>
          </p>
        </>
      )}
    </section>
  )
}
