import { useId, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Form, Select } from '../form.tsx'
import { Options, Time } from '../parts.tsx'
import type { Member } from '../routes.ts'
import { type Asked, DialogButton } from './dialog-button.tsx'
import { ListHead } from './list-head.tsx'
import type { Issuing } from './new-passwords.tsx'

/** In seconds. */
const PREVIOUS = { 0: 'now', 3600: 'in 1 hour', 86400: 'in 24 hours', 604800: 'in 7 days' }

const COLUMNS = { Password: undefined, Created: undefined, 'Last used': undefined, Expires: undefined }

interface Props {
  member: Member
  issuing: Issuing
}

/** A service account's active passwords, at most two, and a button to replace the newest. */
export function ServicePasswords(props: Props) {
  const { name, passwords = [] } = props.member
  const headingId = useId()
  return (
    <div>
      <div class="heading">
        <h3 id={headingId}>Passwords</h3>
        <DialogButton
          class="small"
          label={`Replace password for ${name}`}
          title={`Replace password for ${name}?`}
          change={props.issuing.change}
          dialog={(form) => <Replace {...props} {...form} />}
        >
          Replace password
        </DialogButton>
      </div>
      <table class="list" aria-labelledby={headingId}>
        <ListHead columns={COLUMNS} />
        <tbody>
          {passwords.map(({ hint, createdAt, lastUsedAt, expiresAt }) => (
            <tr key={hint} class="list-row">
              <th scope="row">{hint === null ? 'Older password' : <code>gsp_…{hint}</code>}</th>
              <td data-label="Created">{createdAt ? <Time at={createdAt} /> : 'unknown'}</td>
              <td data-label="Last used">{lastUsedAt ? <Time at={lastUsedAt} isToTheHour /> : 'never'}</td>
              <td data-label="Expires">{expiresAt ? <Time at={expiresAt} /> : 'never'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Replace({ member, issuing, ...form }: Props & Asked) {
  const { id, name, email, passwords = [] } = member
  const [seconds, setSeconds] = useState(0)
  async function replace(): Promise<void> {
    const body = { previousValidSeconds: seconds }
    const issued = await call('POST /auth/members/:id/password', { id, body })
    form.onCancel()
    issuing.show({ name, email, ...issued })
  }
  return (
    <Form change={form.change} onCancel={form.onCancel} action="Replace password" isDanger onSubmit={replace}>
      <p>We show the new password only once.</p>
      <Select
        label="The current password stops working"
        value={seconds}
        onChange={(value) => setSeconds(Number(value))}
      >
        <Options of={PREVIOUS} />
      </Select>
      <p>
        {seconds === 0 ? (
          <>
            Every program that signs in as <strong>{name}</strong> is signed out immediately, and can't sign
            in until you give it the new password.
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
    </Form>
  )
}
