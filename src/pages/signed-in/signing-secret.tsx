import type { UseQueryResult } from '@tanstack/preact-query'
import { ApiError, call, invalid } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { useLoss } from '../leaving.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { Copied, Fact, Time } from '../parts.tsx'
import { Waiting } from '../queries.tsx'
import type { NewSecret, SecretStatus } from '../routes.ts'
import { DialogButton } from './dialog-button.tsx'

interface Props {
  companyName: string
  status: UseQueryResult<SecretStatus>
  /** Created since the page was opened. */
  fresh: NewSecret | null
  onReplaced: (secret: NewSecret) => void
}

export function SigningSecret({ companyName: name, status: loaded, fresh, onReplaced }: Props) {
  const { data: status, refetch } = loaded
  // It outlives the dialog, which can be closed while the request runs.
  const change = useChange()
  const isUsed = status?.version === fresh?.version && status?.lastUsedAt
  useLoss(
    change.isBusy
      ? "Your new signing secret isn't here yet. If you leave now, you'll never see it."
      : fresh && !isUsed
        ? "Your new signing secret won't be shown again. Have you copied it?"
        : null,
  )

  async function replace({ companyName }: Values): Promise<string> {
    if (status?.configured && companyName.trim() !== name) throw invalid({ companyName: `must be “${name}”` })
    const expectedVersion = status?.version ?? 0
    try {
      onReplaced(await call('POST /auth/webhook-secret/regenerate', { body: { expectedVersion } }))
      return 'Secret created.'
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status > 0 && error.status < 500)) throw error
      throw new ApiError(
        error.code,
        `${error.message} The secret may have been replaced: if this page now shows version ${expectedVersion + 1}, replace it again to see it.`,
      )
    } finally {
      // After a failure too: someone else may have replaced the secret, or the response was lost.
      refetch()
    }
  }
  return (
    <>
      <Outcome of={change} isOfForm />
      {fresh && (
        <div class="fresh">
          <p>
            <strong>Your new secret, version {fresh.version}.</strong> Copy it now. We won't show it again.
          </p>
          <p class="secret">
            <Copied text={fresh.secret} what="the secret" />
          </p>
        </div>
      )}
      <Waiting of={loaded} />
      {status && !status.configured && (
        <>
          <p class="notice">There is no secret yet. Create one, and add it to your servers' configuration.</p>
          <Form action="Create signing secret" onSubmit={replace} change={change} />
        </>
      )}
      {status?.configured && (
        <>
          <dl class="facts">
            <Fact name="Version">{status.version}</Fact>
            <Fact name="Ends in">
              <code>{status.hint}</code>
            </Fact>
            <Fact name="Created">
              {status.createdAt && <Time at={status.createdAt} />} by{' '}
              {status.createdBy?.email ?? 'a deleted member'}
            </Fact>
            <Fact name="Last used">{status.lastUsedAt ? <Time at={status.lastUsedAt} /> : 'never'}</Fact>
          </dl>
          <DialogButton
            class="grave"
            title="Replace the signing secret?"
            change={change}
            dialog={(form) => (
              <Form {...form} action="Replace secret" isDanger onSubmit={replace}>
                <p>
                  The current secret stops working immediately. <strong>Every event is refused</strong> until
                  your senders have the new one. We show it only once.
                </p>
                <Field
                  label="Company name"
                  name="companyName"
                  hint={`To continue, enter ${name}.`}
                  hasFocus
                />
              </Form>
            )}
          >
            Replace secret…
          </DialogButton>
        </>
      )}
    </>
  )
}
