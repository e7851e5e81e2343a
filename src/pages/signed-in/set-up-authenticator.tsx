import { call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { CopyButton } from '../parts.tsx'
import type { NewAuthenticator } from '../routes.ts'
import type { Step } from './add-passkey.tsx'
import { QrCode } from './qr-code.tsx'

/** Shows the secret of an app that is inactive until its first code, which this verifies. */
export function SetUpAuthenticator({ added, add, ...form }: Step & { added: NewAuthenticator }) {
  const { id, secret, uri } = added
  return (
    <>
      <p>
        Scan this QR code with your app, or enter the secret. Is the app on this device?{' '}
        <a href={uri}>Open it there</a>.
      </p>
      <QrCode text={uri} label="QR code of the secret below" />
      <p class="secret">
        <code>{secret.match(/.{1,4}/g)?.join(' ')}</code> <CopyButton text={secret} what="the secret" />
      </p>
      <Form
        {...form}
        action="Add the app"
        onSubmit={({ code }) =>
          add(call('POST /auth/second-factors/totp/:id/confirm', { id, body: { code: code.trim() } }))
        }
      >
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
    </>
  )
}
