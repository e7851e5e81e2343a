import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { CopyButton, StepTitle } from '../parts.tsx'
import type { NewAuthenticator } from '../routes.ts'
import { QrCode } from './qr-code.tsx'

interface Props {
  /** Inactive until its first code. */
  added: NewAuthenticator
  onAdded: (recoveryCodes: string[] | undefined) => void
  onCancel: () => void
}

/** Shows the secret for the authenticator app, and verifies its first code. */
export function SetUpAuthenticator({ added, onAdded, onCancel }: Props) {
  const { id, secret, uri } = added
  async function confirm({ code }: Values): Promise<void> {
    const { recoveryCodes } = await call('POST /auth/second-factors/totp/:id/confirm', {
      id,
      body: { code: code.trim() },
    })
    onAdded(recoveryCodes)
  }
  return (
    <div class="step">
      <StepTitle>Add an authenticator app</StepTitle>
      <p>
        Scan this QR code with your app, or enter the secret. Is the app on this device?{' '}
        <a href={uri}>Open it there</a>.
      </p>
      <QrCode text={uri} label="QR code of the secret below" />
      <p class="secret">
        <code>{secret.match(/.{1,4}/g)?.join(' ')}</code> <CopyButton text={secret} what="the secret" />
      </p>
      <Form action="Add the app" onSubmit={confirm} onCancel={onCancel}>
        {(faults) => (
          <Field
            label="Code"
            name="code"
            autoComplete="one-time-code"
            isNumeric
            hint="The 6-digit code that the app shows now."
            hasFocus
            error={faults['code']}
          />
        )}
      </Form>
    </div>
  )
}
