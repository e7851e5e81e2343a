import type { UseQueryResult } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { useLoss } from '../leaving.tsx'
import { Copied, Dialog, Section, Time } from '../parts.tsx'
import { Waiting } from '../queries.tsx'
import type { NewSecret, SecretStatus, Session } from '../routes.ts'

interface Props {
  session: Session
  status: UseQueryResult<SecretStatus>
  /** Created since the page was opened. */
  fresh: NewSecret | null
  onReplaced: (secret: NewSecret) => void
}

/** The status of the company's signing secret, and forms to create or replace it. */
export function SigningSecret({ session, status, fresh, onReplaced }: Props) {
  return (
    <Section id="secret" title="Signing secret">
      <p class="lead">
        Your servers sign events with this secret, so that nobody else can send events for your company.
      </p>
      {fresh && <FreshSecret secret={fresh} status={status.data} />}
      <Waiting of={status} />
      {status.data && (
        <>
          <SecretFacts status={status.data} />
          <Replace
            session={session}
            status={status.data}
            onReplaced={onReplaced}
            onSettled={status.refetch}
          />
        </>
      )}
    </Section>
  )
}

function SecretFacts({ status }: { status: SecretStatus }) {
  if (!status.configured || !status.createdAt)
    return (
      <p class="notice">There is no secret yet. Create one, and add it to your servers' configuration.</p>
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
        <Time at={status.createdAt} /> by {status.createdBy?.email ?? 'a deleted member'}
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
  /** Called after a failure too: someone else may have replaced the secret, or the response was lost. */
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
            senders have the new one. We show it only once.
          </p>
          <Form
            action="Replace secret"
            isDanger
            onCancel={() => setOpen(false)}
            onSubmit={async ({ companyName }) => {
              const fields = { companyName: `must be “${name}”` }
              if (companyName.trim() !== name)
                throw new ApiError('invalid_request', "The name doesn't match. Enter the company's name.", {
                  fields,
                })
              await replace()
            }}
          >
            {(faults) => (
              <Field
                label="Company name"
                name="companyName"
                hint={`To continue, enter ${name}.`}
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

/** Whether the service accepted an event that was signed with it. */
export function isUsed({ version }: NewSecret, status: SecretStatus | undefined): boolean {
  return status?.version === version && status.lastUsedAt !== null
}

/** The new secret, until the page is left. */
function FreshSecret({ secret, status }: { secret: NewSecret; status: SecretStatus | undefined }) {
  useLoss(isUsed(secret, status) ? null : "Your new signing secret won't be shown again. Have you copied it?")
  return (
    <div class="fresh">
      <p>
        <strong>Your new secret, version {secret.version}.</strong> Copy it now. We won't show it again.
      </p>
      <p class="secret">
        <Copied text={secret.secret} what="the secret" />
      </p>
    </div>
  )
}
