import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { CopyButton, StepTitle } from '../parts.tsx'
import type { NewAuthenticator } from '../routes.ts'
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
        Scan this with the app, or type the secret into it. On this device:{' '}
        <a href={uri}>open it in your app</a>.
      </p>
      <QrCode text={uri} label="QR code of the secret, which is below as text" />
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
            hint="The six digits that the app shows now."
            hasFocus
            error={faults['code']}
          />
        )}
      </Form>
    </div>
  )
}
