import { useId } from 'preact/hooks'
import { useQuery } from '../router.ts'
import { ACTIONS } from '../words.ts'
import type { Names } from './entry-table.tsx'

const NONE = { action: '', actor: '', from: '', to: '' }
type Name = keyof typeof NONE

/** Filters by action, actor, and days. The query keeps the filter. */
export function ActivityFilter({ names }: { names: Names }) {
  const [query, changeQuery] = useQuery()
  const chosen = { ...NONE, ...query }
  const id = useId()
  const change = (changed: Partial<Record<Name, string>>) => changeQuery({ ...changed, shown: '' })
  const people = Object.entries(names).sort(([, one], [, other]) => one.localeCompare(other))
  const isUnnamed = chosen.actor !== '' && chosen.actor !== 'operator' && !(chosen.actor in names)
  const isBackwards = chosen.from !== '' && chosen.to !== '' && chosen.from > chosen.to
  const select = (name: Name) => ({
    id: `${id}-${name}`,
    value: chosen[name],
    onChange: ({ currentTarget }: { currentTarget: HTMLSelectElement }) =>
      change({ [name]: currentTarget.value }),
  })
  const day = (name: 'from' | 'to') => (
    <input
      id={`${id}-${name}`}
      type="date"
      value={chosen[name]}
      aria-describedby={`${id}-days`}
      onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}
    />
  )
  return (
    <search>
      <div class="filters">
        <div class="field">
          <label for={`${id}-action`}>What</label>
          <select {...select('action')}>
            <option value="">everything</option>
            {Object.entries(ACTIONS).map(([action, words]) => (
              <option key={action} value={action}>
                {words}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for={`${id}-actor`}>Who</label>
          <select {...select('actor')}>
            <option value="">everyone</option>
            <option value="operator">operators</option>
            {isUnnamed && <option value={chosen.actor}>{chosen.actor}</option>}
            {people.map(([actor, name]) => (
              <option key={actor} value={actor}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for={`${id}-from`}>From</label>
          {day('from')}
        </div>
        <div class="field">
          <label for={`${id}-to`}>To</label>
          {day('to')}
        </div>
      </div>
      <p class="filter-note">
        <span class="quiet" id={`${id}-days`}>
          Days are in UTC, as in the chart.
        </span>
        <span class="error" role="status">
          {isBackwards && '“From” is after “To”. Swap the dates.'}
        </span>
        {Object.keys(NONE).some((name) => query[name]) && (
          <button type="button" class="link" onClick={() => change(NONE)}>
            Clear filter
          </button>
        )}
      </p>
    </search>
  )
}
