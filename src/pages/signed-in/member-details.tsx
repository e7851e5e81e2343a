import { useState } from 'preact/hooks'
import { ApiError, call, type Member } from '../api.ts'
import { useChange } from '../loading.tsx'
import { CopyButton, Field, Form, Time } from '../parts.tsx'
import { RoleSelect } from './role-select.tsx'

interface Props {
  member: Member
  isSelf: boolean
  onChanged: (member: Member) => void
  onDeleted: () => void
}

/** What an admin sees of a member, and can change. */
export function MemberDetails(props: Props) {
  const { lastSignInAt, createdAt } = props.member
  return (
    <>
      <dl class="facts">
        <dt>Last sign-in</dt>
        <dd>{lastSignInAt ? <Time at={lastSignInAt} isToTheHour /> : 'never'}</dd>
        <dt>Member since</dt>
        <dd>
          <Time at={createdAt} />
        </dd>
      </dl>
      {props.isSelf ? (
        <p class="quiet">This is you. Another admin can change your role.</p>
      ) : (
        <>
          <Rights {...props} />
          <Acts {...props} />
        </>
      )}
    </>
  )
}

function Rights({ member, onChanged }: Props) {
  const { id, kind, role, assignments } = member
  const [isSaved, setSaved] = useState(false)

  /** Only what is different, since each change is in the activity. */
  async function save({ role: newRole, assignments: text = '' }: Record<string, string>): Promise<void> {
    setSaved(false)
    const worksOn = text.split(/[\s,]+/).filter((name) => name !== '')
    const isSame = worksOn.join() === assignments.join()
    const body = { ...(newRole !== role && { role: newRole }), ...(!isSame && { assignments: worksOn }) }
    if (Object.keys(body).length > 0)
      onChanged(await call<Member>(`/auth/members/${id}`, { method: 'PATCH', body }).catch(nameAssignments))
    setSaved(true)
  }

  return (
    <>
      <Form key={`${role} ${assignments}`} action="Save" onSubmit={save}>
        {(fields) => (
          <>
            <RoleSelect value={role} hasAdmin={kind === 'person'} />
            <Field
              label="Works on"
              name="assignments"
              value={assignments.join(', ')}
              hint="What other services let the member see, such as environment:production. Commas between several."
              error={fields['assignments']}
              isOptional
            />
          </>
        )}
      </Form>
      <p role="status" class="done">
        {isSaved && 'Saved. It holds from the next request on.'}
      </p>
    </>
  )
}

/** An error at one of several assignments is one of their field. */
function nameAssignments(error: unknown): never {
  const isOfOne = error instanceof ApiError && Object.keys(error.fields).some((name) => name.includes('/'))
  if (!isOfOne) throw error
  const assignments = 'takes letters, digits and : . _ / - in each name'
  throw new ApiError(error.code, error.message, { fields: { assignments }, status: error.status })
}

function Acts({ member, onChanged, onDeleted }: Props) {
  const { id, kind, name, status } = member
  const { run, isBusy, shown } = useChange()
  const [done, setDone] = useState<string | null>(null)
  const [password, setPassword] = useState<string | null>(null)
  const [isDeleting, setDeleting] = useState(false)
  const path = `/auth/members/${id}`

  const changeStatus = (next: 'active' | 'disabled', words: string) =>
    run(async () => {
      onChanged(await call<Member>(path, { method: 'PATCH', body: { status: next } }))
      setDone(words)
    })
  const replacePassword = () =>
    run(async () => {
      const replaced = await call<{ password: string }>(`${path}/password`)
      setPassword(replaced.password)
      setDone(null)
    })
  const endSessions = () =>
    run(async () => {
      await call(`${path}/sessions`, { method: 'DELETE' })
      setDone('All sessions have ended.')
    })
  const remove = () =>
    run(async () => {
      await call(path, { method: 'DELETE' })
      onDeleted()
    })

  const act = (label: string, onClick: () => void) => (
    <button type="button" class="small" disabled={isBusy} onClick={onClick}>
      {label}
    </button>
  )
  return (
    <>
      {shown}
      {password && (
        <p class="fresh secret" role="status">
          The new password, shown this once: <code>{password}</code>{' '}
          <CopyButton text={password} what="the password" />
        </p>
      )}
      <div class="choices">
        {kind === 'service' && act('Replace the password', replacePassword)}
        {status === 'active'
          ? act('Disable', () => changeStatus('disabled', 'Disabled, and all sessions have ended.'))
          : act('Enable', () => changeStatus('active', 'Enabled: can sign in again.'))}
        {act('End all sessions', endSessions)}
        {act('Delete…', () => setDeleting(true))}
      </div>
      <p role="status" class="done">
        {done}
      </p>
      {isDeleting && (
        <div class="notice">
          <p>
            Name, e-mail and password are gone for good, all sessions end, and open invitations of this member
            die. In the activity, a bare id stays.
          </p>
          <div class="choices">
            <button type="button" class="danger small" disabled={isBusy} onClick={remove}>
              Delete {name}
            </button>
            {act('Cancel', () => setDeleting(false))}
          </div>
        </div>
      )}
    </>
  )
}
