import { useState } from 'preact/hooks'
import { ApiError, type Challenge, call, type Session } from '../api.ts'
import { Link } from '../parts.tsx'
import { rememberCompany } from '../remembered-company.ts'
import { fragment } from '../router.ts'
import { SecondStep } from '../second-step.tsx'
import { Frame } from './frame.tsx'
import { PasskeySignIn } from './passkey-sign-in.tsx'
import { PasswordStep } from './password-step.tsx'

interface Props {
  /** Why the user is here, if a session has ended. */
  notice: string | null
  onSignedIn: (session: Session) => void
}

const COOKIE_MODE = { 'x-session-mode': 'cookie' }

/** Sign-in by password and, where one is asked for, a second factor; or by passkey alone. */
export function SignIn({ notice, onSignedIn }: Props) {
  const [said, setSaid] = useState(notice)
  const [typed, setTyped] = useState({ companyId: '', email: fragment.get('email') ?? '' })
  const [isRemembered, setRemembered] = useState(false)
  const [asked, setAsked] = useState<Challenge | null>(null)

  function enter(session: Session): void {
    const { companyId: id, companyName: name } = session.accessContext
    if (isRemembered) rememberCompany({ id, name })
    onSignedIn(session)
  }

  async function givePassword(body: { companyId: string; email: string; password: string }): Promise<void> {
    const { companyId, email } = body
    setTyped({ companyId, email })
    try {
      enter(await call<Session>('/auth/login', { body, headers: COOKIE_MODE }))
    } catch (error) {
      if (!(error instanceof ApiError && error.challenge)) throw error
      setSaid(null)
      setAsked(error.challenge)
    }
  }

  function beginAgain(why: string | null): void {
    setSaid(why)
    setAsked(null)
  }

  if (asked)
    return (
      <Frame title="Your second factor">
        <SecondStep
          asked={asked}
          send={async (body) =>
            enter(await call<Session>('/auth/login/second-factor', { body, headers: COOKIE_MODE }))
          }
          onDead={beginAgain}
          onCancel={() => beginAgain(null)}
          cancel="Start again"
        />
      </Frame>
    )
  return (
    <Frame title="Sign in">
      {said && (
        <p class="notice" role="status">
          {said}
        </p>
      )}
      <PasswordStep
        typed={typed}
        isRemembered={isRemembered}
        onRemember={setRemembered}
        give={givePassword}
      />
      <PasskeySignIn onSignedIn={enter} />
      <p class="links">
        <Link to="/forgot-password">Forgot your password?</Link>
        <Link to="/register">Register a company</Link>
      </p>
    </Frame>
  )
}
