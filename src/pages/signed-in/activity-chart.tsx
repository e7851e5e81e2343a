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
  const [looked, setLooked] = useState<number | null>(null)
  /** The button that Tab reaches. */
  const [current, setCurrent] = useState(days.length - 1)
  const most = Math.max(1, ...days.map(({ signIns, refusals }) => signIns + refusals))
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(count, most * LEAST))
  const sum = (count: (day: Day) => number) =>
    days.reduce((total, day) => total + count(day), 0).toLocaleString(LOCALE)
  const [signIns, refusals] = [sum((one) => one.signIns), sum((one) => one.refusals)]
  const ends = [0, Math.floor(days.length / 2), days.length - 1]
  const day = looked === null ? undefined : days[looked]

  return (
    <>
      <p key={`${signIns} ${refusals}`} class="chart-legend">
        <span class="chart-key">Sign-ins: {signIns}</span>
        <span class="chart-key chart-key-refused">Refused sign-ins and changes: {refusals}</span>
      </p>
      <div class="chart-frame">
        <div class="chart-scale" translate={false} aria-hidden="true">
          <span>{most.toLocaleString(LOCALE)}</span>
          <span>0</span>
        </div>
        <div class="chart-plot">
          <svg
            class="chart"
            viewBox={`0 0 ${days.length} ${most}`}
            preserveAspectRatio="none"
            aria-hidden="true"
          >
            {days.map(({ date, signIns, refusals }, n) => {
              const [lower, upper] = [heightOf(signIns), heightOf(refusals)]
              const bar = { x: n + 0.1, width: 0.8 }
              return (
                <g key={date}>
                  <rect {...bar} class="chart-sign-ins" y={most - lower} height={lower} />
                  <rect {...bar} class="chart-refused" y={most - lower - upper} height={upper} />
                </g>
              )
            })}
          </svg>
          <div class="chart-days" role="toolbar" aria-label="Days, by their start" onKeyDown={moveFocus}>
            {days.map((one, n) => {
              const isChosen = query['day'] === one.date
              return (
                <button
                  key={one.date}
                  type="button"
                  class="chart-day"
                  tabIndex={n === current ? 0 : -1}
                  aria-label={inWords(one)}
                  aria-pressed={isChosen}
                  onClick={() => changeQuery({ day: isChosen ? '' : one.date, from: '', to: '', shown: '' })}
                  onFocus={() => {
                    setCurrent(n)
                    setLooked(n)
                  }}
                  onBlur={() => setLooked(null)}
                  onPointerEnter={() => setLooked(n)}
                  onPointerLeave={() => setLooked(null)}
                />
              )
            })}
          </div>
        </div>
        <div class="chart-dates" translate={false} aria-hidden="true">
          {ends.map((n) => (
            <span key={n}>{short.format(startOf(days[n]))}</span>
          ))}
        </div>
      </div>
      <p key={looked} class="quiet chart-reading" aria-hidden="true">
        {day ? `${inWords(day)}.` : 'Point at a bar for its numbers. Select it for its events.'}
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
