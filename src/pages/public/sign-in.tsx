import { useState } from 'preact/hooks'
import { ApiError, type Challenge, call } from '../api.ts'
import { EMAIL, Field, Form, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { type Company, passkeyMark, rememberCompany } from '../remembered.ts'
import { fragment } from '../router.ts'
import type { Body, Session } from '../routes.ts'
import { type SecondProof, SecondStep } from '../second-step.tsx'
import { useCompany } from './company-field.tsx'
import { COOKIE_MODE, type OnSignedIn } from './cookie-session.ts'
import { Frame } from './frame.tsx'
import { PasskeySignIn } from './passkey-sign-in.tsx'
import { LinkAwaited } from './verification.tsx'

export type Credentials = Body<'POST /auth/login'>

/** The steps after the password: a session, or a second factor. */
export function useSignIn(onSignedIn: OnSignedIn, isRemembered = true) {
  const [asked, setAsked] = useState<Challenge | null>(null)

  async function enter(session: Session, byRecoveryCode = false): Promise<void> {
    const { companyId: id, companyHandle: handle, companyName: name } = session.accessContext
    if (isRemembered) rememberCompany({ id, handle, name })
    await onSignedIn(session, byRecoveryCode)
  }

  /** @throws ApiError */
  async function givePassword(body: Credentials): Promise<void> {
    try {
      await enter(await call('POST /auth/login', { body, headers: COOKIE_MODE }))
    } catch (error) {
      if (!(error instanceof ApiError && error.challenge)) throw error
      setAsked(error.challenge)
    }
  }
  async function giveFactor(body: SecondProof): Promise<void> {
    const session = await call('POST /auth/login/second-factor', { body, headers: COOKIE_MODE })
    await enter(session, body.method === 'recovery_code')
  }

  /** Null unless a second factor is required. `notice` says what was done before. */
  const secondStep = (onEnd: (why: string | null) => void, notice = '') => {
    if (!asked) return null
    const end = (why: string | null) => {
      setAsked(null)
      onEnd(why)
    }
    return (
      <Frame title="Verify it's you" notice={notice}>
        <SecondStep asked={asked} send={giveFactor} onEnd={end} />
      </Frame>
    )
  }
  return { enter, givePassword, secondStep }
}

interface Props {
  /** The reason that a session ended. */
  notice: string | null
  /** From a link that was just opened. */
  company?: Company | null
  onSignedIn: OnSignedIn
}

/** Sign-in by password and second factor, or by passkey. The passkey comes first on devices that have one. */
export function SignIn({ notice, company: given = null, onSignedIn }: Props) {
  const [said, setSaid] = useState(notice)
  const company = useCompany('Signing in to', given)
  const [email, setEmail] = useState(fragment.get('email') ?? '')
  const [unverified, setUnverified] = useState<Omit<Credentials, 'password'> | null>(null)
  const [isRemembered, setRemembered] = useState(true)
  const { enter, givePassword, secondStep } = useSignIn(onSignedIn, isRemembered)
  const isPasskeyFirst = passkeyMark.isSet()

  const second = secondStep(setSaid)
  if (second) return second
  if (unverified)
    return (
      <LinkAwaited account={unverified}>
        <LinkButton onClick={() => setUnverified(null)}>Back to sign-in</LinkButton>
      </LinkAwaited>
    )

  async function give(values: Values): Promise<void> {
    const account = { ...company.read(values), email: values.email.trim() }
    setEmail(account.email)
    await givePassword({ ...account, password: values.password }).catch((error: unknown) => {
      if (!(error instanceof ApiError && error.code === 'email_not_verified')) throw error
      setUnverified(account)
    })
    setSaid(null)
  }
  const takesFocus = TAKES_FOCUS && !isPasskeyFirst && !company.isMissing
  const byPasskey = <PasskeySignIn isFirst={isPasskeyFirst} onSignedIn={enter} />
  return (
    <Frame
      title="Sign in"
      notice={said}
      links={{ '/forgot-password': 'Forgot your password?', '/register': 'Register a company' }}
    >
      {isPasskeyFirst && byPasskey}
      <Form action="Sign in" isSecond={isPasskeyFirst} onSubmit={give}>
        {company.field(!isPasskeyFirst)}
        <Field
          {...EMAIL}
          // The browser offers passkeys here, too.
          autoComplete="username webauthn"
          value={email}
          hasFocus={takesFocus && email === ''}
        />
        <Field
          label="Password"
          name="password"
          type="password"
          autoComplete="current-password"
          hasFocus={takesFocus && email !== ''}
        />
        {!company.known && (
          <label class="check">
            <input
              type="checkbox"
              checked={isRemembered}
              onChange={({ currentTarget }) => setRemembered(currentTarget.checked)}
            />{' '}
            Remember my company on this device
          </label>
        )}
      </Form>
      {!isPasskeyFirst && byPasskey}
    </Frame>
  )
}
