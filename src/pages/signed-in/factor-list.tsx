import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { call, type SecondFactors } from '../api.ts'
import { useChange } from '../loading.tsx'
import { Time } from '../parts.tsx'
import { Confirm } from './confirm.tsx'

type Factor = SecondFactors['secondFactors'][number]

/** What each kind is called. */
export const KINDS: Record<Factor['kind'], string> = { passkey: 'passkey', totp: 'authenticator app' }

interface Props {
  factors: SecondFactors
  onBegin: () => void
  onRemoved: () => void
  /** What recovery codes are left. */
  children: ComponentChildren
}

/** The second factors that somebody has, each with a button to remove it. */
export function FactorList({ factors: { secondFactors, required }, onBegin, onRemoved, children }: Props) {
  const { run, isBusy, shown } = useChange()
  const [leaving, setLeaving] = useState<string | null>(null)
  const isLast = secondFactors.length === 1
  const chosen = secondFactors.find(({ id }) => id === leaving)
  const remove = (id: string) =>
    run(async () => {
      await call(`/auth/second-factors/${id}`, { method: 'DELETE' })
      setLeaving(null)
      onRemoved()
    })
  function begin(id: string): void {
    onBegin()
    setLeaving(id)
  }

  if (secondFactors.length === 0)
    return <p class="empty">You have none: your password alone lets everybody in who learns it.</p>
  return (
    <>
      {shown}
      <ul class="sessions">
        {secondFactors.map((factor) => (
          <li key={factor.id}>
            <About factor={factor} />
            {isLast && required ? null : (
              <button
                type="button"
                class="small"
                disabled={isBusy}
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
        <p class="hint">Your company asks for a second factor. To remove this one, add another one first.</p>
      )}
      {chosen && (
        <Confirm
          action={isLast ? 'Remove the last one' : `Remove ${chosen.name}`}
          isBusy={isBusy}
          onConfirm={() => remove(chosen.id)}
          onCancel={() => setLeaving(null)}
        >
          {isLast
            ? 'After that, your password alone lets everybody in who learns it. Your recovery codes stop working too.'
            : 'It does not sign you in any more, and your other sessions end.'}
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
