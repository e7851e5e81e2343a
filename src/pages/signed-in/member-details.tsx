import { useState } from 'preact/hooks'
import { ApiError, call, type Loose } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Time } from '../parts.tsx'
import { useReload } from '../queries.tsx'
import type { Body } from '../routes.ts'
import { AdminProof, needsMailCode } from './admin-proof.tsx'
import { useSent } from './invitations.tsx'
import { type DetailsProps, MemberActs, sentInWords } from './member-acts.tsx'
import { RoleSelect } from './role-select.tsx'
import { ServicePasswords } from './service-passwords.tsx'

/** Details of a member, which an admin can change. */
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
        <p class="quiet">This is you. Other admins can change your role or disable you.</p>
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

function Rights({ member, onChanged }: DetailsProps) {
  const sent = useSent(member.id)
  const reload = useReload()
  const { id, kind, role, assignments } = member
  const [done, setDone] = useState('')
  const [unproven, setUnproven] = useState<Change | null>(null)

  /** Sends only changed values, because the audit log has an entry for each. */
  async function save(values: Values): Promise<void> {
    setDone('')
    const wanted = [...new Set(values.assignments.split(/[\s,]+/).filter((name) => name !== ''))]
    const isSame = wanted.join() === assignments.join()
    if (values.role === role && isSame) return setDone('No changes to save.')
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
    if (body.role !== undefined) reload('GET /auth/invitations')
    setDone('Saved. It takes effect on their next request.')
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
      <Form action="Save changes" onSubmit={save}>
        {(faults) => (
          <>
            <RoleSelect value={role} hasAdmin={kind === 'person'} />
            {sent > 0 && <p class="hint">If you change the role: {sentInWords(sent)}</p>}
            <Field
              label="Assignments"
              name="assignments"
              value={assignments.join(', ')}
              hint="Resources that your other services give them access to, such as environment:production. Separate with commas."
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

/** Shows an error of one assignment at the field of all. */
function nameAssignments(error: unknown): never {
  const isOfOne = error instanceof ApiError && Object.keys(error.fields).some((name) => name.includes('/'))
  if (!isOfOne) throw error
  const assignments = 'must contain only letters, digits, and : . _ / - in each name'
  throw new ApiError(error.code, error.message, { fields: { assignments }, status: error.status })
}
