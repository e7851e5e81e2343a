import { useState } from 'preact/hooks'
import { call, type OwnSessions, type Session } from '../api.ts'
import { Field, Form, Time, Title, useLoaded, Waiting } from '../parts.tsx'

interface Props {
  session: Session
  onChanged: () => void
}

/** One's own name, address, password and sessions. */
export function Account({ session, onChanged }: Props) {
  const { user } = session
  return (
    <>
      <Title>Your account</Title>
      <Section id="name" title="Your name">
        <Change
          action="Save the name"
          done="Your name is saved."
          submit={async ({ name }) => {
            await call('/auth/account', { method: 'PATCH', body: { name } })
            onChanged()
          }}
        >
          {(fields) => (
            <Field label="Name" name="name" autoComplete="name" value={user.name} error={fields['name']} />
          )}
        </Change>
      </Section>
      <Section id="email" title="E-mail">
        <p class="lead">
          You sign in with <strong>{user.email}</strong>.
        </p>
        <Change
          action="Send me a link"
          done="A link is on its way to the new address. Nothing changes until you follow it."
          submit={({ newEmail }) => call('/auth/email/change', { body: { newEmail: newEmail?.trim() } })}
        >
          {(fields) => (
            <Field
              label="New e-mail"
              name="newEmail"
              type="email"
              autoComplete="email"
              error={fields['newEmail']}
            />
          )}
        </Change>
      </Section>
      <Section id="password" title="Password">
        <p class="lead">Your other sessions end when you change it.</p>
        <Change
          action="Change the password"
          done="Your password is changed, and your other sessions have ended."
          submit={({ currentPassword, newPassword }) =>
            call('/auth/password/change', { body: { currentPassword, newPassword } })
          }
        >
          {(fields) => (
            <>
              <input type="hidden" name="username" autoComplete="username" value={user.email} />
              <Field
                label="Current password"
                name="currentPassword"
                type="password"
                autoComplete="current-password"
                error={fields['currentPassword']}
              />
              <Field
                label="New password"
                name="newPassword"
                type="password"
                autoComplete="new-password"
                hint="At least 8 characters that nobody guesses."
                error={fields['newPassword']}
              />
            </>
          )}
        </Change>
      </Section>
      <OwnSessionList />
    </>
  )
}

/** A browser and its system, as far as they tell; the whole text of another program. */
function nameOf(userAgent: string | null): string {
  if (userAgent === null) return 'A program without a name'
  const [, browser] = /(Edg|OPR|Firefox|Chrome|Safari)\w*\//.exec(userAgent) ?? []
  const [, system] = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(userAgent) ?? []
  return browser && system ? `${BROWSERS[browser] ?? browser} on ${system}` : userAgent
}

const BROWSERS: Record<string, string> = { Edg: 'Edge', OPR: 'Opera' }

interface SectionProps {
  id: string
  title: string
  children: preact.ComponentChildren
}

function Section({ id, title, children }: SectionProps) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  )
}

interface ChangeProps {
  action: string
  done: string
  submit: (values: Record<string, string>) => Promise<unknown>
  children: (fields: Record<string, string>) => preact.ComponentChildren
}

/** A form that says when it has succeeded, and is empty again then. */
function Change({ action, done, submit, children }: ChangeProps) {
  const [turn, setTurn] = useState(0)
  return (
    <>
      <Form
        key={turn}
        action={action}
        onSubmit={async (values) => {
          await submit(values)
          setTurn(turn + 1)
        }}
      >
        {children}
      </Form>
      <p role="status" class="done">
        {turn > 0 && done}
      </p>
    </>
  )
}

function OwnSessionList() {
  const { value, error, reload } = useLoaded(() => call<OwnSessions>('/auth/sessions', { method: 'GET' }))
  const [fault, setFault] = useState<string | null>(null)
  const others = value?.sessions.filter(({ current }) => !current) ?? []

  async function end(ids: string[]): Promise<void> {
    setFault(null)
    try {
      for (const id of ids) await call(`/auth/sessions/${id}`, { method: 'DELETE' })
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error))
    }
    reload()
  }

  return (
    <Section id="sessions" title="Sessions">
      <p class="lead">Where you are signed in. End one that you do not know, and change your password.</p>
      {fault && (
        <p class="error box" role="alert">
          {fault}
        </p>
      )}
      {!value && <Waiting error={error} retry={reload} />}
      {value && (
        <ul class="sessions">
          {value.sessions.map(({ id, current, userAgent, ipAddress, lastSeenAt, createdAt }) => (
            <li key={id}>
              <div>
                <strong>{current ? 'This session' : nameOf(userAgent)}</strong>
                <p class="quiet">
                  from {ipAddress ?? 'an unknown address'}, opened <Time at={createdAt} />, last used{' '}
                  <Time at={lastSeenAt} />
                </p>
              </div>
              {!current && (
                <button type="button" class="small" onClick={() => end([id])}>
                  End
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {others.length > 1 && (
        <button type="button" onClick={() => end(others.map(({ id }) => id))}>
          End all others
        </button>
      )}
    </Section>
  )
}
