import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { Copied, Section, Time, Title } from '../parts.tsx'
import { polled, reading, useRead, Waiting } from '../queries.tsx'
import type { NewSecret, Session } from '../routes.ts'
import { POLL_MS, ReceivedEvents } from './received-events.tsx'
import { FirstEvent, Send } from './send-events.tsx'
import { SetupList } from './setup-list.tsx'
import { SigningSecret, Target } from './signing-secret.tsx'

/** How to send events and check tokens. Members who manage the signing secret also see it, and refused requests. */
export function Developer({ session }: { session: Session }) {
  const mayManage = session.permissions.includes('webhook-secret:manage')
  const mayAdd = session.permissions.includes('members:manage')
  return (
    <>
      <Title>Developer settings</Title>
      {mayManage ? <Managed session={session} mayAdd={mayAdd} /> : <Unmanaged session={session} />}
      <SignIn session={session} mayAdd={mayAdd} />
    </>
  )
}

/** Polls, so that new events and refusals appear without a reload. */
function Managed({ session, mayAdd }: { session: Session; mayAdd: boolean }) {
  const status = useQuery({ ...reading('POST /auth/webhook-secret/status'), ...polled(POLL_MS) })
  const refused = useQuery({ ...reading('GET /auth/webhook-secret/refusals'), ...polled(POLL_MS) })
  const [fresh, setFresh] = useState<NewSecret | null>(null)
  const hint = status.data?.hint ?? undefined
  return (
    <>
      {mayAdd && <SetupList status={status.data} />}
      <div class="columns">
        <SigningSecret session={session} status={status} fresh={fresh} onReplaced={setFresh} />
        <Send session={session} secret={fresh?.secret} canTest={status.data?.configured}>
          {status.data?.configured && (
            <FirstEvent status={status.data} fresh={fresh} refusals={refused.data?.refusals ?? []} />
          )}
        </Send>
        {mayAdd && <ServiceAccounts />}
      </div>
      <ReceivedEvents session={session} refused={refused} hint={hint} />
    </>
  )
}

function Unmanaged({ session }: { session: Session }) {
  // Any request makes the enrollment page appear for members the policy blocks.
  useRead('GET /auth/sessions')
  const mayInspect = session.permissions.includes('events:inspect')
  return (
    <>
      <div class="columns">
        <Section id="secret" title="Signing secret">
          <p class="notice">To get the signing secret, ask an admin of your company.</p>
          <dl class="facts">
            <Target session={session} />
          </dl>
        </Section>
        <Send session={session} canTest={mayInspect} />
      </div>
      {mayInspect && <ReceivedEvents session={session} />}
    </>
  )
}

function ServiceAccounts() {
  const loaded = useRead('GET /auth/members', { query: { kind: 'service', limit: 20 } })
  const { members = [], total = 0 } = loaded.data ?? {}
  return (
    <Section id="service-accounts" title="Service accounts" aside={<a href="/members">Members</a>}>
      <Waiting of={loaded} />
      {loaded.data && total === 0 && <p class="empty">None yet. Add one under Members.</p>}
      {total > 0 && (
        <ul class="sessions">
          {members.map(({ id, name, lastSignInAt }) => (
            <li key={id}>
              <strong>{name}</strong>
              <span class="quiet">
                {lastSignInAt ? (
                  <>
                    Last used <Time at={lastSignInAt} isToTheHour />
                  </>
                ) : (
                  'Never used'
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
      {total > members.length && <p class="quiet">And {total - members.length} more under Members.</p>}
    </Section>
  )
}

function SignIn({ session, mayAdd }: { session: Session; mayAdd: boolean }) {
  const { companyHandle } = session.accessContext
  const { origin } = location
  return (
    <Section id="sign-in" title="Sign in from a program">
      <p class="lead">
        Programs sign in as a service account.{!mayAdd && ' Ask an admin of your company to add one.'}
      </p>
      <dl class="facts">
        <dt>Sign in</dt>
        <dd>
          <Copied method="POST" text={`${origin}/api/auth/login`} what="the sign-in URL" />
          <p class="quiet">
            Send <code>companyId</code> or <code>company</code> ({companyHandle ?? 'no handle yet'}),{' '}
            <code>email</code>, and <code>password</code>.
          </p>
        </dd>
        <dt>Check a token</dt>
        <dd>
          <Copied method="GET" text={`${origin}/api/auth/session`} what="the session URL" />
          <p class="quiet">Returns the user and their current permissions.</p>
        </dd>
        <dt>Key set</dt>
        <dd>
          <Copied text={`${origin}/api/.well-known/jwks.json`} what="the key set URL" />
          <p class="quiet">
            Verifies access tokens offline: ES256, issuer <code>{origin}/api</code>, audience{' '}
            <code>gatehouse</code>. Claims: <code>sub</code> (user), <code>cid</code> (company),{' '}
            <code>sid</code> (session), <code>role</code>, <code>perms</code>. Changes take effect within 15
            minutes.
          </p>
        </dd>
        <dt>Documentation</dt>
        <dd>
          <a href="/docs" target="_blank" rel="noopener">
            Guides
          </a>
          ,{' '}
          <a href="/docs/reference" target="_blank" rel="noopener">
            API reference
          </a>
          , and{' '}
          <a href="/api/openapi.json" target="_blank" rel="noopener">
            openapi.json
          </a>
        </dd>
      </dl>
    </Section>
  )
}
