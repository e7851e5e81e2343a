import { useState } from 'preact/hooks'
import { call, type Session } from '../api.ts'
import { Field, Form, Link } from '../parts.tsx'
import { readCompany, rememberCompany } from '../remembered-company.ts'
import { fragment } from '../router.ts'
import { Frame } from './frame.tsx'

interface Props {
  /** Why the user is here, if a session has ended. */
  notice: string | null
  onSignedIn: (session: Session) => void
}

export function SignIn({ notice, onSignedIn }: Props) {
  const [company, setCompany] = useState(readCompany())
  const invited = fragment.get('company')
  const known = invited && invited !== company?.id ? null : company

  async function signIn({ companyId, email, password, remember }: Record<string, string>): Promise<void> {
    const session = await call<Session>('/auth/login', {
      body: { companyId: known?.id ?? companyId?.trim(), email: email?.trim(), password },
      headers: { 'x-session-mode': 'cookie' },
    })
    const { companyId: id, companyName: name } = session.accessContext
    if (remember) rememberCompany({ id, name })
    onSignedIn(session)
  }

  function forget(): void {
    rememberCompany(null)
    setCompany(null)
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
            {known ? (
              <p class="chosen">
                <span>
                  to <strong>{known.name}</strong>
                </span>
                <button type="button" class="small" onClick={forget}>
                  Another company
                </button>
              </p>
            ) : (
              <Field
                label="Company id"
                name="companyId"
                autoComplete="organization"
                value={invited ?? ''}
                error={fields['companyId']}
                hint={
                  <>
                    It is in your mails. <Link to="/companies">Which company?</Link>
                  </>
                }
              />
            )}
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
            {!known && (
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
