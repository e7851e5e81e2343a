import type { ComponentChildren } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'
import {
  ApiError,
  call,
  type Member,
  type Members,
  type OpenInvitations,
  type ServiceCredential,
  type Session,
} from '../api.ts'
import { CopyButton, Field, Form, Time, Title, useLoaded, Waiting } from '../parts.tsx'

const ROLES: [role: string, can: string][] = [
  ['admin', 'everything, members and the signing secret too'],
  ['analyst', 'assesses risk, reviews, gives feedback'],
  ['developer', 'assesses risk by program'],
  ['viewer', 'only looks'],
]

/** The people and servers of the company. */
export function MembersPage({ session }: { session: Session }) {
  const [turn, setTurn] = useState(0)
  const changed = () => setTurn((last) => last + 1)
  return (
    <>
      <Title>Members</Title>
      <Invite onInvited={changed} />
      <Invitations turn={turn} onChanged={changed} />
      <MemberList session={session} turn={turn} onChanged={changed} />
      <AddServer onAdded={changed} />
    </>
  )
}

function RoleSelect({ value = 'viewer', hasAdmin = true }: { value?: string; hasAdmin?: boolean }) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>Role</label>
      <select id={id} name="role">
        {ROLES.filter(([role]) => hasAdmin || role !== 'admin').map(([role, can]) => (
          <option key={role} value={role} selected={role === value}>
            {role} – {can}
          </option>
        ))}
      </select>
    </div>
  )
}

interface PartProps {
  id: string
  title: string
  children: ComponentChildren
}

function Part({ id, title, children }: PartProps) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  )
}

function Invite({ onInvited }: { onInvited: () => void }) {
  // The form is empty again after each success, and stays as it is while it can fail.
  const [done, setDone] = useState({ count: 0, email: '' })
  async function invite({ email = '', role }: Record<string, string>): Promise<void> {
    await call('/auth/invitations', { body: { email: email.trim(), role } })
    setDone({ count: done.count + 1, email })
    onInvited()
  }
  return (
    <Part id="invite" title="Invite a colleague">
      <Form key={done.count} action="Invite" onSubmit={invite}>
        {(fields) => (
          <>
            <Field label="E-mail" name="email" type="email" error={fields['email']} />
            <RoleSelect />
          </>
        )}
      </Form>
      <p role="status" class="done">
        {done.email && `An invitation is on its way to ${done.email}.`}
      </p>
    </Part>
  )
}

interface ListProps {
  turn: number
  onChanged: () => void
}

/** Runs a change, and keeps what it says if it is refused. */
function useChange(onChanged: () => void) {
  const [fault, setFault] = useState<string | null>(null)
  async function run(change: () => Promise<unknown>): Promise<void> {
    setFault(null)
    try {
      await change()
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error))
    }
    onChanged()
  }
  const shown = fault && (
    <p class="error box" role="alert">
      {fault}
    </p>
  )
  return { run, shown }
}

const MAIL = { waiting: 'mail waits', sent: 'mail sent', failed: 'mail could not be sent' } as const

function Invitations({ turn, onChanged }: ListProps) {
  const load = () => call<OpenInvitations>('/auth/invitations?limit=100', { method: 'GET' })
  const { value, error, reload } = useLoaded(load, [turn])
  const { run, shown } = useChange(onChanged)
  if (value?.invitations.length === 0 && !shown) return null
  return (
    <Part id="invitations" title="Open invitations">
      {shown}
      {!value && <Waiting error={error} retry={reload} />}
      <ul class="rows">
        {value?.invitations.map(({ id, email, role, mail, expiresAt, invitedBy }) => (
          <li key={id}>
            <p>
              <strong>{email}</strong> as {role}
            </p>
            <p class="quiet">
              by {invitedBy?.email ?? 'an operator'}; {MAIL[mail]}
              {expiresAt && (
                <>
                  ; open until <Time at={expiresAt} />
                </>
              )}
            </p>
            <div class="choices">
              <button
                type="button"
                class="small"
                onClick={() => run(() => call(`/auth/invitations/${id}/resend`))}
              >
                Send again
              </button>
              <button
                type="button"
                class="small"
                onClick={() => run(() => call(`/auth/invitations/${id}`, { method: 'DELETE' }))}
              >
                Withdraw
              </button>
            </div>
          </li>
        ))}
      </ul>
    </Part>
  )
}

function MemberList({ session, turn, onChanged }: ListProps & { session: Session }) {
  const [search, setSearch] = useState('')
  const [rows, setRows] = useState<Member[]>([])
  const [cursor, setCursor] = useState<string | null>(null)
  const path = `/auth/members?limit=50${search && `&search=${encodeURIComponent(search)}`}`
  const { value, error, reload } = useLoaded(() => call<Members>(path, { method: 'GET' }), [turn, search])
  useEffect(() => {
    if (!value) return
    setRows(value.members)
    setCursor(value.nextCursor)
  }, [value])

  async function more(): Promise<void> {
    const next = await call<Members>(`${path}&cursor=${cursor}`, { method: 'GET' })
    setRows([...rows, ...next.members])
    setCursor(next.nextCursor)
  }

  const id = useId()
  return (
    <Part id="members" title="All members">
      <div class="field">
        <label for={id}>Search in names and e-mails</label>
        <input id={id} type="search" onInput={(event) => setSearch(event.currentTarget.value.trim())} />
      </div>
      {!value && <Waiting error={error} retry={reload} />}
      {value && rows.length === 0 && <p class="empty">No member is called that.</p>}
      <ul class="rows">
        {rows.map((member) => (
          <li key={member.id}>
            <details>
              <summary>
                <strong>{member.name}</strong> <span class="quiet">{member.email}</span>
                {member.kind === 'service' && <span class="tag">server</span>}
                {member.status === 'disabled' && <span class="tag">disabled</span>}
                <span class="tag">{member.role}</span>
              </summary>
              <MemberDetails member={member} isSelf={member.id === session.user.id} onChanged={onChanged} />
            </details>
          </li>
        ))}
      </ul>
      {cursor && (
        <button type="button" onClick={more}>
          Show more
        </button>
      )}
    </Part>
  )
}

