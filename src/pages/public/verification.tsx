import { call } from '../api.ts'
import { Form } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import type { Body } from '../routes.ts'
import { Frame } from './frame.tsx'

interface Props {
  account: Body<'POST /auth/verify-email/resend'>
  title?: string
  /** The text before the email address. */
  text: string
  onBack?: () => void
  onChange?: () => void
}

/** Shown until the user opens the emailed link to confirm their email. */
export function LinkAwaited({ account, title = 'Check your email', text, onBack, onChange }: Props) {
  return (
    <Frame title={title}>
      <p>
        {text} <strong>{account.email}</strong>. Open it to confirm your email, then sign in.
      </p>
      <Form
        action="Send again"
        isSecond
        onSubmit={async () => {
          await call('POST /auth/verify-email/resend', { body: account })
          return 'Sent again. We send at most three emails per hour, so check your spam folder too.'
        }}
      />
      <p class="links">
        {onChange && <LinkButton onClick={onChange}>Change the email</LinkButton>}
        {onBack ? <LinkButton onClick={onBack}>Back to sign-in</LinkButton> : <a href="/sign-in">Sign in</a>}
      </p>
    </Frame>
  )
}
