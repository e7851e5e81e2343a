import type { ComponentChild } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call, type Session, session as sessionEvents } from './api.ts'
import { Link } from './parts.tsx'
import { HOME_PATHS, type PUBLIC_PATHS, SIGNED_IN_PAGES } from './paths.ts'
import { ForgotPassword, WhichCompany } from './public/forgotten.tsx'
import { Frame } from './public/frame.tsx'
import { AcceptInvitation, ConfirmEmail, ResetPassword, Undo, VerifyEmail } from './public/mailed-links.tsx'
import { Register } from './public/register.tsx'
import { SignIn } from './public/sign-in.tsx'
import { navigate, usePath } from './router.ts'
import { isMarked, mark } from './session-mark.ts'
import { Account } from './signed-in/account.tsx'
import { Activity } from './signed-in/activity.tsx'
import { Developer } from './signed-in/developer.tsx'
import { Enrolment } from './signed-in/enrolment.tsx'
import { MembersPage } from './signed-in/members.tsx'
import { ProofDialog } from './signed-in/proof-dialog.tsx'
import { SecurityPage } from './signed-in/security.tsx'
import { Shell } from './signed-in/shell.tsx'

/** Which page is at which path, and who is signed in. */

const PUBLIC: Record<(typeof PUBLIC_PATHS)[number], () => ComponentChild> = {
  '/register': () => <Register />,
  '/companies': () => <WhichCompany />,
  '/forgot-password': () => <ForgotPassword />,
  '/verify-email': () => <VerifyEmail />,
  '/reset-password': () => <ResetPassword />,
  '/accept-invitation': () => <AcceptInvitation />,
  '/confirm-email': () => <ConfirmEmail />,
  '/undo': () => <Undo />,
}

interface PageProps {
  session: Session
  onChanged: () => void
}

const SIGNED_IN: Record<keyof typeof SIGNED_IN_PAGES, (props: PageProps) => ComponentChild> = {
  '/developer': (props) => <Developer {...props} />,
  '/members': (props) => <MembersPage {...props} />,
  '/security': (props) => <SecurityPage {...props} />,
  '/activity': () => <Activity />,
  '/account': (props) => <Account {...props} />,
}

function isAt<Path extends string>(pages: Record<Path, unknown>, path: string): path is Path {
  return Object.hasOwn(pages, path)
}

const ENDED: Record<string, string> = {
  logout: 'You are signed out.',
  expired: 'Your session has ended since it was not used. Sign in again.',
  user_disabled: 'Your account is disabled. Ask an admin of your company.',
  password_reset: 'Your password was reset. Sign in with the new one.',
  password_changed: 'Your password was changed elsewhere. Sign in with the new one.',
  ended_by_user: 'This session was ended from another one of yours. Sign in again.',
  ended_by_admin: 'An admin of your company has ended this session. Sign in again.',
}

const NOT_SIGNED_OUT =
  'You are still signed in: the service could not be reached. Try again before you leave.'

/** Tells the other tabs that this one has signed in, is signed out, or has found that it is. */
const tabs = new BroadcastChannel('gatehouse')

