import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { fragment } from '../router.ts'
import { useCompany } from './company-field.tsx'
import { Done, Frame } from './frame.tsx'

/** For a forgotten password or company. The response does not reveal accounts, so the page repeats the input. */

export function ForgotPassword() {
  const [typed, setTyped] = useState({ company: '', email: fragment.get('email') ?? '' })
  const [isDone, setDone] = useState(false)
  const company = useCompany(null, { typed: typed.company, at: 'Account at' })
  async function ask(values: Values): Promise<void> {
    const email = values.email.trim()
    await call('POST /auth/password/forgot', { body: { ...company.read(values), email } })
    setTyped({ company: values.company.trim(), email })
    setDone(true)
  }
  if (isDone)
    return (
      <Frame title="Check your email">
        <Done>
          If <strong>{typed.email}</strong> has an account at{' '}
          <strong>{company.known?.name ?? typed.company}</strong>, we've emailed you a link to choose a new
          password. The link works for one hour.
        </Done>
        <NoMail what="company or email" onChange={() => setDone(false)} />
      </Frame>
    )
  return (
    <Frame title="Reset your password">
      <Form action="Email me a link" onSubmit={ask}>
        {(faults) => (
          <>
            {company.field(faults)}
            <Field
              label="Email"
              name="email"
              type="email"
              autoComplete="username"
              hasFocus={TAKES_FOCUS && !company.isMissing}
              value={typed.email}
              error={faults['email']}
            />
          </>
        )}
      </Form>
      <p class="links">
        <a href="/sign-in">Back to sign-in</a>
      </p>
    </Frame>
  )
}

export function FindCompany() {
  const [typed, setTyped] = useState(fragment.get('email') ?? '')
  const [isDone, setDone] = useState(false)
  async function ask(values: Values): Promise<void> {
    const email = values.email.trim()
    await call('POST /auth/companies/remind', { body: { email } })
    setTyped(email)
    setDone(true)
  }
  if (isDone)
    return (
      <Frame title="Check your email">
        <Done>
          If <strong>{typed}</strong> belongs to a company here, we've emailed you the company's name and a
          link to sign in.
        </Done>
        <NoMail what="email" onChange={() => setDone(false)} />
      </Frame>
    )
  return (
    <Frame title="Find your company">
      <p>We'll email you a list of your companies, with a link to sign in to each.</p>
      <Form action="Email me my companies" onSubmit={ask}>
        {(faults) => (
          <Field
            label="Email"
            name="email"
            type="email"
            autoComplete="email"
            hasFocus={TAKES_FOCUS}
            value={typed}
            error={faults['email']}
          />
        )}
      </Form>
      <p class="links">
        <a href="/sign-in">Back to sign-in</a>
      </p>
    </Frame>
  )
}

function NoMail({ what, onChange }: { what: string; onChange: () => void }) {
  return (
    <>
      <p class="hint">Didn't get an email? Check your spam folder and the {what} above.</p>
      <p class="links">
        <LinkButton onClick={onChange}>Change the {what}</LinkButton>
        <a href="/sign-in">Back to sign-in</a>
      </p>
    </>
  )
}