interface DetailsProps {
  member: Member
  isSelf: boolean
  onChanged: () => void
}

function MemberDetails({ member, isSelf, onChanged }: DetailsProps) {
  const { id, kind, role, status, lastSignInAt, createdAt, assignments } = member
  const { run, shown } = useChange(onChanged)
  // It changes nothing in the list, which would be read again and take the password away.
  const replacing = useChange(() => {})
  const [password, setPassword] = useState<string | null>(null)
  const [isDeleting, setDeleting] = useState(false)
  const path = `/auth/members/${id}`
  const patch = (body: object) => run(() => call(path, { method: 'PATCH', body }))

  /** Only what is different, since each change is in the activity. */
  async function save({ role: newRole, assignments: text = '' }: Record<string, string>): Promise<void> {
    const worksOn = text.split(/[\s,]+/).filter((name) => name !== '')
    const isSame = worksOn.join() === assignments.join()
    const body = { ...(newRole !== role && { role: newRole }), ...(!isSame && { assignments: worksOn }) }
    if (Object.keys(body).length === 0) return
    await call(path, { method: 'PATCH', body }).catch(nameAssignments)
    onChanged()
  }

  async function replacePassword(): Promise<void> {
    const replaced = await call<{ password: string }>(`${path}/password`)
    setPassword(replaced.password)
  }

  return (
    <>
      {shown}
      {replacing.shown}
      <dl class="facts">
        <dt>Last sign-in</dt>
        <dd>{lastSignInAt ? <Time at={lastSignInAt} /> : 'never'}</dd>
        <dt>Member since</dt>
        <dd>
          <Time at={createdAt} />
        </dd>
      </dl>
      {isSelf && <p class="quiet">This is you. Another admin can change your role.</p>}
      {password && (
        <p class="fresh secret" role="status">
          The new password, shown this once: <code>{password}</code>{' '}
          <CopyButton text={password} what="the password" />
        </p>
      )}
      {!isSelf && (
        <>
          <Form key={`${role} ${assignments}`} action="Save" onSubmit={save}>
            {(fields) => (
              <>
                <RoleSelect value={role} hasAdmin={kind === 'person'} />
                <Field
                  label="Works on"
                  name="assignments"
                  value={assignments.join(', ')}
                  hint="Such as environment:production, with commas between several."
                  error={fields['assignments']}
                  isOptional
                />
              </>
            )}
          </Form>
          <div class="choices">
            {kind === 'service' && (
              <button type="button" class="small" onClick={() => replacing.run(replacePassword)}>
                Replace the password
              </button>
            )}
            <button
              type="button"
              class="small"
              onClick={() => patch({ status: status === 'active' ? 'disabled' : 'active' })}
            >
              {status === 'active' ? 'Disable' : 'Enable'}
            </button>
            <button
              type="button"
              class="small"
              onClick={() => run(() => call(`${path}/sessions`, { method: 'DELETE' }))}
            >
              End all sessions
            </button>
            <button type="button" class="small" onClick={() => setDeleting(!isDeleting)}>
              Delete…
            </button>
          </div>
          {isDeleting && (
            <div class="notice">
              <p>
                Name, e-mail and password are gone for good, all sessions end, and open invitations of this
                member die. In the activity, a bare id stays.
              </p>
              <button
                type="button"
                class="danger small"
                onClick={() => run(() => call(path, { method: 'DELETE' }))}
              >
                Delete {member.name}
              </button>
            </div>
          )}
        </>
      )}
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

function AddServer({ onAdded }: { onAdded: () => void }) {
  const [added, setAdded] = useState<ServiceCredential | null>(null)
  async function add({ name, role }: Record<string, string>): Promise<void> {
    setAdded(await call<ServiceCredential>('/auth/members', { body: { name, role } }))
    onAdded()
  }
  return (
    <Part id="server" title="Add a server">
      <p class="lead">A program of yours that signs in by itself, with tokens. Its password is shown once.</p>
      {added && (
        <div class="fresh" role="status">
          <dl class="facts">
            <dt>E-mail</dt>
            <dd>
              <code>{added.email}</code> <CopyButton text={added.email} what="the e-mail" />
            </dd>
            <dt>Password</dt>
            <dd>
              <code>{added.password}</code> <CopyButton text={added.password} what="the password" />
            </dd>
          </dl>
          <p>Put them into its configuration now.</p>
        </div>
      )}
      <Form key={added?.id} action="Add the server" onSubmit={add}>
        {(fields) => (
          <>
            <Field label="Name" name="name" error={fields['name']} />
            <RoleSelect value="developer" hasAdmin={false} />
          </>
        )}
      </Form>
    </Part>
  )
}
