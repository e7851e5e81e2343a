import { useState } from 'preact/hooks'
import { ApiError, call, type Member } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { Time } from '../parts.tsx'
import { KINDS } from './factor-list.tsx'
import { MemberActs } from './member-acts.tsx'
import { RoleSelect } from './role-select.tsx'

interface Props {
  member: Member
  isSelf: boolean
  onChanged: (member: Member) => void
  onDeleted: () => void
}

/** What an admin sees of a member, and can change. */
export function MemberDetails(props: Props) {
  const { kind, secondFactors, lastSignInAt, createdAt } = props.member
  return (
    <>
      <dl class="facts">
        <dt>Last sign-in</dt>
        <dd>{lastSignInAt ? <Time at={lastSignInAt} isToTheHour /> : 'never'}</dd>
        <dt>Member since</dt>
        <dd>
          <Time at={createdAt} />
        </dd>
        {kind === 'person' && (
          <>
            <dt>Second factors</dt>
            <dd class="tags">
              {secondFactors.length === 0 && 'none'}
              {secondFactors.map((factor) => (
                <span key={factor} class="tag">
                  {KINDS[factor]}
                </span>
              ))}
            </dd>
          </>
        )}
      </dl>
      {props.isSelf ? (
        <p class="quiet">This is you. Another admin can change your role.</p>
      ) : (
        <>
          <Rights {...props} />
          <MemberActs {...props} />
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
