import { useRef, useState } from 'preact/hooks'
import { ApiError, call, type NewSecret, type Refusals, type SecretStatus, type Session } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { useLoaded, usePolling, Waiting } from '../loading.tsx'
import { CopyButton, Section, Time, Title } from '../parts.tsx'
import { SendExamples } from './send-examples.tsx'

const POLL_MS = 2_000

/** The signing secret, how to send events, and why some were refused. What senders do meanwhile shows by itself. */
export function Developer({ session }: { session: Session }) {
  const { companyId } = session.accessContext
  const status = useLoaded(() => call<SecretStatus>('/auth/webhook-secret/status'))
  const refusals = useLoaded(() => call<Refusals>('/auth/webhook-secret/refusals', { method: 'GET' }))
  const [fresh, setFresh] = useState<NewSecret | null>(null)
  usePolling(() => {
    status.reload()
    refusals.reload()
  }, POLL_MS)
  return (
    <>
      <Title>Developer settings</Title>
      <Section id="secret" title="Signing secret">
        <p class="lead">Your servers sign their events with it, so that nobody else can send in your name.</p>
        {fresh && <FreshSecret secret={fresh} status={status.value} />}
        <Waiting of={status} />
        {status.value && (
          <>
            <SecretFacts status={status.value} />
            <Replace
              session={session}
              status={status.value}
              onReplaced={setFresh}
              onSettled={status.reload}
            />
          </>
        )}
      </Section>
      <Section id="send" title="Send events">
        <dl class="facts">
          <dt>Company id</dt>
          <dd>
            <code>{companyId}</code> <CopyButton text={companyId} what="the company id" />
          </dd>
          <dt>Address</dt>
          <dd>
            <code>{location.origin}/api/events/ingest</code>{' '}
            <CopyButton text={`${location.origin}/api/events/ingest`} what="the address" />
          </dd>
        </dl>
        <SendExamples companyId={companyId} />
      </Section>
      <Section id="refused" title="Refused requests">
        <p class="lead">Of the last 7 days, by minute.</p>
        <Waiting of={refusals} />
        {refusals.value && <RefusedRequests refusals={refusals.value.refusals} />}
      </Section>
    </>
  )
}

