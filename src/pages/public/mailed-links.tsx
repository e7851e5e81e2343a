import { useQuery } from '@tanstack/preact-query'
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { EMAIL_TAKEN } from '../../errors.ts'
import { ApiError, call } from '../api.ts'
import { Form } from '../form.tsx'
import { Fact } from '../parts.tsx'
import { Fault, Waiting } from '../queries.tsx'
import type { Company } from '../remembered.ts'
import { fragment, keep } from '../router.ts'
import type { Answer, Session } from '../routes.ts'
import type { OnSignedIn } from './cookie-session.ts'
import { Frame } from './frame.tsx'
import { OtherAccount } from './other-account.tsx'
import { SignIn } from './sign-in.tsx'
import { LinkWanted } from './verification.tsx'

/** Pages of emailed links. They act only when a button is pressed, because email scanners open links too. */

export interface LinkProps {
  /** The session of this browser. */
  session: Session | null
  onSignedIn: OnSignedIn
}

const DEAD_LINK = 'This link has expired, was already used, or was replaced by a newer email.'
/** A mail program has cut the link, or the page was reloaded: tokens are not stored. */
const NO_LINK =
  'This page needs the link from your email. Open it again, or copy all of it into the address bar.'
const TAKEN = 'Someone else in your company already uses this email. Choose a different one.'

/** The service's text. The compiler compares them. */
const OF_SERVICE: typeof EMAIL_TAKEN = 'is for an email address that another member already uses'

/** Rethrows errors, with messages about the link if its token is at fault. */
export function explain(token: string, advice: string, taken = TAKEN) {
  return (error: unknown): never => {
    if (!(error instanceof ApiError) || !error.fields['token']) throw error
    const isTaken = error.fields['token'] === OF_SERVICE
    const message = token === '' ? NO_LINK : isTaken ? taken : `${DEAD_LINK} ${advice}`
    throw new ApiError(token === '' || isTaken ? UNUSABLE : DEAD, message, { status: error.status })
  }
}

const DEAD = 'dead_link'
const UNUSABLE = 'unusable_link'

/** The title of a page, unless its link is invalid. */
export const titleOf = (error: unknown, title: string) =>
  error instanceof ApiError && error.code === DEAD ? 'Link expired' : title

type Preview =
  | 'POST /auth/password/reset/preview'
  | 'POST /auth/invitations/preview'
  | 'POST /auth/email/confirm/preview'

/** What a link is about, or why it does not work. */
export function useLink<Route extends Preview>(route: Route, advice: string) {
  const [token] = useState(fragment.get('token') ?? '')
  const failed = explain(token, advice)
  const loaded = useQuery<Answer<Route>>({
    queryKey: [route, token],
    queryFn: () => call<Preview>(route, { body: { token } }).catch(failed),
    staleTime: Infinity,
  })
  const { data } = loaded
  useEffect(() => {
    if (!data) return
    const company = 'companyHandle' in data ? data.companyHandle : null
    keep({ ...(company && { company }), email: data.email })
  }, [data])
  return { token, failed, loaded, value: data }
}

interface LinkPageProps {
  title: string
  action: string
  use: (token: string) => Promise<unknown>
  children?: ComponentChildren
}

export function LinkPage({ title, action, use, children }: LinkPageProps) {
  const [token] = useState(fragment.get('token') ?? '')
  const [failed, setFailed] = useState<unknown>(null)
  async function submit(): Promise<void> {
    await use(token).catch((error: unknown) => {
      setFailed(error)
      throw error
    })
  }
  return (
    <Frame title={titleOf(failed, title)}>
      {!token && <Fault>{NO_LINK}</Fault>}
      {children}
      {token && <Form action={action} onSubmit={submit} />}
      <p class="links">
        <a href="/sign-in">Sign in</a>
      </p>
    </Frame>
  )
}

const TITLE = 'Confirm your email'

export function VerifyEmail({ session, onSignedIn }: LinkProps) {
  const [verified, setVerified] = useState<Company | null>(null)
  const [failed, setFailed] = useState<ApiError | null>(null)
  if (failed || !fragment.get('token'))
    return <LinkWanted title={titleOf(failed, TITLE)} why={failed?.message ?? NO_LINK} />
  if (verified)
    return <SignIn notice="Your email is confirmed. Sign in." company={verified} onSignedIn={onSignedIn} />
  const use = async (token: string) => {
    try {
      const {
        companyId: id,
        companyHandle: handle,
        email,
      } = await call('POST /auth/verify-email', {
        body: { token },
      }).catch(explain(token, "If you've already confirmed your email, sign in. If not, get a new link."))
      fragment.set('email', email)
      setVerified({ id, handle, name: handle ?? id })
    } catch (error) {
      if (!(error instanceof ApiError && [DEAD, UNUSABLE].includes(error.code))) throw error
      setFailed(error)
    }
  }
  return (
    <OtherAccount session={session}>
      <LinkPage title={TITLE} action="Confirm email" use={use}>
        <p>Confirm that the email you registered with is yours. Then you can sign in.</p>
      </LinkPage>
    </OtherAccount>
  )
}

export function ConfirmEmail({ session }: LinkProps) {
  const { token, failed, loaded, value } = useLink(
    'POST /auth/email/confirm/preview',
    'Request the change again under Account.',
  )
  const [isDone, setDone] = useState(false)
  if (isDone)
    return (
      <Frame title="Email changed">
        <div class="done" role="status">
          From your next sign-in, use your new email.
        </div>
        <p class="links">
          <a href="/">{session ? 'Continue' : 'Sign in'}</a>
        </p>
      </Frame>
    )
  async function confirm(): Promise<void> {
    await call('POST /auth/email/confirm', { body: { token } }).catch(failed)
    if (value) fragment.set('email', value.newEmail)
    setDone(true)
  }
  return (
    <Frame title={titleOf(loaded.error, 'Confirm your new email')}>
      <Waiting of={loaded} />
      {value && (
        <>
          <dl class="facts">
            <Fact name="Company">{value.companyName}</Fact>
            <Fact name="Current email">{value.email}</Fact>
            <Fact name="New email">
              <strong>{value.newEmail}</strong>
            </Fact>
          </dl>
          <p>After you confirm, sign in with the new email. The current one stops working.</p>
          <Form action="Use this email" onSubmit={confirm} />
        </>
      )}
      <p class="links">
        <a href="/">{session ? 'Continue without confirming' : 'Sign in'}</a>
      </p>
    </Frame>
  )
}
