import { call, download, nullIfGone, session as shown } from '../api.ts'
import { Field, NewPassword, Username } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { Copied, LIST, Section, Time, Title } from '../parts.tsx'
import { useRead, useReload, Waiting } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { CAN, MAY, type Role } from '../words.ts'
import { browserNameOf } from './browser-name.ts'
import { EmailSetting } from './email-setting.tsx'
import { SecondFactorSection, UsedRecoveryCode } from './second-factors.tsx'
import { Setting } from './setting.tsx'

export interface PageProps {
  session: Session
  onChanged: (changed: Session) => void
  onEnrolled: () => void
  /** The notice about a used recovery code was followed or dismissed. Undefined if none was used. */
  onRecovered: (() => void) | undefined
}

export function Account({ session, onChanged, onRecovered }: PageProps) {
  const { user, permissions, accessContext } = session
  const reload = useReload()
  return (
    <>
      <Title>Your account</Title>
      {onRecovered && <UsedRecoveryCode onClose={onRecovered} />}
      <Section id="profile" title="Profile">
        <dl class="settings">
          <Setting
            label="Name"
            value={user.name}
            onSubmit={async ({ name }) => {
              const changed = await call('PATCH /auth/account', { body: { name } })
              onChanged({ ...session, user: { ...user, name: changed.name } })
              return 'Name saved.'
            }}
          >
            <Field label="Name" name="name" autoComplete="name" value={user.name} hasFocus />
          </Setting>
          <EmailSetting email={user.email} />
          <Setting
            label="Password"
            value={<span class="quiet">Changing it signs you out everywhere else.</span>}
            onSubmit={async ({ currentPassword, newPassword }) => {
              await call('POST /auth/password/change', { body: { currentPassword, newPassword } })
              reload('GET /auth/sessions')
              return "Password changed. You're signed out everywhere else."
            }}
          >
            <Username email={user.email} />
            <Field
              label="Current password"
              name="currentPassword"
              type="password"
              autoComplete="current-password"
              hasFocus
            />
            <NewPassword label="New password" name="newPassword" />
          </Setting>
          <Setting
            label="Company"
            value={
              <>
                {accessContext.companyName}{' '}
                <Copied text={accessContext.companyHandle ?? accessContext.companyId} what="the handle" />
              </>
            }
          />
          <Setting
            label="Role"
            value={
              <details>
                <summary>
                  {user.role} <span class="quiet">{CAN[user.role as Role]}</span>
                </summary>
                <p class="quiet">
                  You can {LIST.format(permissions.map((permission) => MAY[permission] ?? permission))}.
                  Assignments: {LIST.format(accessContext.assignments) || 'none'}.
                </p>
              </details>
            }
          />
        </dl>
      </Section>
      <SecondFactorSection onRecovered={onRecovered} />
      <OwnSessionList />
      <OwnData />
    </>
  )
}

function OwnData() {
  const saving = useChange()
  return (
    <Section
      id="data"
      title="Your data"
      aside={
        <button
          type="button"
          class="small"
          aria-disabled={saving.isBusy}
          onClick={() => saving.run(() => download('account.json', 'GET /auth/account/export'))}
        >
          Download<span class="hidden"> your data</span>
        </button>
      }
    >
      <p class="lead">Download everything that gatehouse stores about you, as JSON.</p>
      <Outcome of={saving} />
      <dl class="settings">
        <Setting
          label="Account"
          act="Delete"
          isDanger
          value={<span class="quiet">Deleting it removes your access and your personal data.</span>}
          onSubmit={async () => {
            await call('DELETE /auth/account')
            shown.ended('user_deleted')
            return ''
          }}
        >
          <p>
            Your name, email, password, and second factors are deleted, and all your sessions end. Open
            invitations that you sent stop working.
          </p>
          <p>The audit log stays. It keeps what you did with your ID, but without your name.</p>
          <p>This can't be undone.</p>
        </Setting>
      </dl>
    </Section>
  )
}

/** The browser and its system, or a program's full user agent. */
const nameOf = (userAgent: string | null) =>
  browserNameOf(userAgent ?? '') ?? userAgent ?? 'An unnamed program'

function OwnSessionList() {
  const loaded = useRead('GET /auth/sessions')
  const change = useChange()
  const { run, isBusy } = change
  const others = loaded.data?.sessions.filter(({ current }) => !current) ?? []

  const end = (ids: string[]) =>
    run(async () => {
      try {
        for (const id of ids) await call('DELETE /auth/sessions/:id', { id }).catch(nullIfGone)
      } finally {
        loaded.refetch()
      }
      return ids.length > 1 ? `${ids.length} sessions ended.` : 'Session ended.'
    })

  return (
    <Section
      id="sessions"
      title="Sessions"
      aside={
        others.length > 1 && (
          <button
            type="button"
            class="small"
            aria-disabled={isBusy}
            onClick={() => end(others.map(({ id }) => id))}
          >
            End {others.length} other sessions
          </button>
        )
      }
    >
      {others.length > 0 && (
        <p class="lead">If you don't recognize a session, end it and change your password.</p>
      )}
      <Outcome of={change} />
      <Waiting of={loaded} />
      {loaded.data && (
        <dl class="settings">
          {loaded.data.sessions.map(({ id, current, userAgent, ipAddress, lastSeenAt, createdAt }) => (
            <div key={id}>
              <dt>{nameOf(userAgent)}</dt>
              <dd class="value">
                {ipAddress ?? 'unknown address'} {current && <span class="tag">this session</span>}
                <p class="quiet">
                  opened <Time at={createdAt} />, last used <Time at={lastSeenAt} />
                </p>
              </dd>
              {!current && (
                <dd>
                  <button type="button" class="small" aria-disabled={isBusy} onClick={() => end([id])}>
                    End
                    <span class="hidden">{` the session of ${nameOf(userAgent)}, opened ${createdAt}`}</span>
                  </button>
                </dd>
              )}
            </div>
          ))}
        </dl>
      )}
    </Section>
  )
}
