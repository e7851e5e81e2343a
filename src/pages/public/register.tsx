import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { EMAIL, Field, Form, NewPassword, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { rememberCompany } from '../remembered.ts'
import { fragment } from '../router.ts'
import { Frame } from './frame.tsx'
import { LinkAwaited } from './verification.tsx'

export function Register() {
  const [asked, setAsked] = useState<{ companyId: string; email: string } | null>(null)
  /** Of the form, for a correction. Only this page keeps the password, until the user leaves it. */
  const [typed, setTyped] = useState<Values | null>(null)
  async function register(values: Values): Promise<void> {
    const { companyName, name, password } = values
    const email = values.email.trim()
    const { companyId } = await call('POST /auth/register', { body: { companyName, name, email, password } })
    rememberCompany({ id: companyId, name: companyName })
    fragment.set('email', email)
    setTyped(values)
    setAsked({ companyId, email })
  }
  if (asked)
    return (
      <LinkAwaited account={asked}>
        <LinkButton onClick={() => setAsked(null)}>Change the email</LinkButton>
        <a href="/sign-in">Sign in</a>
      </LinkAwaited>
    )
  return (
    <Frame title="Register a company">
      <p>You'll be its first admin. To join an existing company, ask its admin to invite you.</p>
      <Form action="Register company" onSubmit={register}>
        <Field
          label="Company"
          name="companyName"
          autoComplete="organization"
          value={typed?.companyName}
          hasFocus={TAKES_FOCUS && !typed}
        />
        <Field label="Your name" name="name" autoComplete="name" value={typed?.name} />
        <Field {...EMAIL} label="Your email" value={typed?.email} hasFocus={TAKES_FOCUS && typed !== null} />
        <NewPassword label="Password" name="password" value={typed?.password} />
      </Form>
      <p class="links">
        <span>
          Already have an account? <a href="/sign-in">Sign in</a>
        </span>
      </p>
    </Frame>
  )
}
