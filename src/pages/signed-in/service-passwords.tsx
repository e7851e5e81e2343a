import { useId, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Time } from '../parts.tsx'
import type { Member } from '../routes.ts'
import { Confirm } from './confirm.tsx'
import type { DetailsProps } from './member-acts.tsx'

/** In seconds. */
const PREVIOUS = [
  [0, 'now'],
  [3_600, 'in 1 hour'],
  [86_400, 'in 24 hours'],
  [604_800, 'in 7 days'],
] as const

/** A service account's active passwords, at most two, and a button to replace the newest. */
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
      <div class="heading">
        <h3 id={headingId}>Passwords</h3>
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
      </div>
      <PasswordTable passwords={passwords} headingId={headingId} />
      {isAsked && (
        <Confirm
          title={`Replace password for ${name}?`}
          action="Replace password"
          onConfirm={replace}
          onCancel={() => setAsked(false)}
        >
          <p>We show the new password only once.</p>
          <PreviousSelect seconds={seconds} onChange={setSeconds} />
          <p>
            {seconds === 0 ? (
              <>
                Every program that signs in as <strong>{name}</strong> is signed out immediately, and can't
                sign in until you give it the new password.
              </>
            ) : (
              <>
                Both passwords work until then. Programs that signed in as <strong>{name}</strong> with the
                current password are signed out then. Before that, have them sign in with the new one.
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

interface TableProps {
  passwords: NonNullable<Member['passwords']>
  headingId: string
}

function PasswordTable({ passwords, headingId }: TableProps) {
  return (
    <table class="list" aria-labelledby={headingId}>
      <thead class="list-head">
        <tr>
          <th scope="col">Password</th>
          <th scope="col">Created</th>
          <th scope="col">Last used</th>
          <th scope="col">Expires</th>
        </tr>
      </thead>
      <tbody>
        {passwords.map(({ hint, createdAt, lastUsedAt, expiresAt }) => (
          <tr key={hint} class="list-row">
            <th scope="row" class="list-first">
              {hint === null ? 'Older password' : <code>gsp_…{hint}</code>}
            </th>
            <td data-label="Created">{createdAt ? <Time at={createdAt} /> : 'unknown'}</td>
            <td data-label="Last used">{lastUsedAt ? <Time at={lastUsedAt} isToTheHour /> : 'never'}</td>
            <td data-label="Expires">{expiresAt ? <Time at={expiresAt} /> : 'never'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
