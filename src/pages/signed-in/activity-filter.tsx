import { useId, useRef, useState } from 'preact/hooks'
import { ACTIONS } from './actions.ts'

interface FilterBarProps {
  names: Map<string, string>
  /** Gets the filter as parameters of a query, each after "&". */
  onChange: (filter: string) => void
}

/** What to show, by whom, and of which days. */
export function FilterBar({ names, onChange }: FilterBarProps) {
  const form = useRef<HTMLFormElement>(null)
  const id = useId()
  const [isBackwards, setBackwards] = useState(false)

  function update(): void {
    if (!form.current) return
    const { action, actor, from, to } = Object.fromEntries(new FormData(form.current))
    setBackwards(Boolean(from && to && from > to))
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
      <p class="error" role="status">
        {isBackwards && 'From is after To, so nothing is between them.'}
      </p>
    </form>
  )
}

/** When a day begins where the browser is, so many days later; undefined without a day that there is. */
function startOf(day: unknown, daysLater: number): string | undefined {
  const time = new Date(`${day}T00:00`)
  time.setDate(time.getDate() + daysLater)
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}
