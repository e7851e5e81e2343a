import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, NewPassword } from '../form.tsx'
import { Link } from '../parts.tsx'
import { rememberCompany } from '../remembered-company.ts'
import { Done, Frame } from './frame.tsx'

export function Register() {
  const [asked, setAsked] = useState<{ companyId: string; email: string } | null>(null)
  async function register({ companyName, name, email, password }: Record<string, string>): Promise<void> {
    const { companyId } = await call<{ companyId: string }>('/auth/register', {
      body: { companyName, name, email: email?.trim(), password },
    })
    rememberCompany({ id: companyId, name: companyName ?? '' })
    setAsked({ companyId, email: email ?? '' })
  }
  if (asked) return <Registered {...asked} />
  return (
    <Frame title="Register a company">
      <Form action="Register" onSubmit={register}>
        {(fields) => (
          <>
            <Field
              label="Company"
              name="companyName"
              autoComplete="organization"
              error={fields['companyName']}
            />
            <Field label="Your name" name="name" autoComplete="name" error={fields['name']} />
            <Field
              label="Your e-mail"
              name="email"
              type="email"
              autoComplete="username"
              error={fields['email']}
            />
            <NewPassword label="Password" name="password" error={fields['password']} />
          </>
        )}
      </Form>
      <p class="links">
        <Link to="/sign-in">You have an account?</Link>
      </p>
    </Frame>
  )
}

function Registered({ companyId, email }: { companyId: string; email: string }) {
  const [times, setTimes] = useState(1)
  async function sendAgain(): Promise<void> {
    await call('/auth/verify-email/resend', { body: { companyId, email: email.trim() } })
    setTimes(times + 1)
  }
  return (
    <Frame title="Look into your mailbox">
      <Done>
        We have sent a link to <strong>{email}</strong>. Follow it to confirm your address; then you can sign
        in.{times > 1 && ' It is on its way once more.'}
      </Done>
      <Form action="Send it again" onSubmit={sendAgain}>
        {() => null}
      </Form>
      <p class="links">
        <Link to="/sign-in">Sign in</Link>
      </p>
    </Frame>
  )
}
