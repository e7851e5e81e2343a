import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Copied, Fact, Time } from '../parts.tsx'
import { useEnding } from './invitations.tsx'
import { useAdminProof } from './mailbox-proof.tsx'
import { type DetailsProps, MemberActs } from './member-acts.tsx'
import { RoleSelect } from './role-select.tsx'
import { ServicePasswords } from './service-passwords.tsx'

export function MemberDetails(props: DetailsProps) {
  const { session, member } = props
  const { createdAt, id, kind, name } = member
  return (
    <div class="member">
      <dl class="facts">
        <Fact name="Member since">
          <Time at={createdAt} />
        </Fact>
        <Fact name="ID">
          <Copied text={id} what="the ID" />
        </Fact>
        {session.permissions.includes('audit:read') && (
          <Fact name="Activity">
            <a href={`/activity?actor=${id}`}>
              Show all<span class="hidden"> activity of {name}</span>
            </a>
          </Fact>
        )}
      </dl>
      {id === session.user.id ? (
        <p class="quiet">This is you. Other admins can change your role or disable you.</p>
      ) : (
        <>
          <Rights {...props} />
          {kind === 'service' && <ServicePasswords {...props} />}
          <MemberActs {...props} />
        </>
      )}
    </div>
  )
}

function Rights({ member, onChanged }: DetailsProps) {
  const ending = useEnding(member.id)
  const { prove, dialog } = useAdminProof()
  const { id, kind, name, role, assignments } = member

  /** Sends only changed values, because the audit log has an entry for each. */
  async function save(values: Values): Promise<string> {
    const wanted = [...new Set(values.assignments.split(/[\s,]+/).filter((name) => name !== ''))]
    const body = {
      role: values.role === role ? undefined : values.role,
      assignments: wanted.join() === assignments.join() ? undefined : wanted,
    }
    if (!body.role && !body.assignments) return 'No changes to save.'
    const change = (mailCode?: string) => call('PATCH /auth/members/:id', { id, body: { ...body, mailCode } })
    onChanged(id, await prove(name, change).catch(nameAssignments))
    return 'Saved. It takes effect on their next request.'
  }

  return (
    <div>
      <Form action="Save changes" isSecond onSubmit={save}>
        <RoleSelect key={role} value={role} hasAdmin={kind === 'person'} />
        <Field
          label="Assignments"
          name="assignments"
          value={assignments.join(', ')}
          hint="Resources that your other services give them access to, such as environment:production. Separate with commas."
          isOptional
        />
        {ending && <p class="quiet">If you change the role: {ending}</p>}
      </Form>
      {dialog}
    </div>
  )
}

/** Shows an error of one assignment at the field of all. */
function nameAssignments(error: unknown): never {
  const isOfOne = error instanceof ApiError && Object.keys(error.fields).some((name) => name.includes('/'))
  if (!isOfOne) throw error
  const assignments = 'must contain only letters, digits, and : . _ / - in each name'
  throw new ApiError(error.code, error.message, { fields: { assignments }, status: error.status })
}
