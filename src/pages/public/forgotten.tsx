import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { EMAIL, Field, Form, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { Fault } from '../queries.tsx'
import { fragment } from '../router.ts'
import type { Body } from '../routes.ts'
import { useCompany } from './company-field.tsx'
import { Frame } from './frame.tsx'

/** For a forgotten password or company, or a link that does not work. The response does not reveal accounts, so the page repeats the input. */

export function ForgotPassword() {
  const company = useCompany('Account at')
  return (
    <MailWanted
      title="Reset your password"
      action="Email me a link"
      company={company}
      send={(body) => call('POST /auth/password/forgot', { body })}
    >
      has an account at <strong>{company.known?.name ?? company.typed}</strong>, we've emailed you a link to
      choose a new password. The link works for one hour.
    </MailWanted>
  )
}

export function FindCompany() {
  return (
    <MailWanted
      title="Find your company"
      intro={<p>We'll email you a list of your companies, with a link to sign in to each.</p>}
      action="Email me my companies"
      send={(body) => call('POST /auth/companies/remind', { body })}
    >
      belongs to a company here, we've emailed you the company's name and a link to sign in.
    </MailWanted>
  )
}

/** Sends a new link to confirm an email. */
export function LinkWanted({ title, why }: { title: string; why: string }) {
  return (
    <MailWanted
      title={title}
      intro={<Fault>{why}</Fault>}
      action="Email me a new link"
      company={useCompany('Account at')}
      send={(body) => call('POST /auth/verify-email/resend', { body })}
    >
      isn't confirmed yet, we've emailed you a new link. Open it to confirm your email, then sign in.
    </MailWanted>
  )
}

interface Props {
  title: string
  intro?: ComponentChildren
  action: string
  company?: ReturnType<typeof useCompany>
  send: (account: Body<'POST /auth/password/forgot'>) => Promise<void>
  /** Completes "If <email> …". */
  children: ComponentChildren
}

function MailWanted({ title, intro, action, company, send, children }: Props) {
  const [email, setEmail] = useState(fragment.get('email') ?? '')
  const [isDone, setDone] = useState(false)
  const what = company ? 'company or email' : 'email'
  if (isDone)
    return (
      <Frame title="Check your email">
        <div class="done" role="status">
          If <strong>{email}</strong> {children}
        </div>
        <p class="quiet">Didn't get an email? Check your spam folder and the {what} above.</p>
        <p class="links">
          <LinkButton onClick={() => setDone(false)}>Change the {what}</LinkButton>
          <a href="/sign-in">Back to sign-in</a>
        </p>
      </Frame>
    )
  async function ask(values: Values): Promise<void> {
    const typed = values.email.trim()
    await send({ ...company?.read(values), email: typed })
    setEmail(typed)
    setDone(true)
  }
  return (
    <Frame title={title} links={{ '/sign-in': 'Back to sign-in', '/register': 'Register a company' }}>
      {intro}
      <Form action={action} onSubmit={ask}>
        {company?.field()}
        <Field
          {...EMAIL}
          autoComplete={company ? 'username' : 'email'}
          hasFocus={TAKES_FOCUS && !company?.isMissing}
          value={email}
        />
      </Form>
    </Frame>
  )
}
