import { useEffect, useId, useState } from 'preact/hooks'
import type { Loose } from '../api.ts'
import { Select } from '../form.tsx'
import { Options } from '../parts.tsx'
import { useQuery } from '../router.ts'
import type { Query } from '../routes.ts'
import { ROLES } from '../words.ts'

const PAUSE_MS = 250

const CHOICES = {
  role: { label: 'Role', values: Object.fromEntries(ROLES.map((role) => [role, role])) },
  status: { label: 'Status', values: { active: 'active', disabled: 'disabled' } },
  secondFactor: { label: 'Second factor', values: { yes: 'yes', no: 'none' } },
  kind: { label: 'Kind', values: { person: 'people', service: 'service accounts' } },
}

/** The query keeps the filter. Unknown values are ignored. */
export function useFilter(): Loose<Query<'GET /auth/members'>> {
  const [query] = useQuery()
  const chosen = Object.entries(CHOICES).map(([name, { values }]) => [
    name,
    Object.hasOwn(values, query[name] ?? '') ? query[name] : undefined,
  ])
  return { search: query['search']?.slice(0, 100), ...Object.fromEntries(chosen) }
}

/** Updates the query, with the search when the user stops typing. */
export function MemberFilter() {
  const [{ search = '' }, changeQuery] = useQuery()
  const filter: Partial<Record<string, string | number>> = useFilter()
  const id = useId()
  const [typed, setTyped] = useState({ text: search, search })
  // The query was changed elsewhere, for example by Back.
  const text = typed.search === search ? typed.text : search
  useEffect(() => {
    const wanted = text.trim()
    if (wanted === search) return
    const timer = setTimeout(() => {
      setTyped({ text, search: wanted })
      changeQuery({ search: wanted, shown: '' })
    }, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [text, search])
  return (
    <search class="filters">
      <div class="field">
        <label for={id}>Name or email</label>
        <input
          id={id}
          type="search"
          maxLength={100}
          autoComplete="off"
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => setTyped({ text: currentTarget.value, search })}
        />
      </div>
      {Object.entries(CHOICES).map(([name, { label, values }]) => (
        <Select
          key={name}
          label={label}
          value={filter[name] ?? ''}
          onChange={(value) => changeQuery({ [name]: value, shown: '' })}
        >
          <Options of={{ '': 'any', ...values }} />
        </Select>
      ))}
    </search>
  )
}
