import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { useQuery } from '../router.ts'
import { ROLES } from '../words.ts'

const PAUSE_MS = 250

/** Filters the members. The query keeps the filter. */
export function MemberFilter() {
  const [query, changeQuery] = useQuery()
  const { role = '', status = '' } = query
  const id = useId()
  const change = (changed: Record<string, string>) => changeQuery({ ...changed, shown: '' })
  return (
    <search class="filters filters-short">
      <div class="field filter-search">
        <label for={`${id}-search`}>Search names and emails</label>
        <Search id={`${id}-search`} />
      </div>
      <div class="field">
        <label for={`${id}-role`}>Filter by role</label>
        <select
          id={`${id}-role`}
          value={role}
          onChange={({ currentTarget }) => change({ role: currentTarget.value })}
        >
          <option value="">any</option>
          {ROLES.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for={`${id}-status`}>Filter by status</label>
        <select
          id={`${id}-status`}
          value={status}
          onChange={({ currentTarget }) => change({ status: currentTarget.value })}
        >
          <option value="">any</option>
          <option value="active">active</option>
          <option value="disabled">disabled</option>
        </select>
      </div>
    </search>
  )
}

/** Updates the query when the user stops typing. */
function Search({ id }: { id: string }) {
  const [{ search = '' }, changeQuery] = useQuery()
  const [typed, setTyped] = useState(search)
  const sent = useRef(search)
  // The query was changed elsewhere, for example by Back.
  useEffect(() => {
    if (search !== sent.current) setTyped(search)
    sent.current = search
  }, [search])
  useEffect(() => {
    const wanted = typed.trim()
    if (wanted === sent.current) return
    const timer = setTimeout(() => {
      sent.current = wanted
      changeQuery({ search: wanted, shown: '' })
    }, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [typed])
  return (
    <input
      id={id}
      type="search"
      maxLength={100}
      autoComplete="off"
      spellcheck={false}
      value={typed}
      onInput={({ currentTarget }) => setTyped(currentTarget.value)}
    />
  )
}
