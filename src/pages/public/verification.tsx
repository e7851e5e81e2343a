import type { ComponentChildren } from 'preact'
import { call } from '../api.ts'
import { Form } from '../form.tsx'
import type { Body } from '../routes.ts'
import { Frame } from './frame.tsx'

interface Props {
  account: Body<'POST /auth/verify-email/resend'>
  /** Links. */
  children: ComponentChildren
}

/** Shown until the user opens the emailed link to confirm their email. */
export function LinkAwaited({ account, children }: Props) {
  return (
    <Frame title="Check your email">
      <p>
        We've emailed a link to <strong>{account.email}</strong>. Open it to confirm your email, then sign in.
      </p>
      <Form
        action="Send again"
        isSecond
        onSubmit={async () => {
          await call('POST /auth/verify-email/resend', { body: account })
          return 'Sent again. We send at most three emails per hour, so check your spam folder too.'
        }}
      />
      <p class="links">{children}</p>
    </Frame>
  )
}
