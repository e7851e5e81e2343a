import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { Copied, Fact, Section, Time, Title } from '../parts.tsx'
import { polled, reading, Waiting } from '../queries.tsx'
import type { NewSecret, Session } from '../routes.ts'
import { POLL_MS, ReceivedEvents } from './received-events.tsx'
import { INGEST_URL, LastEvent, Send } from './send-events.tsx'
import { SetupList } from './setup-list.tsx'
import { SigningSecret } from './signing-secret.tsx'

/** How to send events and check tokens. Members who manage the signing secret also see it, and refused requests. */
export function Developer({ session }: { session: Session }) {
  const may = (permission: string) => session.permissions.includes(permission)
  const mayManage = may('webhook-secret:manage')
  const mayInspect = may('events:inspect')
  // New events and refusals appear without a reload.
  const polling = { ...polled(POLL_MS), enabled: mayManage }
  const status = useQuery({ ...reading('POST /auth/webhook-secret/status'), ...polling })
  const refused = useQuery({ ...reading('GET /auth/webhook-secret/refusals'), ...polling })
  // Any request makes the enrollment page appear for members the policy blocks.
  useQuery({ ...reading('GET /auth/sessions'), enabled: !mayManage })
  const [fresh, setFresh] = useState<NewSecret | null>(null)
  const { companyId, companyName } = session.accessContext
  const secret = mayManage ? status.data : undefined
  return (
    <>
      <Title>Developer settings</Title>
      {mayManage && may('members:manage') && <SetupList status={status} />}
      <div class="columns">
        <Section id="secret" title="Signing secret">
          <p class="lead">
            Your servers sign events with this secret, so that nobody else can send events for your company.
          </p>
          <dl class="facts">
            <Fact name="Endpoint URL">
              <Copied text={INGEST_URL} what="the endpoint URL" />
            </Fact>
            <Fact name="Company ID">
              <Copied text={companyId} what="the company ID" />
            </Fact>
          </dl>
          {mayManage ? (
            <SigningSecret companyName={companyName} status={status} fresh={fresh} onReplaced={setFresh} />
          ) : (
            <p class="notice">To get the signing secret, ask an admin of your company.</p>
          )}
        </Section>
        <Send session={session} secret={fresh?.secret} canTest={mayManage ? secret?.configured : mayInspect}>
          {secret?.configured && <LastEvent status={secret} refusals={refused.data?.refusals ?? []} />}
        </Send>
        <SignIn session={session} />
      </div>
      {mayManage && <ReceivedEvents session={session} refused={refused} hint={secret?.hint} />}
      {!mayManage && mayInspect && <ReceivedEvents session={session} />}
    </>
  )
}

function SignIn({ session }: { session: Session }) {
  const { companyHandle } = session.accessContext
  const mayAdd = session.permissions.includes('members:manage')
  const reads = reading('GET /auth/members', { query: { kind: 'service', limit: 20 } })
  const loaded = useQuery({ ...reads, enabled: mayAdd })
  const { members = [], total = 0 } = loaded.data ?? {}
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
      {mayAdd && <Waiting of={loaded} />}
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
