import { useEffect, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { useLoaded, Waiting } from '../data.tsx'
import { Field, Form } from '../form.tsx'
import { useLoss } from '../leaving.tsx'
import { Copied, Dialog, Section, Time, Title } from '../parts.tsx'
import type { NewSecret, SecretStatus, Session } from '../routes.ts'
import { RefusedRequests } from './refused-requests.tsx'
import { SendExamples } from './send-examples.tsx'

const POLL_MS = 2_000

/** How to send events and to check tokens, for everybody; the signing secret and why events were refused, for who manages it. */
export function Developer({ session }: { session: Session }) {
  const { companyId, companyHandle } = session.accessContext
  const { origin } = location
  const mayManage = session.permissions.includes('webhook-secret:manage')
  const mayAdd = session.permissions.includes('members:manage')
  // Whom the policy holds is told so by a request; without the secret, nothing else here makes one.
  useEffect(() => {
    if (!mayManage) call('GET /auth/sessions').catch(() => {})
  }, [mayManage])
  return (
    <>
      <Title>Developer settings</Title>
      {mayManage && <SigningSecret session={session} />}
      <Section id="send" title="Send events">
        <dl class="facts">
          <dt>Endpoint URL</dt>
          <dd>
            <Copied text={`${origin}/api/events/ingest`} what="the endpoint URL" />
          </dd>
          <dt>Company ID</dt>
          <dd>
            <Copied text={companyId} what="the company ID" />
          </dd>
        </dl>
        {!mayManage && (
          <p class="notice">An admin of your company creates the signing secret, and can give it to you.</p>
        )}
        <SendExamples companyId={companyId} />
      </Section>
      {mayManage && <Refused />}
      <Section id="sign-in" title="Sign in from a program">
        <p class="lead">
          Programs sign in as a service account.{' '}
          {mayAdd ? (
            <>
              Add one under <a href="/members">Members</a>.
            </>
          ) : (
            'An admin of your company adds one.'
          )}
        </p>
        <dl class="facts">
          <dt>Sign in</dt>
          <dd>
            <Copied text={`POST ${origin}/api/auth/login`} what="the address of sign-in" />
            <p class="quiet">
              with <code>companyId</code> or <code>company</code> ({companyHandle ?? 'no handle yet'}),{' '}
              <code>email</code> and <code>password</code>
            </p>
          </dd>
          <dt>Check a token</dt>
          <dd>
            <Copied text={`GET ${origin}/api/auth/session`} what="the address of the session" />
            <p class="quiet">tells who somebody is and what they may do at this moment</p>
          </dd>
          <dt>Key set</dt>
          <dd>
            <Copied text={`${origin}/api/.well-known/jwks.json`} what="the address of the key set" />
            <p class="quiet">
              to verify access tokens offline: ES256, issuer <code>{origin}/api</code>, audience{' '}
              <code>gatehouse</code>; claims <code>sub</code> user, <code>cid</code> company, <code>sid</code>{' '}
              session, <code>role</code>, <code>perms</code>. Changes show within 15 minutes.
            </p>
          </dd>
          <dt>API reference</dt>
          <dd>
            <a href="/api/openapi.json" target="_blank" rel="noopener">
              openapi.json
            </a>
          </dd>
        </dl>
      </Section>
    </>
  )
}

/** What senders do meanwhile shows by itself. */
function SigningSecret({ session }: { session: Session }) {
  const status = useLoaded(() => call('POST /auth/webhook-secret/status'), { everyMs: POLL_MS })
  const [fresh, setFresh] = useState<NewSecret | null>(null)
  return (
    <Section id="secret" title="Signing secret">
      <p class="lead">Your servers sign their events with it, so that nobody else can send in your name.</p>
      {fresh && <FreshSecret secret={fresh} status={status.value} />}
      <Waiting of={status} />
      {status.value && (
        <>
          <SecretFacts status={status.value} />
          <Replace session={session} status={status.value} onReplaced={setFresh} onSettled={status.reload} />
        </>
      )}
    </Section>
  )
}

function Refused() {
  const loaded = useLoaded(() => call('GET /auth/webhook-secret/refusals'), { everyMs: POLL_MS })
  return (
    <Section id="refused" title="Refused requests">
      <p class="lead">Last 7 days, grouped by minute.</p>
      <Waiting of={loaded} />
      {loaded.value && <RefusedRequests refusals={loaded.value.refusals} />}
    </Section>
  )
}

function SecretFacts({ status }: { status: SecretStatus }) {
  if (!status.configured || !status.createdAt)
    return (
      <p class="notice">
        There is no secret yet. Create one, and add it to the configuration of your servers.
      </p>
    )
  return (
    <dl class="facts">
      <dt>Version</dt>
      <dd>{status.version}</dd>
      <dt>Ends in</dt>
      <dd>
        <code>{status.hint}</code>
      </dd>
      <dt>Created</dt>
      <dd>
        <Time at={status.createdAt} /> by {status.createdBy?.email ?? 'a member who was deleted'}
      </dd>
      <dt>Last used</dt>
      <dd>{status.lastUsedAt ? <Time at={status.lastUsedAt} /> : 'never'}</dd>
    </dl>
  )
}

interface ReplaceProps {
  session: Session
  status: SecretStatus
  onReplaced: (secret: NewSecret) => void
  /** Also after a failure: somebody else can have replaced it, or the answer was lost. */
  onSettled: () => void
}

function Replace({ session, status, onReplaced, onSettled }: ReplaceProps) {
  const { companyName: name } = session.accessContext
  const [isOpen, setOpen] = useState(false)

  async function replace(): Promise<void> {
    const body = { expectedVersion: status.version ?? 0 }
    try {
      onReplaced(await call('POST /auth/webhook-secret/regenerate', { body }))
      setOpen(false)
    } finally {
      onSettled()
    }
  }

  if (!status.configured) return <Form action="Create signing secret" onSubmit={replace} />
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Replace secret…
      </button>
      {isOpen && (
        <Dialog title="Replace the signing secret?" onClose={() => setOpen(false)}>
          <p>
            The current secret stops working immediately. <strong>Every event is refused</strong> until your
            senders have the new one, which is shown once.
          </p>
          <Form
            action="Replace secret"
            isDanger
            onCancel={() => setOpen(false)}
            onSubmit={async ({ companyName }) => {
              const fields = { companyName: `must be “${name}”` }
              if (companyName.trim() !== name)
                throw new ApiError('invalid_request', 'The name does not match.', { fields })
              await replace()
            }}
          >
            {(faults) => (
              <Field
                label="Name of the company"
                name="companyName"
                hint={`Type ${name} to go on.`}
                hasFocus
                error={faults['companyName']}
              />
            )}
          </Form>
        </Dialog>
      )}
    </>
  )
}

/** The new secret, until the page is left; and a tick when the first event signed with it was received. */
function FreshSecret({ secret, status }: { secret: NewSecret; status: SecretStatus | null }) {
  const isUsed = status?.version === secret.version && status.lastUsedAt !== null
  useLoss(isUsed ? null : 'Your new signing secret is not shown again. Have you copied it?')
  return (
    <div class="fresh">
      <p>
        <strong>Your new secret, version {secret.version}.</strong> Copy it now: it is not shown again.
      </p>
      <p class="secret">
        <Copied text={secret.secret} what="the secret" />
      </p>
      <p role="status">
        {isUsed ? (
          <span class="tick">✓ First event signed with it received.</span>
        ) : (
          <span class="quiet">
            Waiting for the first event signed with it… If one is refused, you'll see why below.
          </span>
        )}
      </p>
    </div>
  )
}
