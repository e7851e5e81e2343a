import { useId, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Time } from '../parts.tsx'
import { Confirm } from './confirm.tsx'
import { ListHead } from './list-head.tsx'
import type { DetailsProps } from './member-acts.tsx'

/** In seconds. */
const PREVIOUS = [
  [0, 'now'],
  [3_600, 'in 1 hour'],
  [86_400, 'in 24 hours'],
  [604_800, 'in 7 days'],
] as const

const COLUMNS = { Password: undefined, Created: undefined, 'Last used': undefined, Expires: undefined }

/** A service account's active passwords, at most two, and a button to replace the newest. */
export function ServicePasswords({ member, issuing }: DetailsProps) {
  const { id, name, email, passwords = [] } = member
  const [isAsked, setAsked] = useState(false)
  const [seconds, setSeconds] = useState(0)
  const headingId = useId()
  const selectId = useId()
  async function replace(): Promise<void> {
    const body = { previousValidSeconds: seconds }
    const { password, previousExpiresAt } = await call('POST /auth/members/:id/password', { id, body })
    setAsked(false)
    issuing.show({ name, email, password, previousExpiresAt })
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
            issuing.change.forget()
            setAsked(true)
          }}
        >
          Replace password
        </button>
      </div>
      <table class="list" aria-labelledby={headingId}>
        <ListHead columns={COLUMNS} />
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
      {isAsked && (
        <Confirm
          title={`Replace password for ${name}?`}
          action="Replace password"
          onConfirm={replace}
          onCancel={() => setAsked(false)}
          change={issuing.change}
        >
          <p>We show the new password only once.</p>
          <div class="field">
            <label for={selectId}>The current password stops working</label>
            <select
              id={selectId}
              value={seconds}
              onChange={({ currentTarget }) => setSeconds(Number(currentTarget.value))}
            >
              {PREVIOUS.map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          </div>
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
