import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { Copied, Fact, Section, Time, Title } from '../parts.tsx'
import { polled, reading, useRead, Waiting } from '../queries.tsx'
import type { NewSecret, Session } from '../routes.ts'
import { POLL_MS, ReceivedEvents } from './received-events.tsx'
import { FirstEvent, Send } from './send-events.tsx'
import { SetupList } from './setup-list.tsx'
import { SigningSecret, Target } from './signing-secret.tsx'

/** How to send events and check tokens. Members who manage the signing secret also see it, and refused requests. */
export function Developer({ session }: { session: Session }) {
  const mayManage = session.permissions.includes('webhook-secret:manage')
  return (
    <>
      <Title>Developer settings</Title>
      {mayManage ? <Managed session={session} /> : <Unmanaged session={session} />}
    </>
  )
}

/** Polls, so that new events and refusals appear without a reload. */
function Managed({ session }: { session: Session }) {
  const status = useQuery({ ...reading('POST /auth/webhook-secret/status'), ...polled(POLL_MS) })
  const refused = useQuery({ ...reading('GET /auth/webhook-secret/refusals'), ...polled(POLL_MS) })
  const [fresh, setFresh] = useState<NewSecret | null>(null)
  const hint = status.data?.hint ?? undefined
  return (
    <>
      {session.permissions.includes('members:manage') && <SetupList status={status} />}
      <div class="columns">
        <SigningSecret session={session} status={status} fresh={fresh} onReplaced={setFresh} />
        <Send session={session} secret={fresh?.secret} canTest={status.data?.configured}>
          {status.data?.configured && (
            <FirstEvent status={status.data} fresh={fresh} refusals={refused.data?.refusals ?? []} />
          )}
        </Send>
        <SignIn session={session} />
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
        <SignIn session={session} />
      </div>
      {mayInspect && <ReceivedEvents session={session} />}
    </>
  )
}

function SignIn({ session }: { session: Session }) {
  const { companyHandle } = session.accessContext
  const mayAdd = session.permissions.includes('members:manage')
  const { origin } = location
  return (
    <Section
      id="sign-in"
      title="Sign in from a program"
      aside={mayAdd && <a href="/members">Add a service account</a>}
    >
      <p class="lead">
        Programs sign in as a service account.{!mayAdd && ' Ask an admin of your company to add one.'}
      </p>
      {mayAdd && <ServiceAccounts />}
      <dl class="facts">
        <Fact name="Sign in">
          <Copied method="POST" text={`${origin}/api/auth/login`} what="the sign-in URL" />
          <p class="quiet">
            Send <code>companyId</code> or <code>company</code> ({companyHandle ?? 'no handle yet'}),{' '}
            <code>email</code>, and <code>password</code>.
          </p>
        </Fact>
        <Fact name="Check a token">
          <Copied method="GET" text={`${origin}/api/auth/session`} what="the session URL" />
          <p class="quiet">Returns the user and their current permissions.</p>
        </Fact>
        <Fact name="Key set">
          <Copied text={`${origin}/api/.well-known/jwks.json`} what="the key set URL" />
          <p class="quiet">Verifies access tokens offline.</p>
        </Fact>
      </dl>
      <p class="links">
        <a href="/docs" target="_blank" rel="noopener">
          Guides
        </a>
        <a href="/docs/reference" target="_blank" rel="noopener">
          API reference
        </a>
        <a href="/api/openapi.json" target="_blank" rel="noopener">
          openapi.json
        </a>
      </p>
    </Section>
  )
}

function ServiceAccounts() {
  const loaded = useRead('GET /auth/members', { query: { kind: 'service', limit: 20 } })
  const { members = [], total = 0 } = loaded.data ?? {}
  return (
    <>
      <Waiting of={loaded} />
      {total > 0 && (
        <ul class="plain">
          {members.map(({ id, name, lastSignInAt: at }) => (
            <li key={id}>
              <strong>{name}</strong>{' '}
              <span class="quiet">Last used: {at ? <Time at={at} isToTheHour /> : 'never'}</span>
            </li>
          ))}
          {total > members.length && <li>And {total - members.length} more</li>}
        </ul>
      )}
    </>
  )
}
