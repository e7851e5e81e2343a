import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { EMAIL, Field, Form } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { Fault } from '../queries.tsx'
import { fragment } from '../router.ts'
import type { Body } from '../routes.ts'
import { useCompany } from './company-field.tsx'
import { Frame } from './frame.tsx'

/** For users who have not confirmed their email: sends a new link. */

type Account = Body<'POST /auth/verify-email/resend'>

interface AwaitedProps {
  account: Account
  title?: string
  /** The text before the email address. */
  text: string
  onBack?: () => void
  onChange?: () => void
}

/** Shown until the user opens the emailed link. */
export function LinkAwaited({ account, title = 'Check your email', text, onBack, onChange }: AwaitedProps) {
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

/** Shown for a link that does not work. */
export function LinkWanted({ title, why }: { title: string; why: string }) {
  const [asked, setAsked] = useState<Account | null>(null)
  const company = useCompany('Account at')
  if (asked)
    return <LinkAwaited account={asked} text="If it isn't confirmed yet, we've emailed a new link to" />
  return (
    <Frame title={title} links={{ '/sign-in': 'Sign in', '/register': 'Register again' }}>
      <Fault>{why}</Fault>
      <Form
        action="Email me a new link"
        onSubmit={async (values) => {
          const body = { ...company.read(values), email: values.email.trim() }
          await call('POST /auth/verify-email/resend', { body })
          setAsked(body)
        }}
      >
        {company.field()}
        <Field {...EMAIL} value={fragment.get('email') ?? ''} />
      </Form>
    </Frame>
  )
}
