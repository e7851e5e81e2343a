import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, NewPassword, TAKES_FOCUS, type Values } from '../form.tsx'
import { rememberCompany } from '../remembered.ts'
import { fragment } from '../router.ts'
import { Frame } from './frame.tsx'
import { LinkAwaited } from './verification.tsx'

export function Register() {
  const [asked, setAsked] = useState<{ companyId: string; email: string } | null>(null)
  async function register({ companyName, name, email: typed, password }: Values): Promise<void> {
    const email = typed.trim()
    const { companyId } = await call('POST /auth/register', { body: { companyName, name, email, password } })
    rememberCompany({ id: companyId, name: companyName })
    fragment.set('email', email)
    setAsked({ companyId, email })
  }
  if (asked) return <LinkAwaited account={asked} text="We've emailed a link to" />
  return (
    <Frame title="Register a company">
      <p>You'll be its first admin. To join an existing company, ask its admin to invite you.</p>
      <Form action="Register company" onSubmit={register}>
        {(faults) => (
          <>
            <Field
              label="Company"
              name="companyName"
              autoComplete="organization"
              hasFocus={TAKES_FOCUS}
              error={faults['companyName']}
            />
            <Field label="Your name" name="name" autoComplete="name" error={faults['name']} />
            <Field
              label="Your email"
              name="email"
              type="email"
              autoComplete="username"
              error={faults['email']}
            />
            <NewPassword label="Password" name="password" error={faults['password']} />
          </>
        )}
      </Form>
      <p class="links">
        <span>
          Already have an account? <a href="/sign-in">Sign in</a>
        </span>
      </p>
    </Frame>
  )
}
