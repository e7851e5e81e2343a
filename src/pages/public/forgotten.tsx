import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { EMAIL, Field, Form, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { fragment } from '../router.ts'
import { useCompany } from './company-field.tsx'
import { Frame } from './frame.tsx'

/** For a forgotten password or company. The response does not reveal accounts, so the page repeats the input. */

export function ForgotPassword() {
  const company = useCompany('Account at')
  return (
    <MailWanted
      title="Reset your password"
      action="Email me a link"
      company={company}
      send={(values, email) =>
        call('POST /auth/password/forgot', { body: { ...company.read(values), email } })
      }
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
      intro="We'll email you a list of your companies, with a link to sign in to each."
      action="Email me my companies"
      send={(_values, email) => call('POST /auth/companies/remind', { body: { email } })}
    >
      belongs to a company here, we've emailed you the company's name and a link to sign in.
    </MailWanted>
  )
}

interface Props {
  title: string
  intro?: string
  action: string
  company?: ReturnType<typeof useCompany>
  send: (values: Values, email: string) => Promise<void>
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
    await send(values, typed)
    setEmail(typed)
    setDone(true)
  }
  return (
    <Frame title={title} links={{ '/sign-in': 'Back to sign-in' }}>
      {intro && <p>{intro}</p>}
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
