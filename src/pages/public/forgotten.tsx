import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { fragment } from '../router.ts'
import { useCompany } from './company-field.tsx'
import { Done, Frame } from './frame.tsx'

/** For who has forgotten a password or a company. */

/** Mails are asked for with the same answer, whether or not there is an account. */
export function ForgotPassword() {
  const [isDone, setDone] = useState(false)
  const company = useCompany(null)
  async function ask(values: Values): Promise<void> {
    await call('POST /auth/password/forgot', {
      body: { ...company.read(values), email: values.email.trim() },
    })
    setDone(true)
  }
  return (
    <Frame title="Forgot your password?">
      {isDone ? (
        <Done>
          If there is an account with this address, we've sent it an email with a link to choose a new
          password. The link works for an hour.
        </Done>
      ) : (
        <Form action="Email me a link" onSubmit={ask}>
          {(faults) => (
            <>
              {company.field(faults)}
              <Field
                label="Email"
                name="email"
                type="email"
                autoComplete="username"
                value={fragment.get('email') ?? ''}
                error={faults['email']}
              />
            </>
          )}
        </Form>
      )}
      <p class="links">
        <a href="/sign-in">Back to sign-in</a>
      </p>
    </Frame>
  )
}

export function WhichCompany() {
  const [isDone, setDone] = useState(false)
  async function ask({ email }: Values): Promise<void> {
    await call('POST /auth/companies/remind', { body: { email: email.trim() } })
    setDone(true)
  }
  return (
    <Frame title="Which company?">
      {isDone ? (
        <Done>
          If this address belongs to a company here, we've sent it an email that names the company, with a
          link to sign in.
        </Done>
      ) : (
        <Form action="Email me my companies" onSubmit={ask}>
          {(faults) => (
            <Field label="Email" name="email" type="email" autoComplete="email" error={faults['email']} />
          )}
        </Form>
      )}
      <p class="links">
        <a href="/sign-in">Back to sign-in</a>
      </p>
    </Frame>
  )
}
