import { useId, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Time } from '../parts.tsx'
import type { Member } from '../routes.ts'
import { Confirm } from './confirm.tsx'
import type { DetailsProps } from './member-acts.tsx'

/** When the current password of a service account stops working, in seconds. */
const PREVIOUS = [
  [0, 'now'],
  [3_600, 'in 1 hour'],
  [86_400, 'in 24 hours'],
  [604_800, 'in 7 days'],
] as const

/** The passwords of a service account that work, two at most, and how to replace the newest. */
export function ServicePasswords({ member, onPassword, onChanged }: DetailsProps) {
  const { id, name, email, passwords = [] } = member
  const [isAsked, setAsked] = useState(false)
  const [seconds, setSeconds] = useState(0)
  const headingId = useId()
  async function replace(): Promise<void> {
    const body = { previousValidSeconds: seconds }
    const { password, previousExpiresAt } = await call('POST /auth/members/:id/password', { id, body })
    setAsked(false)
    onPassword({ name, email, password, previousExpiresAt })
    onChanged(await call('GET /auth/members/:id', { id }))
  }
  return (
    <div class="member-passwords">
      <h3 id={headingId}>Passwords</h3>
      <ul class="sessions" aria-labelledby={headingId}>
        {passwords.map((password) => (
          <li key={password.hint}>
            <About password={password} />
          </li>
        ))}
      </ul>
      <button
        type="button"
        class="small"
        aria-label={`Replace password for ${name}`}
        onClick={() => {
          setSeconds(0)
          setAsked(true)
        }}
      >
        Replace password
      </button>
      {isAsked && (
        <Confirm
          title={`Replace password for ${name}?`}
          action="Replace password"
          onConfirm={replace}
          onCancel={() => setAsked(false)}
        >
          <p>You get a new password, which is shown once.</p>
          <PreviousSelect seconds={seconds} onChange={setSeconds} />
          <p>
            {seconds === 0 ? (
              <>
                Every program that signs in as <strong>{name}</strong> is signed out at once, and can't sign
                in until you give it the new password.
              </>
            ) : (
              <>
                Until then both passwords work. Programs that signed in as <strong>{name}</strong> with the
                current one are signed out then, so have them sign in with the new one first.
              </>
            )}
          </p>
          {seconds > 0 && passwords.length > 1 && (
            <p>The older password stops working now, and programs that use it are signed out.</p>
          )}
        </Confirm>
      )}
    </div>
  )
}

function PreviousSelect({ seconds, onChange }: { seconds: number; onChange: (seconds: number) => void }) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>The current password stops working</label>
      <select id={id} value={seconds} onChange={({ currentTarget }) => onChange(Number(currentTarget.value))}>
        {PREVIOUS.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </div>
  )
}

type Password = NonNullable<Member['passwords']>[number]

function About({ password: { hint, createdAt, lastUsedAt, expiresAt } }: { password: Password }) {
  return (
    <div>
      <strong>{hint === null ? 'Older password' : <code>gsp_…{hint}</code>}</strong>{' '}
      {expiresAt && <span class="tag">being replaced</span>}
      <p class="quiet">
        {createdAt && (
          <>
            created <Time at={createdAt} />,{' '}
          </>
        )}
        {lastUsedAt ? (
          <>
            last used <Time at={lastUsedAt} isToTheHour />
          </>
        ) : (
          'not used yet'
        )}
        {expiresAt && (
          <>
            , works until <Time at={expiresAt} />
          </>
        )}
      </p>
    </div>
  )
}
