import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Form } from '../form.tsx'
import type { Company } from '../remembered.ts'
import { fragment } from '../router.ts'
import type { Session } from '../routes.ts'
import { Done, Frame } from './frame.tsx'
import { OtherAccount } from './other-account.tsx'
import { type OnSignedIn, SignIn } from './sign-in.tsx'

/** The pages of mailed links, which do one thing when a button is pressed: programs that read mails follow links too. */

export interface LinkProps {
  /** Who is signed in in this browser. */
  session: Session | null
  onSignedIn: OnSignedIn
}

const DEAD_LINK = 'This link has expired or has already been used.'
/** The page was loaded again: a token is kept nowhere. */
const NO_LINK = 'Please open the link in the email again.'
const TAKEN = 'Another member of your company has this address by now. Ask for a change to another one.'

/** Rethrows what is wrong; of the link itself, in words for who has followed it. */
export function explain(token: string, advice: string, taken = TAKEN) {
  return (error: unknown): never => {
    if (!(error instanceof ApiError) || !error.fields['token']) throw error
    const isTaken = error.fields['token'].includes('another member')
    const message = token === '' ? NO_LINK : isTaken ? taken : `${DEAD_LINK} ${advice}`
    throw new ApiError(DEAD, message)
  }
}

/** The code of a link that no other try helps. */
export const DEAD = 'dead_link'

interface LinkPageProps {
  title: string
  action: string
  /** Does what the link is for. */
  use: (token: string) => Promise<unknown>
  children?: ComponentChildren
  links?: ComponentChildren
}

function LinkPage({ title, action, use, children, links }: LinkPageProps) {
  const [token] = useState(fragment.get('token') ?? '')
  return (
    <Frame title={title}>
      {children}
      <Form action={action} onSubmit={() => use(token)} />
      <p class="links">{links ?? <a href="/sign-in">Sign in</a>}</p>
    </Frame>
  )
}

export function VerifyEmail({ session, onSignedIn }: LinkProps) {
  const [verified, setVerified] = useState<Company | null>(null)
  if (verified)
    return <SignIn notice="Your address is confirmed. Sign in." company={verified} onSignedIn={onSignedIn} />
  const use = async (token: string) => {
    const failed = explain(token, "If you've confirmed your address already, sign in.")
    const {
      companyId: id,
      companyHandle: handle,
      email,
    } = await call('POST /auth/verify-email', {
      body: { token },
    }).catch(failed)
    fragment.set('email', email)
    setVerified({ id, handle, name: handle ?? id })
  }
  return (
    <OtherAccount session={session}>
      <LinkPage title="Confirm your email" action="Confirm my address" use={use} />
    </OtherAccount>
  )
}

export function ConfirmEmail({ session }: LinkProps) {
  const [isDone, setDone] = useState(false)
  if (isDone)
    return (
      <Frame title="Your address is changed">
        <Done>Sign in with your new address from now on.</Done>
        <p class="links">
          <a href="/">{session ? 'Go on' : 'Sign in'}</a>
        </p>
      </Frame>
    )
  const use = async (token: string) => {
    const failed = explain(token, 'Ask for the change again, under Account.')
    await call('POST /auth/email/confirm', { body: { token } }).catch(failed)
    setDone(true)
  }
  return <LinkPage title="Confirm your new email" action="Use this address" use={use} />
}

/** Takes back a first second factor or another address. The link says whose account it is; the token alone decides. */
export function Undo({ session }: LinkProps) {
  const [{ company, email }] = useState({
    company: fragment.get('company') ?? '',
    email: fragment.get('email') ?? '',
  })
  const [isDone, setDone] = useState(false)
  if (isDone)
    return (
      <Frame title="The change is undone">
        <Done>
          <p>
            Everybody is signed out of the account. We've sent you an email with a link: choose a new
            password, one that you use nowhere else.
          </p>
          <p>Then tell an administrator of {company || 'your company'} what happened.</p>
        </Done>
      </Frame>
    )
  const use = async (token: string) => {
    const failed = explain(
      token,
      'If somebody else still has your account, tell an administrator of your company.',
      'Another member of your company has this address by now. Tell an administrator of your company.',
    )
    await call('POST /auth/undo', { body: { token } }).catch(failed)
    setDone(true)
  }
  return (
    <OtherAccount session={session} owner={{ company: null, email }}>
      <LinkPage title="Undo this change?" action="Undo the change" use={use}>
        <dl class="facts">
          <dt>Company</dt>
          <dd>{company}</dd>
          <dt>Your address</dt>
          <dd>{email}</dd>
        </dl>
        <p>
          Somebody has changed how to sign in to this account. If it wasn't you, undo it: the account gets
          your address back, its password and second factors are removed, and everybody is signed out.
        </p>
        <p class="quiet">If it was you, close this page.</p>
      </LinkPage>
    </OtherAccount>
  )
}
