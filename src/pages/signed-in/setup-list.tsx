import { Section } from '../parts.tsx'
import { useRead } from '../queries.tsx'
import type { SecretStatus } from '../routes.ts'

/** What a new company has to do, until all of it is done. */
export function SetupList({ status }: { status: SecretStatus | undefined }) {
  const people = useRead('GET /auth/members', { query: { kind: 'person', limit: 1 } }).data
  const factors = useRead('GET /auth/second-factors').data
  if (!status || !people || !factors) return null
  const steps = [
    { name: 'Create a signing secret', to: '#secret', isDone: status.configured },
    { name: 'Send an event', to: '#send', isDone: status.lastUsedAt !== null },
    { name: 'Invite a second person', to: '/members', isDone: people.total > 1 },
    { name: 'Add a second factor', to: '/account', isDone: factors.secondFactors.length > 0 },
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
          <li key={to} class={isDone ? 'tick' : undefined}>
            {isDone ? name : <a href={to}>{name}</a>}
            {isDone && <span class="hidden"> (done)</span>}
          </li>
        ))}
      </ul>
    </Section>
  )
}
