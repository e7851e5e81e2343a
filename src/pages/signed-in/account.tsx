import { ApiError, call } from '../api.ts'
import { Field, Form, NewPassword, Username } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { Copied, Section, Time, Title } from '../parts.tsx'
import { useRead, useReload, Waiting } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { CAN, MAY, type Role } from '../words.ts'
import { browserNameOf } from './browser-name.ts'
import { EmailSection } from './email-section.tsx'
import { SecondFactorSection } from './second-factors.tsx'
import type { PageProps } from './shell.tsx'
import { UsedRecoveryCode } from './used-recovery-code.tsx'

/** The user's own permissions, name, email, password, second factors, and sessions. */
export function Account({ session, onChanged, onRecovered }: PageProps) {
  const { user } = session
  const reload = useReload()
  return (
    <>
      <Title>Your account</Title>
      {onRecovered && <UsedRecoveryCode onClose={onRecovered} />}
      <Rights session={session} />
      <Section id="name" title="Your name">
        <Form
          action="Save name"
          onSubmit={async ({ name }) => {
            const changed = await call('PATCH /auth/account', { body: { name } })
            onChanged({ ...session, user: { ...user, name: changed.name } })
            return 'Name saved.'
          }}
        >
          {(faults) => (
            <Field label="Name" name="name" autoComplete="name" value={user.name} error={faults['name']} />
          )}
        </Form>
      </Section>
      <EmailSection email={user.email} />
      <Section id="password" title="Password">
        <p class="lead">Changing your password signs you out everywhere else.</p>
        <Form
          action="Change password"
          onSubmit={async ({ currentPassword, newPassword }) => {
            await call('POST /auth/password/change', { body: { currentPassword, newPassword } })
            reload('GET /auth/sessions')
            return "Password changed. You're signed out everywhere else."
          }}
        >
          {(faults) => (
            <>
              <Username email={user.email} />
              <Field
                label="Current password"
                name="currentPassword"
                type="password"
                autoComplete="current-password"
                error={faults['currentPassword']}
              />
              <NewPassword label="New password" name="newPassword" error={faults['newPassword']} />
            </>
          )}
        </Form>
      </Section>
      <SecondFactorSection session={session} onAdded={onRecovered} />
      <OwnSessionList />
    </>
  )
}

function Rights({ session: { user, permissions, accessContext } }: { session: Session }) {
  return (
    <Section id="rights" title={user.name}>
      <p class="lead">{user.email}</p>
      <dl class="facts">
        <dt>Company</dt>
        <dd>{accessContext.companyName}</dd>
        <dt>Handle</dt>
        <dd>
          <Copied text={accessContext.companyHandle ?? accessContext.companyId} what="the handle" />
          <p class="quiet">Enter it to sign in on a new device.</p>
        </dd>
        <dt>Role</dt>
        <dd>
          {user.role}
          <p class="quiet">{CAN[user.role as Role]}</p>
        </dd>
        <dt>Assignments</dt>
        <dd>{accessContext.assignments.join(', ') || 'none'}</dd>
        <dt>Permissions</dt>
        <dd>
          <ul class="plain">
            {permissions.map((permission) => (
              <li key={permission}>{MAY[permission] ?? permission}</li>
            ))}
          </ul>
        </dd>
      </dl>
    </Section>
  )
}

/** The browser and its system, or a program's full user agent. */
function nameOf(userAgent: string | null): string {
  if (userAgent === null) return 'An unnamed program'
  return browserNameOf(userAgent) ?? userAgent
}

function OwnSessionList() {
  const loaded = useRead('GET /auth/sessions')
  const change = useChange()
  const { run, isBusy } = change
  const others = loaded.data?.sessions.filter(({ current }) => !current) ?? []

  const end = (ids: string[]) =>
    run(async () => {
      try {
        for (const id of ids) await call('DELETE /auth/sessions/:id', { id }).catch(unlessGone)
      } finally {
        loaded.refetch()
      }
    })

  return (
    <Section id="sessions" title="Sessions">
      <p class="lead">
        Places where you're signed in. If you don't recognize one, end it and change your password.
      </p>
      <Outcome of={change} />
      <Waiting of={loaded} />
      {loaded.data && (
        <ul class="sessions">
          {loaded.data.sessions.map(({ id, current, userAgent, ipAddress, lastSeenAt, createdAt }) => (
            <li key={id}>
              <div>
                <strong>{nameOf(userAgent)}</strong> {current && <span class="tag">this session</span>}
                <p class="quiet">
                  from {ipAddress ?? 'an unknown address'}, opened <Time at={createdAt} />, last used{' '}
                  <Time at={lastSeenAt} />
                </p>
              </div>
              {!current && (
                <button type="button" class="small" aria-disabled={isBusy} onClick={() => end([id])}>
                  End
                  <span class="hidden">
                    {' '}
                    the session of {nameOf(userAgent)}, opened {createdAt}
                  </span>
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {others.length > 1 && (
        <button type="button" aria-disabled={isBusy} onClick={() => end(others.map(({ id }) => id))}>
          End {others.length} other sessions
        </button>
      )}
    </Section>
  )
}

/** A session that has already ended is not an error. */
function unlessGone(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 404)) throw error
}
