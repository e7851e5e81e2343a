import { useQuery } from '@tanstack/preact-query'
import { useEffect, useState } from 'preact/hooks'
import type { EMAIL_TAKEN } from '../../errors.ts'
import { ApiError, call } from '../api.ts'
import { Form } from '../form.tsx'
import { useChange } from '../outcome.tsx'
import { Fact } from '../parts.tsx'
import { Waiting } from '../queries.tsx'
import type { Company } from '../remembered.ts'
import { fragment, keep } from '../router.ts'
import type { Answer, Session } from '../routes.ts'
import type { OnSignedIn } from './cookie-session.ts'
import { LinkWanted } from './forgotten.tsx'
import { Frame } from './frame.tsx'
import { OtherAccount } from './other-account.tsx'
import { SignIn } from './sign-in.tsx'

/** Pages of emailed links. They act only when a button is pressed, because email scanners open links too. */

export interface LinkProps {
  /** The session of this browser. */
  session: Session | null
  onSignedIn: OnSignedIn
}

const DEAD_LINK = 'This link has expired, was already used, or was replaced by a newer email.'
/** A mail program has cut the link, or the page was reloaded: tokens are not stored. */
export const NO_LINK =
  'This page needs the link from your email. Open it again, or copy all of it into the address bar.'
const TAKEN = 'Someone else in your company already uses this email. Choose a different one.'

/** The service's text. The compiler compares them. */
const OF_SERVICE: typeof EMAIL_TAKEN = 'is for an email address that another member already uses'

/** Of the link that was opened. */
export const token = fragment.get('token') ?? ''

/** Rethrows errors, with messages about the link if its token is at fault. */
export function explain(advice: string, taken = TAKEN) {
  return (error: unknown): never => {
    if (!(error instanceof ApiError) || !error.fields['token']) throw error
    const isTaken = error.fields['token'] === OF_SERVICE
    const message = token === '' ? NO_LINK : isTaken ? taken : `${DEAD_LINK} ${advice}`
    throw new ApiError(token === '' || isTaken ? error.code : DEAD, message, { status: error.status })
  }
}

export const DEAD = 'dead_link'

/** The title of a page, unless its link is invalid. */
export const titleOf = (error: unknown, title: string) =>
  error instanceof ApiError && error.code === DEAD ? 'Link expired' : title

type Preview =
  | 'POST /auth/password/reset/preview'
  | 'POST /auth/invitations/preview'
  | 'POST /auth/email/confirm/preview'

/** What a link is about, or why it does not work. */
export function useLink<Route extends Preview>(route: Route, advice: string) {
  const failed = explain(advice)
  const loaded = useQuery<Answer<Route>>({
    queryKey: [route],
    queryFn: () => call<Preview>(route, { body: { token } }).catch(failed),
    staleTime: Infinity,
  })
  const { data } = loaded
  useEffect(() => {
    if (!data) return
    const company = 'companyHandle' in data ? data.companyHandle : null
    keep({ ...(company && { company }), email: data.email })
  }, [data])
  return { failed, loaded, value: data }
}

const TITLE = 'Confirm your email'

export function VerifyEmail({ session, onSignedIn }: LinkProps) {
  const [verified, setVerified] = useState<Company | null>(null)
  const change = useChange()
  const fault = change.result?.error
  if (verified)
    return <SignIn notice="Your email is confirmed. Sign in." company={verified} onSignedIn={onSignedIn} />
  if (!token || fault?.code === DEAD)
    return <LinkWanted title={titleOf(fault, TITLE)} why={fault?.message ?? NO_LINK} />
  async function verify(): Promise<void> {
    const failed = explain("If you've already confirmed your email, sign in. If not, get a new link.")
    const answer = await call('POST /auth/verify-email', { body: { token } }).catch(failed)
    const { companyId: id, companyHandle: handle, email } = answer
    fragment.set('email', email)
    setVerified({ id, handle, name: handle ?? id })
  }
  return (
    <OtherAccount session={session}>
      <Frame title={TITLE} links={{ '/sign-in': 'Sign in' }}>
        <p>Confirm that the email you registered with is yours. Then you can sign in.</p>
        <Form action="Confirm email" onSubmit={verify} change={change} />
      </Frame>
    </OtherAccount>
  )
}

export function ConfirmEmail({ session }: LinkProps) {
  const { failed, loaded, value } = useLink(
    'POST /auth/email/confirm/preview',
    'Request the change again under Account.',
  )
  const [isDone, setDone] = useState(false)
  if (isDone)
    return (
      <Frame title="Email changed" links={{ '/': session ? 'Continue' : 'Sign in' }}>
        <div class="done" role="status">
          From your next sign-in, use your new email.
        </div>
      </Frame>
    )
  async function confirm(): Promise<void> {
    await call('POST /auth/email/confirm', { body: { token } }).catch(failed)
    if (value) fragment.set('email', value.newEmail)
    setDone(true)
  }
  return (
    <Frame
      title={titleOf(loaded.error, 'Confirm your new email')}
      links={{ '/': session ? 'Continue without confirming' : 'Sign in' }}
    >
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
    </Frame>
  )
}
