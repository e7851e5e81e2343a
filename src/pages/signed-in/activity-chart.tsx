import { useState } from 'preact/hooks'
import { LOCALE, moveFocus, Section } from '../parts.tsx'
import { useRead, Waiting } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Day } from '../routes.ts'

const DAYS = 30
/** The minimum bar height, as a share of the maximum, so that small counts stay visible. */
const LEAST = 0.02

/** The service counts days in UTC. Here, each one is the 24 hours from a local time, so that the page has one time zone. */
const DAY = { day: 'numeric', month: 'short' } as const
const hour = new Intl.DateTimeFormat(LOCALE, { timeStyle: 'short' })
const short = new Intl.DateTimeFormat(LOCALE, DAY)
const long = new Intl.DateTimeFormat(LOCALE, { ...DAY, weekday: 'long', hour: 'numeric', minute: '2-digit' })

/** Sign-ins and refusals by day. Pointing at a day shows its numbers, and choosing it filters the entries. */
export function Chart() {
  const loaded = useRead('GET /auth/audit/daily', { query: { days: DAYS } })
  return (
    <Section
      id="days"
      title={`Last ${DAYS} days`}
      aside={
        <span class="quiet">
          Each bar covers 24 hours from {hour.format(new Date().setUTCHours(0, 0))} (midnight UTC).
        </span>
      }
    >
      <div class="chart-space">
        <Waiting of={loaded} />
        {loaded.data && <Bars days={loaded.data.days} />}
      </div>
    </Section>
  )
}

function Bars({ days }: { days: Day[] }) {
  const [query, changeQuery] = useQuery()
  const [looked, setLooked] = useState<Day | null>(null)
  /** The button that Tab reaches. */
  const [current, setCurrent] = useState(days.length - 1)
  const most = Math.max(1, ...days.map(({ signIns, refusals }) => signIns + refusals))
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(count / most, LEAST))
  const sum = (what: 'signIns' | 'refusals') =>
    days.reduce((total, day) => total + day[what], 0).toLocaleString(LOCALE)
  const [signIns, refusals] = [sum('signIns'), sum('refusals')]

  return (
    <>
      <p key={`${signIns} ${refusals}`} class="chart-legend">
        <span class="chart-key">Sign-ins: {signIns}</span>
        <span class="chart-key chart-refused">Refused sign-ins and changes: {refusals}</span>
      </p>
      <div class="quiet chart-frame">
        <div class="chart-scale" translate={false} aria-hidden="true">
          <span>{most.toLocaleString(LOCALE)}</span>
          <span>0</span>
        </div>
        <div class="chart-days" role="toolbar" aria-label="Days, by their start" onKeyDown={moveFocus}>
          {days.map((one, n) => {
            const isChosen = query['day'] === one.date
            return (
              <button
                key={one.date}
                type="button"
                class="chart-day"
                style={`--sign-ins: ${heightOf(one.signIns)}; --refusals: ${heightOf(one.refusals)}`}
                tabIndex={n === current ? 0 : -1}
                aria-label={inWords(one)}
                aria-pressed={isChosen}
                onClick={() => changeQuery({ day: isChosen ? '' : one.date, from: '', to: '', shown: '' })}
                onFocus={() => {
                  setCurrent(n)
                  setLooked(one)
                }}
                onBlur={() => setLooked(null)}
                onPointerEnter={() => setLooked(one)}
                onPointerLeave={() => setLooked(null)}
              />
            )
          })}
        </div>
        <div class="chart-dates" translate={false} aria-hidden="true">
          {[days[0], days[DAYS / 2], days.at(-1)].map((day) => (
            <span key={day?.date}>{short.format(startOf(day))}</span>
          ))}
        </div>
      </div>
      <p key={looked?.date} class="quiet chart-reading" aria-hidden="true">
        {looked ? `${inWords(looked)}.` : 'Point at a bar for its numbers. Select it for its events.'}
      </p>
    </>
  )
}

const startOf = (day: Day | undefined) => new Date(day?.date ?? 0)

/** A day and its numbers. Screen readers announce it as the button's name. */
function inWords(day: Day): string {
  const { signIns, refusals } = day
  const count = signIns === 1 ? '1 sign-in' : `${signIns.toLocaleString(LOCALE)} sign-ins`
  return `${long.format(startOf(day))}: ${count}, ${refusals.toLocaleString(LOCALE)} refused`
}
