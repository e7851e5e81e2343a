import { keepPreviousData, useQuery as useCached } from '@tanstack/preact-query'
import { useId, useRef, useState } from 'preact/hooks'
import { Select } from '../form.tsx'
import { ClearFilters, formats, Options } from '../parts.tsx'
import { reading } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Member } from '../routes.ts'
import { ACTION_GROUPS } from '../words.ts'

const NONE = { action: '', outcome: '', actor: '', subject: '', from: '', to: '', day: '' }

const { timeZone } = new Intl.DateTimeFormat().resolvedOptions()
const DAY_MS = 24 * 60 * 60_000
const PAUSE_MS = 250
const ID = /^[\da-f-]{36}$/i
const EMAIL = /^[^@\s]+@[^@\s]+$/

function useFilter() {
  const [query, changeQuery] = useQuery()
  const change = (changed: Partial<typeof NONE>) => changeQuery({ ...changed, shown: '' })
  return [{ ...NONE, ...query }, change] as const
}

/** Filters by people, action, outcome, and days. The query keeps the filter. */
export function ActivityFilter() {
  const [chosen, change] = useFilter()
  const id = useId()
  const start = Date.parse(chosen.day)
  const day = (name: 'from' | 'to', label: string) => (
    <div class="field">
      <label for={`${id}-${name}`}>{label}</label>
      <input
        id={`${id}-${name}`}
        type="date"
        value={chosen[name]}
        min={name === 'to' ? chosen.from : undefined}
        max={name === 'from' ? chosen.to : undefined}
        aria-describedby={`${id}-zone`}
        onChange={({ currentTarget }) => change({ [name]: currentTarget.value, day: '' })}
      />
    </div>
  )
  const actions = Object.entries(ACTION_GROUPS).map(([group, words]) => (
    <optgroup key={group} label={group}>
      {Object.entries(words).map(([action, text]) => (
        <option key={action} value={action}>
          {text.replace(/,? (?:of|with)$/, '')}
        </option>
      ))}
    </optgroup>
  ))
  return (
    <search>
      <div class="filters">
        <PersonField name="actor" label="By" />
        <PersonField name="subject" label="About" />
        <Select label="What" value={chosen.action} onChange={(action) => change({ action })}>
          <option value="">any</option>
          {actions}
        </Select>
        <Select label="Outcome" value={chosen.outcome} onChange={(outcome) => change({ outcome })}>
          <Options of={{ '': 'any', done: 'done', refused: 'refused' }} />
        </Select>
        {day('from', 'From')}
        {day('to', 'To')}
      </div>
      <p class="filter-note">
        <span class="quiet" id={`${id}-zone`}>
          Times are in your time zone, {timeZone}.
        </span>
        {!Number.isNaN(start) && (
          <span key={start}>
            Only {formats.minute.format(start)} to {formats.minute.format(start + DAY_MS)}.
          </span>
        )}
        {Object.keys(NONE).some((name) => chosen[name as keyof typeof NONE]) && (
          <ClearFilters path="/activity" />
        )}
      </p>
    </search>
  )
}

const OPERATORS = [{ id: 'operator', text: 'gatehouse operators' }]
type Person = (typeof OPERATORS)[number]

/** Chooses a member, and suggests members while the user types. Other text filters nothing. */
function PersonField({ name, label }: { name: 'actor' | 'subject'; label: string }) {
  const [{ [name]: chosen }, change] = useFilter()
  const id = useId()
  const [typed, setTyped] = useState({ id: '', text: '', isMissed: false })
  /** Undefined until the field has the focus. */
  const [search, setSearch] = useState<string>()
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  // A link, Back, or "Clear filters" changed the query.
  const isForeign = typed.id !== chosen
  const { data: member } = useCached({
    ...reading('GET /auth/members/:id', { id: chosen }),
    enabled: isForeign && ID.test(chosen),
    select: toPerson,
  })
  const { data: found = [] } = useCached({
    ...reading('GET /auth/members', { query: { search, limit: 100 } }),
    enabled: search !== undefined,
    placeholderData: keepPreviousData,
    select: ({ members }) => members.map(toPerson),
  })
  const others = name === 'actor' ? OPERATORS : []
  const people = [...others, ...found]
  const named = [...others, member].find((one) => one?.id === chosen)
  const text = isForeign ? (named?.text ?? chosen) : typed.text
  const isMissed = typed.isMissed && !isForeign

  function choose(person: Person): void {
    setTyped({ ...person, isMissed: false })
    if (person.id !== chosen) change({ [name]: person.id })
  }

  function input(text: string): void {
    const person = people.find((one) => one.text === text)
    choose(person ?? { id: '', text })
    clearTimeout(timer.current)
    if (!person) timer.current = setTimeout(() => setSearch(text.trim().slice(0, 100)), PAUSE_MS)
  }

  /** Completes the text if only one person matches. Entries can also be about the email of an invitation. */
  function leave(): void {
    const [first, second] = people.filter((one) => one.text.toLowerCase().includes(text.toLowerCase()))
    if (chosen !== '' || text === '') return
    if (first && !second) choose(first)
    else if (name === 'subject' && EMAIL.test(text)) choose({ id: text, text })
    else setTyped({ id: '', text, isMissed: true })
  }

  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        list={`${id}-people`}
        autoComplete="off"
        spellcheck={false}
        placeholder="anyone"
        value={text}
        aria-invalid={isMissed}
        aria-describedby={isMissed ? `${id}-error` : undefined}
        onFocus={() => setSearch((current) => current ?? '')}
        onInput={({ currentTarget }) => input(currentTarget.value)}
        onChange={leave}
      />
      <datalist id={`${id}-people`}>
        {people.map((person) => (
          <option key={person.id} value={person.text} />
        ))}
      </datalist>
      {isMissed && (
        <span class="error" id={`${id}-error`} role="alert">
          Choose someone from the list.
        </span>
      )}
    </div>
  )
}

const toPerson = ({ id, name, email }: Member) => ({
  id,
  text: name === email ? email : `${name} (${email})`,
})
