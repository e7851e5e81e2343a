import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { type Loaded, Waiting } from '../data.tsx'
import { Field, Form } from '../form.tsx'
import { useLoss } from '../leaving.tsx'
import { Copied, Dialog, Section, Time } from '../parts.tsx'
import type { NewSecret, SecretStatus, Session } from '../routes.ts'

interface Props {
  session: Session
  status: Loaded<SecretStatus>
  /** What was made since the page was opened. */
  fresh: NewSecret | null
  onReplaced: (secret: NewSecret) => void
}

/** The signing secret of the company: what is known of it, a first one, and another one in its place. */
export function SigningSecret({ session, status, fresh, onReplaced }: Props) {
  return (
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
            onReplaced={onReplaced}
            onSettled={status.reload}
          />
        </>
      )}
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
      <button type="button" class="grave" onClick={() => setOpen(true)}>
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

/** Whether the service has taken an event that was signed with it. */
export function isUsed({ version }: NewSecret, status: SecretStatus | null): boolean {
  return status?.version === version && status.lastUsedAt !== null
}

/** The new secret, until the page is left. */
function FreshSecret({ secret, status }: { secret: NewSecret; status: SecretStatus | null }) {
  useLoss(isUsed(secret, status) ? null : 'Your new signing secret is not shown again. Have you copied it?')
  return (
    <div class="fresh">
      <p>
        <strong>Your new secret, version {secret.version}.</strong> Copy it now: it is not shown again.
      </p>
      <p class="secret">
        <Copied text={secret.secret} what="the secret" />
      </p>
    </div>
  )
}
