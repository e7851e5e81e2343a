import { useState } from 'preact/hooks'
import { ApiError, call, type OwnSessions, type Session } from '../api.ts'
import { Field, NewPassword } from '../form.tsx'
import { useChange, useLoaded, Waiting } from '../loading.tsx'
import { CopyButton, Section, Time, Title } from '../parts.tsx'
import { browserNameOf } from './browser-name.ts'
import { Change } from './change.tsx'
import { EmailSection } from './email-section.tsx'
import { SecondFactorSection } from './second-factors.tsx'

interface Props {
  session: Session
  onChanged: () => void
}

/** One's own name, e-mail, password, second factors and sessions. */
export function Account({ session, onChanged }: Props) {
  const { user } = session
  // Changes when the other sessions have ended.
  const [turn, setTurn] = useState(0)
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
      <EmailSection email={user.email} />
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
              <NewPassword label="New password" name="newPassword" error={fields['newPassword']} />
            </>
          )}
        </Change>
      </Section>
      <SecondFactorSection session={session} onChanged={() => setTurn(turn + 1)} />
      <OwnSessionList turn={turn} />
      <Company session={session} />
    </>
  )
}

const SUBSCRIPTION: Record<string, string> = {
  trialing: 'in trial until',
  active: 'paid until',
  past_due: 'payment is due since',
}

function Company({ session }: { session: Session }) {
  const { companyId, companyName, role } = session.accessContext
  const { status, plan, currentPeriodEnd } = session.subscription
  return (
    <Section id="company" title="Company">
      <dl class="facts">
        <dt>Name</dt>
        <dd>{companyName}</dd>
        <dt>Company id</dt>
        <dd>
          <code>{companyId}</code> <CopyButton text={companyId} what="the company id" />
        </dd>
        <dt>Your role</dt>
        <dd>{role}</dd>
        <dt>Plan</dt>
        <dd>
          {plan}, {SUBSCRIPTION[status] ?? `${status} since`} <Time at={currentPeriodEnd} />
        </dd>
      </dl>
    </Section>
  )
}

/** The browser and its system, or the whole text of another program. */
function nameOf(userAgent: string | null): string {
  if (userAgent === null) return 'A program without a name'
  return browserNameOf(userAgent) ?? userAgent
}

function OwnSessionList({ turn }: { turn: number }) {
  const loaded = useLoaded(() => call<OwnSessions>('/auth/sessions', { method: 'GET' }), [turn])
  const { run, isBusy, shown } = useChange()
  const others = loaded.value?.sessions.filter(({ current }) => !current) ?? []

  const end = (ids: string[]) =>
    run(async () => {
      try {
        for (const id of ids) await call(`/auth/sessions/${id}`, { method: 'DELETE' }).catch(unlessGone)
      } finally {
        loaded.reload()
      }
    })

  return (
    <Section id="sessions" title="Sessions">
      <p class="lead">Where you are signed in. End one that you do not know, and change your password.</p>
      {shown}
      <Waiting of={loaded} />
      {loaded.value && (
        <ul class="sessions">
          {loaded.value.sessions.map(({ id, current, userAgent, ipAddress, lastSeenAt, createdAt }) => (
            <li key={id}>
              <div>
                <strong>{nameOf(userAgent)}</strong> {current && <span class="tag">this session</span>}
                <p class="quiet">
                  from {ipAddress ?? 'an unknown address'}, opened <Time at={createdAt} />, last used{' '}
                  <Time at={lastSeenAt} />
                </p>
              </div>
              {!current && (
                <button type="button" class="small" disabled={isBusy} onClick={() => end([id])}>
                  End
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {others.length > 1 && (
        <button type="button" disabled={isBusy} onClick={() => end(others.map(({ id }) => id))}>
          End all others
        </button>
      )}
    </Section>
  )
}

/** It has ended already, which is what was asked for. */
function unlessGone(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 404)) throw error
}
