import type { UseQueryResult } from '@tanstack/preact-query'
import { Section } from '../parts.tsx'
import { Loading, useRead } from '../queries.tsx'
import type { SecretStatus } from '../routes.ts'

/** What a new company has to do, until all of it is done. */
export function SetupList({ status: { data: status, isPending } }: { status: UseQueryResult<SecretStatus> }) {
  const people = useRead('GET /auth/members', { query: { kind: 'person', limit: 1 } })
  const factors = useRead('GET /auth/second-factors')
  if (isPending || people.isPending || factors.isPending) return <Loading />
  if (!status || !people.data || !factors.data) return null
  const steps = [
    { name: 'Create a signing secret', to: '#secret', isDone: status.configured },
    { name: 'Send an event', to: '#send', isDone: status.lastUsedAt !== null },
    { name: 'Invite a second person', to: '/members', isDone: people.data.total > 1 },
    { name: 'Add a second factor', to: '/account', isDone: factors.data.secondFactors.length > 0 },
  ]
  const done = steps.filter(({ isDone }) => isDone).length
  if (done === steps.length) return null
  return (
    <Section
      id="setup"
      title="Finish your setup"
      aside={
        <span class="quiet">
          {done} of {steps.length} done
        </span>
      }
    >
      <ul class="plain">
        {steps.map(({ name, to, isDone }) => (
          <li key={to} class={isDone ? 'tick' : 'todo'}>
            {isDone ? name : <a href={to}>{name}</a>}
            {isDone && <span class="hidden"> (done)</span>}
          </li>
        ))}
      </ul>
    </Section>
  )
}
