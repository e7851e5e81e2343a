import { useEffect, useState } from 'preact/hooks'
import { ApiError, call, type Invitation, type NewMember } from '../api.ts'
import { Field, Form, NewPassword } from '../form.tsx'
import { useLoaded, Waiting } from '../loading.tsx'
import { Link, Time } from '../parts.tsx'
import { rememberCompany } from '../remembered-company.ts'
import { fragment } from '../router.ts'
import { Done, Frame } from './frame.tsx'

/** The pages of mailed links. */

const DEAD_LINK = 'This link does not work, or no longer.'
/** The page was loaded again: the token is not kept. */
const NO_LINK = 'Open the link in your mail again: this page keeps no part of it.'

export function ResetPassword() {
  const [isDone, setDone] = useState(false)
  const [token] = useState(fragment.get('token') ?? '')
  async function reset({ newPassword }: Record<string, string>): Promise<void> {
    await call('/auth/password/reset', { body: { token, newPassword } }).catch(
      explain(token, `${DEAD_LINK} Get another one below.`),
    )
    setDone(true)
  }
  return (
    <Frame title="Choose a new password">
      {isDone ? (
        <Done>Your password is changed, and all your sessions have ended. Sign in with the new one.</Done>
      ) : (
        <Form action="Change the password" onSubmit={reset}>
          {(fields) => <NewPassword label="New password" name="newPassword" error={fields['newPassword']} />}
        </Form>
      )}
      <p class="links">
        <Link to="/sign-in">Sign in</Link>
        {!isDone && <Link to="/forgot-password">Get another link</Link>}
      </p>
    </Frame>
  )
}

/** Rethrows what is wrong; of the link itself, in words for who has followed it. */
function explain(token: string, failed: string) {
  return (error: unknown): never => {
    if (!(error instanceof ApiError) || !error.fields['token']) throw error
    const isTaken = error.fields['token'].includes('another member')
    const taken = 'Another member of your company has this address by now. Ask for a change to another one.'
    throw new ApiError(error.code, token === '' ? NO_LINK : isTaken ? taken : failed)
  }
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
    await call(path, { body: { token } }).catch(explain(token, failed))
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
  const loaded = useLoaded(() =>
    call<Invitation>('/auth/invitations/preview', { body: { token } }).catch(
      explain(token, `${DEAD_LINK} Ask who invited you for another one.`),
    ),
  )
  const { value } = loaded
  useEffect(() => {
    if (value) document.title = `Join ${value.companyName} · gatehouse`
  }, [value])

  async function accept({ name, password }: Record<string, string>): Promise<void> {
    const { companyId } = await call<NewMember>('/auth/invitations/accept', {
      body: { token, name, password },
    })
    rememberCompany({ id: companyId, name: value?.companyName ?? '' })
    fragment.set('email', value?.email ?? '')
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
        <Waiting of={loaded} />
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
            <NewPassword label="Password" name="password" error={fields['password']} />
          </>
        )}
      </Form>
    </Frame>
  )
}
