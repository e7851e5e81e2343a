import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { Link } from '../parts.tsx'
import { useCompany } from './company-field.tsx'
import { Done, Frame } from './frame.tsx'

/** For who has forgotten a password or a company. */

/** Mails are asked for with the same answer, whether or not there is an account. */
export function ForgotPassword() {
  const [isDone, setDone] = useState(false)
  const company = useCompany()
  async function ask({ email, ...values }: Record<string, string>): Promise<void> {
    const companyId = company.of(values)
    await call('/auth/password/forgot', { body: { companyId, email: email?.trim() } })
    setDone(true)
  }
  return (
    <Frame title="Forgot your password?">
      {isDone ? (
        <Done>
          If there is such an account, a mail is on its way, with a link to choose a new password. The link
          works for an hour.
        </Done>
      ) : (
        <Form action="Send me a link" onSubmit={ask}>
          {(fields) => (
            <>
              {company.field(fields['companyId'])}
              <Field
                label="E-mail"
                name="email"
                type="email"
                autoComplete="username"
                error={fields['email']}
              />
            </>
          )}
        </Form>
      )}
      <p class="links">
        <Link to="/sign-in">Back to sign-in</Link>
      </p>
    </Frame>
  )
}

export function WhichCompany() {
  const [isDone, setDone] = useState(false)
  async function ask({ email }: Record<string, string>): Promise<void> {
    await call('/auth/companies/remind', { body: { email: email?.trim() } })
    setDone(true)
  }
  return (
    <Frame title="Which company?">
      {isDone ? (
        <Done>
          If the address belongs to a company here, a mail is on its way that names it, with a link to sign
          in.
        </Done>
      ) : (
        <Form action="Send me a mail" onSubmit={ask}>
          {(fields) => (
            <Field label="E-mail" name="email" type="email" autoComplete="email" error={fields['email']} />
          )}
        </Form>
      )}
      <p class="links">
        <Link to="/sign-in">Back to sign-in</Link>
      </p>
    </Frame>
  )
}
