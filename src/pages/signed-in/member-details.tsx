import { useState } from 'preact/hooks'
import { ApiError, call, type Loose } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Time } from '../parts.tsx'
import type { Body } from '../routes.ts'
import { AdminProof, needsMailCode } from './admin-proof.tsx'
import { type DetailsProps, MemberActs, sentInWords } from './member-acts.tsx'
import { RoleSelect } from './role-select.tsx'
import { ServicePasswords } from './service-passwords.tsx'

/** What an admin sees of a member besides the row, and can change. */
export function MemberDetails(props: DetailsProps) {
  const { createdAt, id } = props.member
  return (
    <div class="member">
      <dl class="facts">
        <dt>Member since</dt>
        <dd>
          <Time at={createdAt} />
        </dd>
        <dt>ID</dt>
        <dd>
          <code>{id}</code>
        </dd>
      </dl>
      {props.isSelf ? (
        <p class="quiet">This is you. Another admin can change your role or disable you.</p>
      ) : (
        <>
          <Rights {...props} />
          {props.member.kind === 'service' && <ServicePasswords {...props} />}
          <MemberActs {...props} />
        </>
      )}
    </div>
  )
}

function Rights({ member, sent, onChanged, onDropped }: DetailsProps) {
  const { id, kind, role, assignments } = member
  const [done, setDone] = useState('')
  const [unproven, setUnproven] = useState<Change | null>(null)

  /** Only what is different, since each change is in the audit log. */
  async function save(values: Values): Promise<void> {
    setDone('')
    const wanted = [...new Set(values.assignments.split(/[\s,]+/).filter((name) => name !== ''))]
    const isSame = wanted.join() === assignments.join()
    if (values.role === role && isSame) return setDone('Nothing has changed.')
    const body = {
      role: values.role === role ? undefined : values.role,
      assignments: isSame ? undefined : wanted,
    }
    await change(body).catch((error: unknown) => {
      if (!needsMailCode(error)) throw error
      setUnproven(body)
    })
  }

  async function change(body: Change): Promise<void> {
    onChanged(await call('PATCH /auth/members/:id', { id, body }).catch(nameAssignments))
    setUnproven(null)
    if (body.role !== undefined) onDropped()
    setDone('Saved. It applies from their next request on.')
  }

  if (unproven)
    return (
      <div class="member-rights">
        <AdminProof
          whom={member.name}
          onGiven={(mailCode) => change({ ...unproven, mailCode })}
          onCancel={() => setUnproven(null)}
        />
      </div>
    )

  return (
    <div class="member-rights">
      <Form action="Save" onSubmit={save}>
        {(faults) => (
          <>
            <RoleSelect value={role} hasAdmin={kind === 'person'} />
            {sent > 0 && <p class="hint">With another role: {sentInWords(sent)}</p>}
            <Field
              label="Assignments"
              name="assignments"
              value={assignments.join(', ')}
              hint="What your other services let them see, such as environment:production. Separate with commas."
              error={faults['assignments']}
              isOptional
            />
          </>
        )}
      </Form>
      <p role="status" class="done">
        {done}
      </p>
    </div>
  )
}

type Change = Loose<Body<'PATCH /auth/members/:id'>>

/** An error at one of several assignments is one of their field. */
function nameAssignments(error: unknown): never {
  const isOfOne = error instanceof ApiError && Object.keys(error.fields).some((name) => name.includes('/'))
  if (!isOfOne) throw error
  const assignments = 'take letters, digits and : . _ / - in each name'
  throw new ApiError(error.code, error.message, { fields: { assignments }, status: error.status })
}
