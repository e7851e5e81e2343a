import type { ComponentChildren } from 'preact'
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

const TAKEN = 'Another member of your company has this address by now. Ask for a change to another one.'

/** Rethrows what is wrong; of the link itself, in words for who has followed it. */
function explain(token: string, failed: string, taken = TAKEN) {
  return (error: unknown): never => {
    if (!(error instanceof ApiError) || !error.fields['token']) throw error
    const isTaken = error.fields['token'].includes('another member')
    throw new ApiError(error.code, token === '' ? NO_LINK : isTaken ? taken : failed)
  }
}

interface LinkPageProps {
  title: string
  path: string
  action: string
  done: ComponentChildren
  failed: string
  /** What is said if another member has the address by now. */
  taken?: string
  /** What is said before it is asked. */
  children?: ComponentChildren
}

/** A page whose link does one thing, when its button is pressed: programs that read mails follow links too. */
function LinkPage({ title, path, action, done, failed, taken, children }: LinkPageProps) {
  const [token] = useState(fragment.get('token') ?? '')
  const [isDone, setDone] = useState(false)
  async function use(): Promise<void> {
    await call(path, { body: { token } }).catch(explain(token, failed, taken))
    setDone(true)
  }
  return (
    <Frame title={title}>
      {isDone ? (
        <Done>{done}</Done>
      ) : (
        <>
          {children}
          <Form action={action} onSubmit={use}>
            {() => null}
          </Form>
        </>
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

/** Takes back a first second factor or another address. The link says whose account it is; the token alone decides. */
export function Undo() {
  const [{ company, email }] = useState({
    company: fragment.get('company') ?? '',
    email: fragment.get('email') ?? '',
  })
  return (
    <LinkPage
      title="Undo this change?"
      path="/auth/undo"
      action="Undo the change"
      done={
        <>
          <p>
            The change is undone, and everybody is signed out of the account. We have sent you an email with a
            link: choose a new password, one that you use nowhere else.
          </p>
          <p>Then tell an administrator of {company || 'your company'} what has happened.</p>
        </>
      }
      failed={`${DEAD_LINK} If somebody else still has your account, tell an administrator of your company.`}
      taken="Another member of your company has this address by now. Tell an administrator of your company."
    >
      <dl class="facts">
        <dt>Company</dt>
        <dd>{company}</dd>
        <dt>Your address</dt>
        <dd>{email}</dd>
      </dl>
      <p>
        Somebody has changed how to sign in to this account. If it wasn't you, undo it: the account gets your
        address back, its password and second factors are removed, and everybody is signed out.
      </p>
      <p class="quiet">If it was you, close this page.</p>
    </LinkPage>
  )
}

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
