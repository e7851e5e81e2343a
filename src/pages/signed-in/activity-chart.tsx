import { useRef, useState } from 'preact/hooks'
import { Section } from '../parts.tsx'
import { useRead, Waiting } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Day } from '../routes.ts'

const DAYS = 30
/** The minimum bar height, as a share of the maximum, so that small counts stay visible. */
const LEAST = 0.02

const short = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })
const long = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeZone: 'UTC' })

/** Sign-ins and refusals by day. Pointing at a day shows its numbers, and choosing it filters the entries. */
export function Chart() {
  const loaded = useRead('GET /auth/audit/daily', { query: { days: DAYS } })
  return (
    <Section id="days" title={`Last ${DAYS} days`}>
      <Waiting of={loaded} />
      {loaded.data && <Bars days={loaded.data.days} />}
    </Section>
  )
}

function Bars({ days }: { days: Day[] }) {
  const [query, changeQuery] = useQuery()
  const [looked, setLooked] = useState<number | null>(null)
  /** The button that Tab reaches. */
  const [current, setCurrent] = useState(days.length - 1)
  const buttons = useRef<(HTMLButtonElement | null)[]>([])
  const most = Math.max(1, ...days.map(({ signIns, refusals }) => signIns + refusals))
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(count, most * LEAST))
  const sum = (count: (day: Day) => number) => days.reduce((total, day) => total + count(day), 0)
  const ends = [0, Math.floor(days.length / 2), days.length - 1]
  const day = looked === null ? undefined : days[looked]

  function choose({ date }: Day, isChosen: boolean): void {
    changeQuery({ from: isChosen ? '' : date, to: isChosen ? '' : date, shown: '' })
  }

  function move(event: KeyboardEvent): void {
    const to = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: days.length - 1 }[event.key]
    if (to === undefined || !buttons.current[to]) return
    event.preventDefault()
    buttons.current[to].focus()
  }

  return (
    <>
      <p class="chart-legend">
        <span class="chart-key">Sign-ins: {sum(({ signIns }) => signIns).toLocaleString()}</span>
        <span class="chart-key chart-key-refused">
          Refused sign-ins and changes: {sum(({ refusals }) => refusals).toLocaleString()}
        </span>
      </p>
      <div class="chart-frame">
        <div class="chart-scale" aria-hidden="true">
          <span>{most.toLocaleString()}</span>
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
          <div class="chart-days" role="toolbar" aria-label="Days" onKeyDown={move}>
            {days.map((one, n) => {
              const isChosen = query['from'] === one.date && query['to'] === one.date
              return (
                <button
                  key={one.date}
                  ref={(button) => {
                    buttons.current[n] = button
                  }}
                  type="button"
                  class="chart-day"
                  tabIndex={n === current ? 0 : -1}
                  aria-label={inWords(one)}
                  aria-pressed={isChosen}
                  onClick={() => choose(one, isChosen)}
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
        <div class="chart-dates" aria-hidden="true">
          {ends.map((n) => (
            <span key={n}>{days[n] && short.format(new Date(days[n].date))}</span>
          ))}
        </div>
      </div>
      <p class="quiet chart-reading" aria-hidden="true">
        {day ? `${inWords(day)}.` : 'Point at a day to see its numbers. Select it to list its events.'}
      </p>
    </>
  )
}

/** A day and its numbers. Screen readers announce it as the button's name. */
function inWords({ date, signIns, refusals }: Day): string {
  const count = signIns === 1 ? '1 sign-in' : `${signIns.toLocaleString()} sign-ins`
  return `${long.format(new Date(date))}: ${count}, ${refusals.toLocaleString()} refused`
}
