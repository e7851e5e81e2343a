import { useQuery } from '@tanstack/preact-query'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Copied, Section, Title } from '../parts.tsx'
import { polled, reading, useRead, Waiting } from '../queries.tsx'
import type { NewSecret, Session } from '../routes.ts'
import { FirstEvent } from './first-event.tsx'
import { RefusedRequests } from './refused-requests.tsx'
import { SendExamples } from './send-examples.tsx'
import { SigningSecret } from './signing-secret.tsx'

const POLL_MS = 2_000

/** How to send events and check tokens. Members who manage the signing secret also see it, and refused requests. */
export function Developer({ session }: { session: Session }) {
  const mayManage = session.permissions.includes('webhook-secret:manage')
  return (
    <>
      <Title>Developer settings</Title>
      {mayManage ? <Managed session={session} /> : <Unmanaged session={session} />}
      <SignIn session={session} />
    </>
  )
}

/** Polls, so that new events and refusals appear without a reload. */
function Managed({ session }: { session: Session }) {
  const status = useQuery({ ...reading('POST /auth/webhook-secret/status'), ...polled(POLL_MS) })
  const refused = useQuery({ ...reading('GET /auth/webhook-secret/refusals'), ...polled(POLL_MS) })
  const [fresh, setFresh] = useState<NewSecret | null>(null)
  const refusals = refused.data?.refusals
  const hint = status.data?.hint ?? undefined
  return (
    <>
      <SigningSecret session={session} status={status} fresh={fresh} onReplaced={setFresh} />
      <Send session={session}>
        {status.data && <FirstEvent status={status.data} fresh={fresh} refusals={refusals ?? []} />}
      </Send>
      <Section id="refused" title="Refused requests">
        <p class="lead">Last 7 days, grouped by minute.</p>
        <Waiting of={refused} />
        {refusals && <RefusedRequests refusals={refusals} hint={hint} />}
      </Section>
    </>
  )
}

function Unmanaged({ session }: { session: Session }) {
  // Any request makes the enrollment page appear for members the policy blocks.
  useRead('GET /auth/sessions')
  return (
    <Send session={session}>
      <p class="notice">To get the signing secret, ask an admin of your company.</p>
    </Send>
  )
}

function Send({ session, children }: { session: Session; children: ComponentChildren }) {
  const { companyId } = session.accessContext
  return (
    <Section id="send" title="Send events">
      <dl class="facts">
        <dt>Endpoint URL</dt>
        <dd>
          <Copied text={`${location.origin}/api/events/ingest`} what="the endpoint URL" />
        </dd>
        <dt>Company ID</dt>
        <dd>
          <Copied text={companyId} what="the company ID" />
        </dd>
      </dl>
      <SendExamples companyId={companyId} />
      {children}
    </Section>
  )
}

function SignIn({ session }: { session: Session }) {
  const { companyHandle } = session.accessContext
  const { origin } = location
  const mayAdd = session.permissions.includes('members:manage')
  return (
    <Section id="sign-in" title="Sign in from a program">
      <p class="lead">
        Programs sign in as a service account.{' '}
        {mayAdd ? (
          <>
            Add one under <a href="/members">Members</a>.
          </>
        ) : (
          'Ask an admin of your company to add one.'
        )}
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
