import { call, type Daily } from '../api.ts'
import { useLoaded, Waiting } from '../loading.tsx'
import { Section } from '../parts.tsx'

const [WIDTH, HEIGHT] = [600, 120]

function Day({ at }: { at: string | undefined }) {
  const format = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })
  return at === undefined ? null : <time dateTime={at}>{format.format(new Date(at))}</time>
}

/** Sign-ins and refusals of the last 30 days, as bars; a table says the same to a screen reader. */
export function Chart() {
  const loaded = useLoaded(() => call<Daily>('/auth/audit/daily?days=30', { method: 'GET' }))
  const days = loaded.value?.days ?? []
  const most = Math.max(1, ...days.map(({ signIns, refusals }) => signIns + refusals))
  const width = WIDTH / 30
  const total = (read: (day: Daily['days'][number]) => number) =>
    days.reduce((sum, day) => sum + read(day), 0)
  return (
    <Section id="days" title="The last 30 days">
      <Waiting of={loaded} />
      {loaded.value && (
        <>
          <svg
            class="chart"
            viewBox={`0 0 ${WIDTH} ${HEIGHT + 3}`}
            role="img"
            aria-label={`${total((day) => day.signIns)} sign-ins and ${total((day) => day.refusals)} refused sign-ins and passwords in 30 days`}
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
            <span class="key refused">Refused sign-ins and passwords: {total((day) => day.refusals)}</span>
          </p>
        </>
      )}
    </Section>
  )
}
