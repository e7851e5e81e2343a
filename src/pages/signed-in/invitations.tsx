import { useState } from 'preact/hooks'
import { call, type OpenInvitations } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { useChange, useLoaded, usePolling, Waiting } from '../loading.tsx'
import { Section, Time } from '../parts.tsx'
import { RoleSelect } from './role-select.tsx'

export function Invite({ onInvited }: { onInvited: () => void }) {
  // The form is empty again after each success, and stays as it is while it can fail.
  const [done, setDone] = useState({ count: 0, email: '' })
  async function invite({ email = '', role }: Record<string, string>): Promise<void> {
    await call('/auth/invitations', { body: { email: email.trim(), role } })
    setDone({ count: done.count + 1, email })
    onInvited()
  }
  return (
    <Section id="invite" title="Invite a colleague">
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
    </Section>
  )
}

const MAIL = { waiting: 'its mail waits', sent: 'mailed', failed: 'its mail could not be sent' } as const
const POLL_MS = 3_000

/** Those that are open, if there are any. `turn` changes when there is another one. */
export function Invitations({ turn }: { turn: number }) {
  const load = () => call<OpenInvitations>('/auth/invitations?limit=100', { method: 'GET' })
  const loaded = useLoaded(load, [turn])
  const change = useChange()
  const invitations = loaded.value?.invitations ?? []
  usePolling(
    loaded.reload,
    POLL_MS,
    invitations.some(({ mail }) => mail === 'waiting'),
  )
  const run = (path: string, method: 'POST' | 'DELETE') =>
    change.run(async () => {
      await call(path, { method })
      loaded.reload()
    })
  if (invitations.length === 0 && !change.shown && !loaded.error) return null
  return (
    <Section id="invitations" title="Open invitations">
      {change.shown}
      <Waiting of={loaded} />
      <ul class="rows">
        {invitations.map(({ id, email, role, mail, expiresAt, invitedBy }) => (
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
                disabled={change.isBusy}
                onClick={() => run(`/auth/invitations/${id}/resend`, 'POST')}
              >
                Send again
              </button>
              <button
                type="button"
                class="small"
                disabled={change.isBusy}
                onClick={() => run(`/auth/invitations/${id}`, 'DELETE')}
              >
                Withdraw
              </button>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )
}
