import { type ConfirmedAuthenticator, call, type NewAuthenticator } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { CopyButton, StepTitle } from '../parts.tsx'
import { QrCode } from './qr-code.tsx'

interface Props {
  /** Not in force before its first code. */
  added: NewAuthenticator
  onAdded: (recoveryCodes: string[] | undefined) => void
  onCancel: () => void
}

/** Gives the secret to an authenticator app, and takes its first code. */
export function SetUpAuthenticator({ added, onAdded, onCancel }: Props) {
  const { id, secret, uri } = added
  async function confirm({ code = '' }: Record<string, string>): Promise<void> {
    const path = `/auth/second-factors/totp/${id}/confirm`
    const { recoveryCodes } = await call<ConfirmedAuthenticator>(path, { body: { code: code.trim() } })
    onAdded(recoveryCodes)
  }
  return (
    <div class="step">
      <StepTitle>Add an authenticator app</StepTitle>
      <p>Scan this with the app, or type the secret into it.</p>
      <QrCode text={uri} label="QR code of the secret, which is below as text" />
      <p class="secret">
        <code>{secret.match(/.{1,4}/g)?.join(' ')}</code> <CopyButton text={secret} what="the secret" />
      </p>
      <Form action="Add the app" onSubmit={confirm} onCancel={onCancel}>
        {(fields) => (
          <Field
            label="Code"
            name="code"
            autoComplete="one-time-code"
            isNumeric
            hint="The six digits that the app shows now."
            error={fields['code']}
          />
        )}
      </Form>
    </div>
  )
}
