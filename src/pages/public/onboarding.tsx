import { useEffect, useState } from 'preact/hooks'
import { ApiError, call, type Invitation, type NewMember } from '../api.ts'
import { Field, Form, Link, Time, useLoaded, Waiting } from '../parts.tsx'
import { readCompany, rememberCompany } from '../remembered-company.ts'
import { fragment } from '../router.ts'
import { Done, Frame } from './frame.tsx'

/** Registration, and the pages of mailed links. */

const PASSWORD_HINT =
  'At least 8 characters that nobody guesses: four words that have nothing to do with you, say.'

export function Register() {
  const [email, setEmail] = useState<string | null>(null)
  async function register({ companyName, name, email, password }: Record<string, string>): Promise<void> {
    const { companyId } = await call<{ companyId: string }>('/auth/register', {
      body: { companyName, name, email: email?.trim(), password },
    })
    rememberCompany({ id: companyId, name: companyName ?? '' })
    setEmail(email ?? '')
  }
  if (email !== null)
    return (
      <Frame title="Look into your mailbox">
        <Done>
          We have sent a link to <strong>{email}</strong>. Follow it to confirm your address; then you can
          sign in.
        </Done>
      </Frame>
    )
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
            <Field
              label="Password"
              name="password"
              type="password"
              autoComplete="new-password"
              hint={PASSWORD_HINT}
              error={fields['password']}
            />
          </>
        )}
      </Form>
      <p class="links">
        <Link to="/sign-in">You have an account?</Link>
      </p>
    </Frame>
  )
}

/** Mails are asked for with the same answer, whether or not there is an account. */
export function ForgotPassword() {
  const [isDone, setDone] = useState(false)
  const company = readCompany()
  async function ask({ companyId, email }: Record<string, string>): Promise<void> {
    await call('/auth/password/forgot', { body: { companyId: companyId?.trim(), email: email?.trim() } })
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
              <Field
                label="Company id"
                name="companyId"
                autoComplete="organization"
                value={company?.id ?? ''}
                error={fields['companyId']}
                hint={<Link to="/companies">Which company?</Link>}
              />
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

const DEAD_LINK = 'This link does not work, or no longer.'

export function ResetPassword() {
  const [isDone, setDone] = useState(false)
  const [token] = useState(fragment.get('token') ?? '')
  async function reset({ newPassword }: Record<string, string>): Promise<void> {
    await call('/auth/password/reset', { body: { token, newPassword } }).catch(explainDeadLink)
    setDone(true)
  }
  return (
    <Frame title="Choose a new password">
      {isDone ? (
        <Done>Your password is changed, and all your sessions have ended. Sign in with the new one.</Done>
      ) : (
        <Form action="Change the password" onSubmit={reset}>
          {(fields) => (
            <Field
              label="New password"
              name="newPassword"
              type="password"
              autoComplete="new-password"
              hint={PASSWORD_HINT}
              error={fields['newPassword']}
            />
          )}
        </Form>
      )}
      <p class="links">
        <Link to="/sign-in">Sign in</Link>
        {!isDone && <Link to="/forgot-password">Get another link</Link>}
      </p>
    </Frame>
  )
}

function explainDeadLink(error: unknown): never {
  if (error instanceof ApiError && error.fields['token'])
    throw new ApiError(error.code, `${DEAD_LINK} Get another one below.`)
  throw error
}

interface LinkPageProps {
  title: string
  path: string
  action: string
  done: string
  failed: string
}

/** A page whose link does one thing, when its button is pressed: programs that read mails follow links too. */
function LinkPage({ title, path, action, done, failed }: LinkPageProps) {
  const [token] = useState(fragment.get('token') ?? '')
  const [isDone, setDone] = useState(false)
  async function use(): Promise<void> {
    await call(path, { body: { token } }).catch((error: unknown) => {
      if (error instanceof ApiError && error.fields['token']) throw new ApiError(error.code, failed)
      throw error
    })
    setDone(true)
  }
  return (
    <Frame title={title}>
      {isDone ? (
        <Done>{done}</Done>
      ) : (
        <Form action={action} onSubmit={use}>
          {() => null}
        </Form>
      )}
      <p class="links">
        <Link to="/sign-in">Sign in</Link>
      </p>
    </Frame>
  )
}

export const VerifyEmail = () => (
  <LinkPage
    title="Confirm your e-mail"
    path="/auth/verify-email"
    action="Confirm my address"
    done="Your address is confirmed. You can sign in now."
    failed={`${DEAD_LINK} If you have confirmed your address already, sign in.`}
  />
)

export const ConfirmEmail = () => (
  <LinkPage
    title="Confirm your new e-mail"
    path="/auth/email/confirm"
    action="Use this address"
    done="Your address is changed. Sign in with the new one from now on."
    failed={`${DEAD_LINK} Ask for the change again, on the page of your account.`}
  />
)

export function AcceptInvitation() {
  const [token] = useState(fragment.get('token') ?? '')
  const [isDone, setDone] = useState(false)
  const { value, error, reload } = useLoaded(() =>
    call<Invitation>('/auth/invitations/preview', { body: { token } }).catch((error: unknown) => {
      if (error instanceof ApiError && error.fields['token'])
        throw new ApiError(error.code, `${DEAD_LINK} Ask who invited you for another one.`)
      throw error
    }),
  )
  useEffect(() => {
    if (value) document.title = `Join ${value.companyName} · gatehouse`
  }, [value])

  async function accept({ name, password }: Record<string, string>): Promise<void> {
    const { companyId } = await call<NewMember>('/auth/invitations/accept', {
      body: { token, name, password },
    })
    rememberCompany({ id: companyId, name: value?.companyName ?? '' })
    setDone(true)
  }

  if (isDone)
    return (
      <Frame title="Welcome">
        <Done>
          You are a member of <strong>{value?.companyName}</strong> now.
        </Done>
        <p class="links">
          <Link to="/sign-in">Sign in</Link>
        </p>
      </Frame>
    )
  if (!value)
    return (
      <Frame title="Your invitation">
        <Waiting error={error} retry={reload} />
      </Frame>
    )
  return (
    <Frame title={`Join ${value.companyName}`}>
      <dl class="facts">
        <dt>E-mail</dt>
        <dd>{value.email}</dd>
        <dt>Role</dt>
        <dd>{value.role}</dd>
        <dt>Open until</dt>
        <dd>
          <Time at={value.expiresAt} />
        </dd>
      </dl>
      <Form action="Join" onSubmit={accept}>
        {(fields) => (
          <>
            <input type="hidden" name="username" autoComplete="username" value={value.email} />
            <Field label="Your name" name="name" autoComplete="name" error={fields['name']} />
            <Field
              label="Password"
              name="password"
              type="password"
              autoComplete="new-password"
              hint={PASSWORD_HINT}
              error={fields['password']}
            />
          </>
        )}
      </Form>
    </Frame>
  )
}