export function App() {
  const path = usePath()
  const [session, setSession] = useState<Session | null | undefined>(undefined)
  const [notice, setNotice] = useState<string | null>(null)
  const [fault, setFault] = useState<string | null>(null)
  const [returnTo, setReturnTo] = useState<string | null>(null)
  /** The session that the policy of its company holds: it shows nothing before it has proven a second factor. */
  const [held, setHeld] = useState<string | null>(null)
  const current = useRef(session)
  current.current = session
  const isPublic = isAt(PUBLIC, path)

  /** Asks who is signed in. What is shown stays while the service is busy or away. */
  async function ask(): Promise<void> {
    try {
      setSession(await call<Session>('/auth/session', { method: 'GET' }))
      setFault(null)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.status === 401) setSession(null)
      else setFault(error.message)
    }
  }

  useEffect(() => {
    sessionEvents.ended = (reason) => {
      mark(false)
      if (current.current === null) return
      setNotice(ENDED[reason ?? ''] ?? 'Your session has ended. Sign in again.')
      if (isAt(SIGNED_IN, location.pathname)) setReturnTo(location.pathname)
      setSession(null)
      tabs.postMessage('out')
    }
    sessionEvents.held = () => setHeld(current.current?.session.id ?? null)
    // Another tab can have signed in as somebody else, and its mark may not be here yet: the service knows.
    tabs.onmessage = () => {
      setHeld(null)
      ask()
    }
    // A page that comes back by the back button shows what it was left with.
    addEventListener('pageshow', (event) => {
      if (event.persisted) ask()
    })
    // The cookie is none of a script's business, so a mark in its place says whether it is worth asking.
    if (isMarked()) ask()
    else setSession(null)
  }, [])

  const isAtHome = HOME_PATHS.includes(path)
  useEffect(() => {
    if (session === null && !isPublic && path !== '/sign-in') {
      const needsSignIn = isAt(SIGNED_IN, path)
      if (needsSignIn) setReturnTo(path)
      if (path === '/' || needsSignIn) navigate('/sign-in', { replace: true })
    }
    if (session && isAtHome) navigate(returnTo ?? homeOf(session), { replace: true })
  }, [session, path, isPublic, isAtHome, returnTo])

  async function signOut(): Promise<void> {
    try {
      await call('/auth/logout')
    } catch (error) {
      // Who has no session any more is signed out; everybody else must know that they are not.
      if (!(error instanceof ApiError && error.status === 401)) return setFault(NOT_SIGNED_OUT)
    }
    setFault(null)
    mark(false)
    setReturnTo(null)
    setNotice('You are signed out.')
    setSession(null)
    tabs.postMessage('out')
    navigate('/sign-in')
  }

  if (isAt(PUBLIC, path)) return PUBLIC[path]()
  if (session === undefined)
    return fault === null ? null : (
      <Frame title="Not now">
        <p class="error box" role="alert">
          {fault}
        </p>
        <button type="button" onClick={() => location.reload()}>
          Try again
        </button>
      </Frame>
    )
  if (session === null) {
    if (!isAtHome && !isAt(SIGNED_IN, path)) return <NotFound />
    return (
      <SignIn
        notice={notice}
        onSignedIn={(opened) => {
          mark(true)
          setNotice(null)
          setSession(opened)
          tabs.postMessage('in')
        }}
      />
    )
  }
  if (!isAt(SIGNED_IN, path)) return isAtHome ? null : <NotFound />
  const { needs } = SIGNED_IN_PAGES[path]
  const isHeld = held === session.session.id
  const isAllowed = needs === undefined || session.permissions.includes(needs)
  return (
    // Nothing of one session is shown in another.
    <Shell key={session.session.id} session={session} path={path} isHeld={isHeld} onSignOut={signOut}>
      {fault && (
        <p class="error box" role="alert">
          {fault}
        </p>
      )}
      {isHeld ? (
        <Enrolment
          session={session}
          onDone={() => {
            setHeld(null)
            tabs.postMessage('in')
          }}
        />
      ) : isAllowed ? (
        SIGNED_IN[path]({ session, onChanged: ask })
      ) : (
        <p class="notice">Your role, {session.user.role}, does not include this page. Ask an admin.</p>
      )}
      <ProofDialog email={session.user.email} />
    </Shell>
  )
}

function homeOf({ permissions }: Session): string {
  return permissions.includes('webhook-secret:manage') ? '/developer' : '/account'
}

function NotFound() {
  return (
    <Frame title="Nothing is here">
      <p>There is no page at this address.</p>
      <p class="links">
        <Link to="/">Go to the start</Link>
      </p>
    </Frame>
  )
}
