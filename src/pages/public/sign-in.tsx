import { call, type Session } from '../api.ts'
import { Field, Form, Link } from '../parts.tsx'
import { rememberCompany } from '../remembered-company.ts'
import { fragment } from '../router.ts'
import { useCompany } from './company-field.tsx'
import { Frame } from './frame.tsx'

interface Props {
  /** Why the user is here, if a session has ended. */
  notice: string | null
  onSignedIn: (session: Session) => void
}

export function SignIn({ notice, onSignedIn }: Props) {
  const company = useCompany()

  async function signIn({ email, password, remember, ...values }: Record<string, string>): Promise<void> {
    const session = await call<Session>('/auth/login', {
      body: { companyId: company.of(values), email: email?.trim(), password },
      headers: { 'x-session-mode': 'cookie' },
    })
    const { companyId: id, companyName: name } = session.accessContext
    if (remember) rememberCompany({ id, name })
    onSignedIn(session)
  }

  return (
    <Frame title="Sign in">
      {notice && (
        <p class="notice" role="status">
          {notice}
        </p>
      )}
      <Form action="Sign in" onSubmit={signIn}>
        {(fields) => (
          <>
            {company.field(fields['companyId'])}
            <Field
              label="E-mail"
              name="email"
              type="email"
              autoComplete="username"
              value={fragment.get('email') ?? ''}
              error={fields['email']}
            />
            <Field
              label="Password"
              name="password"
              type="password"
              autoComplete="current-password"
              error={fields['password']}
            />
            {!company.isKnown && (
              <label class="check">
                <input type="checkbox" name="remember" /> Remember the company on this device
              </label>
            )}
          </>
        )}
      </Form>
      <p class="links">
        <Link to="/forgot-password">Forgot your password?</Link>
        <Link to="/register">Register a company</Link>
      </p>
    </Frame>
  )
}