function SecretFacts({ status }: { status: SecretStatus }) {
  if (!status.configured || !status.createdAt)
    return (
      <p class="notice">
        There is no secret yet. Make one, and put it into the configuration of your servers.
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
      <dt>Made</dt>
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
  const { companyName } = session.accessContext
  const dialog = useRef<HTMLDialogElement>(null)
  const [isOpen, setOpen] = useState(false)

  async function replace(): Promise<void> {
    const body = { expectedVersion: status.version ?? 0 }
    try {
      onReplaced(await call<NewSecret>('/auth/webhook-secret/regenerate', { body }))
      dialog.current?.close()
    } finally {
      onSettled()
    }
  }

  if (!status.configured)
    return (
      <Form action="Make the secret" onSubmit={replace}>
        {() => null}
      </Form>
    )
  return (
    <>
      <button
        type="button"
        onClick={() => {
          setOpen(true)
          dialog.current?.showModal()
        }}
      >
        Replace the secret…
      </button>
      <dialog ref={dialog} aria-labelledby="replace-title" onClose={() => setOpen(false)}>
        {isOpen && (
          <>
            <h2 id="replace-title">Replace the signing secret?</h2>
            <p>
              The old one is dead at once. <strong>Every event is refused</strong> until your senders have the
              new one. It is shown once.
            </p>
            <ConfirmByName
              name={companyName}
              onConfirmed={replace}
              onCancel={() => dialog.current?.close()}
            />
          </>
        )}
      </dialog>
    </>
  )
}

interface ConfirmProps {
  name: string
  onConfirmed: () => Promise<void>
  onCancel: () => void
}

function ConfirmByName({ name, onConfirmed, onCancel }: ConfirmProps) {
  return (
    <Form
      action="Replace it"
      isDanger
      onCancel={onCancel}
      cancel="Keep the old one"
      onSubmit={async ({ company }) => {
        const fields = { company: `must be “${name}”` }
        if (company?.trim() !== name)
          throw new ApiError('invalid_request', 'That is another name.', { fields })
        await onConfirmed()
      }}
    >
      {(fields) => (
        <Field
          label="Name of the company"
          name="company"
          hint={`Type ${name} to go on.`}
          error={fields['company']}
        />
      )}
    </Form>
  )
}

/** The new secret, until the page is left; and a tick when the first event signed with it has come. */
function FreshSecret({ secret, status }: { secret: NewSecret; status: SecretStatus | null }) {
  const isUsed = status?.version === secret.version && status.lastUsedAt !== null
  return (
    <div class="fresh">
      <p>
        <strong>Your new secret, version {secret.version}.</strong> Copy it now: it is not shown again.
      </p>
      <p class="secret">
        <code>{secret.secret}</code> <CopyButton text={secret.secret} what="the secret" />
      </p>
      <p role="status">
        {isUsed ? (
          <span class="tick">✓ The first event signed with it has come.</span>
        ) : (
          <span class="quiet">
            Waiting for the first event signed with it… If one is refused, you see below why.
          </span>
        )}
      </p>
    </div>
  )
}

type Refusal = Refusals['refusals'][number]

/** What each reason means, and what to do. */
const MEANING: Record<Refusal['reason'], (refusal: Refusal) => string> = {
  header_missing: () =>
    'A header is missing or there twice. Send X-Company-Id, webhook-id, webhook-timestamp and webhook-signature, each once.',
  timestamp_malformed: () => 'webhook-timestamp is no number. Send Unix seconds.',
  timestamp_stale: ({ clockSkewSeconds = 0 }) =>
    `Your clock is ${inWords(Math.abs(clockSkewSeconds))} ${clockSkewSeconds < 0 ? 'behind' : 'ahead'}, or the request was kept back. Set the clock by NTP, and sign when you send.`,
  signature_malformed: () =>
    'webhook-signature has no entry of the form v1,<base64 of 32 bytes>. Send the signature in that form.',
  signature_mismatch: () =>
    'The signature is not that of these bytes under your secret. Sign id.timestamp.body, with the body as it is sent, and with the key that the base64 after whsec_ stands for.',
  previous_secret: () => 'Signed with the secret before the current one. Give this sender the new one.',
  subscription_inactive: () => 'The subscription is not active. Renew it to send events.',
  feature_not_in_plan: () => 'Your plan does not include events. A larger one does.',
  malformed_body: () =>
    'The body is no JSON that every program reads alike: a name twice, or text that is not UTF-8.',
  invalid_request: () =>
    'The body has a field that is missing, unknown or of another form. The answer names it.',
  event_id_conflict: () =>
    'An event with this id is stored already, with other content. Give each event an id of its own.',
  rate_limited: () =>
    'Too many requests, or too many that were refused, from one network. Wait as Retry-After says.',
}

function inWords(seconds: number): string {
  if (seconds < 120) return `${seconds} seconds`
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`
}

function RefusedRequests({ refusals }: { refusals: Refusal[] }) {
  if (refusals.length === 0)
    return <p class="empty">None. When a request is refused, you see here why, and what to do.</p>
  return (
    <ul class="refusals">
      {refusals.map((refusal) => (
        <li key={`${refusal.reason} ${refusal.firstAt} ${refusal.ipAddress}`}>
          <p>{MEANING[refusal.reason](refusal)}</p>
          <p class="quiet">
            {refusal.count} × <code>{refusal.reason}</code> from {refusal.ipAddress}, last{' '}
            <Time at={refusal.lastAt} />
            {refusal.webhookId && (
              <>
                {' '}
                as <code>{refusal.webhookId}</code>
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  )
}
