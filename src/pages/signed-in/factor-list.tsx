import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import type { Change } from '../outcome.tsx'
import { Time } from '../parts.tsx'
import type { SecondFactors } from '../routes.ts'
import { Confirm } from './confirm.tsx'

type Factor = SecondFactors['secondFactors'][number]

export const KINDS: Record<Factor['kind'], string> = { passkey: 'passkey', totp: 'authenticator app' }

interface Props {
  factors: SecondFactors
  change: Change
  onRemoved: () => void
  /** The recovery codes that are left. */
  children: ComponentChildren
}

/** A member's second factors, each with a button to remove it. */
export function FactorList({ factors: { secondFactors, required }, change, onRemoved, children }: Props) {
  const [leaving, setLeaving] = useState<string | null>(null)
  const isLast = secondFactors.length === 1
  const chosen = secondFactors.find(({ id }) => id === leaving)
  async function remove(id: string): Promise<string> {
    await call('DELETE /auth/second-factors/:id', { id })
    setLeaving(null)
    onRemoved()
    return "Second factor removed. You're signed out everywhere else."
  }
  function begin(id: string): void {
    change.forget()
    setLeaving(id)
  }
  return (
    <>
      <ul class="sessions">
        {secondFactors.map((factor) => (
          <li key={factor.id}>
            <About factor={factor} />
            {isLast && required ? null : (
              <button
                type="button"
                class="small"
                aria-label={`Remove… ${factor.name}`}
                onClick={() => begin(factor.id)}
              >
                Remove…
              </button>
            )}
          </li>
        ))}
        <li>{children}</li>
      </ul>
      {isLast && required && (
        <p class="hint">Your company requires a second factor. To remove this one, add a new one first.</p>
      )}
      {chosen && (
        <Confirm
          title={`Remove ${chosen.name}${isLast ? ', your last second factor' : ''}?`}
          action={`Remove ${chosen.name}`}
          onConfirm={() => remove(chosen.id)}
          onCancel={() => setLeaving(null)}
          change={change}
        >
          {isLast
            ? 'A stolen password will be enough to sign in as you. Your recovery codes stop working too.'
            : "You can no longer sign in with it, and you're signed out everywhere else."}
        </Confirm>
      )}
    </>
  )
}

function About({ factor: { kind, name, createdAt, lastUsedAt } }: { factor: Factor }) {
  return (
    <div>
      <strong>{name}</strong> {name.toLowerCase() !== KINDS[kind] && <span class="tag">{KINDS[kind]}</span>}
      <p class="quiet">
        added <Time at={createdAt} />,{' '}
        {lastUsedAt ? (
          <>
            last used <Time at={lastUsedAt} />
          </>
        ) : (
          'not used yet'
        )}
      </p>
    </div>
  )
}
