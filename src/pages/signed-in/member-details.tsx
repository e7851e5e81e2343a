import { useEffect } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { Copied, Fact, Time } from '../parts.tsx'
import { useReload } from '../queries.tsx'
import type { Member, Session } from '../routes.ts'
import { ConfirmButton } from './dialog-button.tsx'
import { useEnding } from './invitations.tsx'
import { useMailProof } from './mailbox-proof.tsx'
import type { Issuing } from './new-passwords.tsx'
import { RoleSelect } from './role-select.tsx'
import { ServicePasswords } from './service-passwords.tsx'

export interface DetailsProps {
  session: Session
  member: Member
  issuing: Issuing
  /** Outlives the row. */
  deletion: Change
  onChanged: (changed: Member) => void
}

export function MemberDetails(props: DetailsProps) {
  const { session, member } = props
  const { createdAt, email, id, kind, name } = member
  const saving = useChange()
  const acting = useChange()
  // Each clears the previous result of the other.
  useEffect(acting.forget, [saving.isBusy])
  useEffect(saving.forget, [acting.isBusy])
  return (
    <div class="member">
      <dl class="facts">
        <Fact name="Member since">
          <Time at={createdAt} />
        </Fact>
        {session.permissions.includes('audit:read') && (
          <Fact name="Activity">
            <a href={`/activity?actor=${id}`}>
              Show all<span class="hidden"> activity of {name}</span>
            </a>
          </Fact>
        )}
        {kind === 'service' && (
          <Fact name="Email">
            <Copied text={email} what="the email" />
          </Fact>
        )}
        <Fact name="ID">
          <Copied text={id} what="the ID" />
        </Fact>
      </dl>
      {id === session.user.id ? (
        <p class="quiet">This is you. Other admins can change your role or disable you.</p>
      ) : (
        <>
          <Rights {...props} change={saving} />
          {kind === 'service' && <ServicePasswords {...props} />}
          <MemberActs {...props} change={acting} />
        </>
      )}
    </div>
  )
}

function Rights({ member, onChanged, change: saving }: DetailsProps & { change: Change }) {
  const ending = useEnding(member.id)
  const { prove, dialog } = useMailProof('admin')
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
    onChanged(await prove(name, change).catch(nameAssignments))
    return 'Saved. It takes effect on their next request.'
  }

  return (
    <div>
      <Form action="Save changes" isSecond onSubmit={save} change={saving}>
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
      <Outcome of={saving} isOfForm />
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

function MemberActs({ member, deletion, onChanged, change }: DetailsProps & { change: Change }) {
  const { id, kind, name, email, status, secondFactors } = member
  const ending = useEnding(id)
  const reload = useReload()
  const isService = kind === 'service'
  const whom = (
    <>
      <strong>{name}</strong>
      {name !== email && ` (${email})`}
    </>
  )
  const users = isService ? <>Every program that signs in as {whom}</> : whom
  async function setStatus(next: 'active' | 'disabled', done: string): Promise<string> {
    onChanged(await call('PATCH /auth/members/:id', { id, body: { status: next } }))
    return done
  }
  const enable = () => setStatus('active', 'Enabled. They can sign in again.')
  const disable = () => setStatus('disabled', 'Disabled. All sessions have ended.')
  async function endSessions(): Promise<string> {
    await call('DELETE /auth/members/:id/sessions', { id })
    return 'All sessions have ended.'
  }
  async function resetFactors(): Promise<string> {
    await call('DELETE /auth/members/:id/second-factors', { id })
    onChanged({ ...member, secondFactors: [] })
    return 'Reset. A link to choose a new password is on its way.'
  }
  async function remove(): Promise<string> {
    await call('DELETE /auth/members/:id', { id })
    reload('GET /auth/members')
    reload('GET /auth/invitations')
    return `${name} was deleted.`
  }

  return (
    <div class="member-acts">
      <div class="choices">
        {status === 'active' ? (
          <ConfirmButton label="Disable" of={name} change={change} onConfirm={disable}>
            <p>
              {users} is signed out everywhere immediately, and can't sign in until you enable the account
              again. {ending}
            </p>
          </ConfirmButton>
        ) : (
          <button
            type="button"
            class="small"
            aria-label={`Enable ${name}`}
            aria-disabled={change.isBusy}
            onClick={() => change.run(enable)}
          >
            Enable
          </button>
        )}
        <ConfirmButton label="End all sessions" of={`of ${name}`} change={change} onConfirm={endSessions}>
          <p>{users} is signed out everywhere immediately, and must sign in again.</p>
        </ConfirmButton>
        {secondFactors.length > 0 && (
          <ConfirmButton
            label="Reset second factors"
            of={`of ${name}`}
            change={change}
            onConfirm={resetFactors}
          >
            <p>
              Use this if {whom} lost their second factors. Their second factors, recovery codes, and password
              stop working, and all their sessions end. We email them a link to choose a new password.
            </p>
            <p>First, make sure that the request really comes from them.</p>
          </ConfirmButton>
        )}
        <ConfirmButton label="Delete" of={name} isGrave change={deletion} onConfirm={remove}>
          <p>
            The account of {whom} is deleted with its passwords and second factors, and all its sessions end.{' '}
            {ending} The audit log keeps only the ID.
          </p>
          <p>This can't be undone.</p>
        </ConfirmButton>
      </div>
      <Outcome of={change} isOfForm />
    </div>
  )
}
