import type { ComponentChild } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { LocationProvider, useLocation } from 'preact-iso/router'
import { ApiError, call, session as sessionEvents } from './api.ts'
import { LeaveDialog, leave } from './leaving.tsx'
import { Boundary } from './parts.tsx'
import { HOME_PATHS, type PUBLIC_PATHS, SIGNED_IN_PAGES } from './paths.ts'
import { AcceptInvitation, ResetPassword } from './public/chosen-password.tsx'
import { FindCompany, ForgotPassword } from './public/forgotten.tsx'
import { Frame } from './public/frame.tsx'
import { ConfirmEmail, type LinkProps, VerifyEmail } from './public/mailed-links.tsx'
import { Register } from './public/register.tsx'
import { SignIn } from './public/sign-in.tsx'
import { Undo } from './public/undo.tsx'
import { signedInMark } from './remembered.ts'
import type { Session } from './routes.ts'
import { Account } from './signed-in/account.tsx'
import { Activity } from './signed-in/activity.tsx'
import { CompanyPage } from './signed-in/company.tsx'
import { Developer } from './signed-in/developer.tsx'
import { Enrolment } from './signed-in/enrolment.tsx'
import { MembersPage } from './signed-in/members.tsx'
import { ProofDialog } from './signed-in/proof-dialog.tsx'
import { type PageProps, Shell } from './signed-in/shell.tsx'
import { ENDED } from './words.ts'

/** Which page is at which path, and who is signed in. */

const PUBLIC: Record<(typeof PUBLIC_PATHS)[number], (props: LinkProps) => ComponentChild> = {
  '/register': () => <Register />,
  '/companies': () => <FindCompany />,
  '/forgot-password': () => <ForgotPassword />,
  '/verify-email': (props) => <VerifyEmail {...props} />,
  '/reset-password': (props) => <ResetPassword {...props} />,
  '/accept-invitation': (props) => <AcceptInvitation {...props} />,
  '/confirm-email': (props) => <ConfirmEmail {...props} />,
  '/undo': (props) => <Undo {...props} />,
}

const SIGNED_IN: Record<keyof typeof SIGNED_IN_PAGES, (props: PageProps) => ComponentChild> = {
  '/developer': (props) => <Developer {...props} />,
  '/members': (props) => <MembersPage {...props} />,
  '/activity': () => <Activity />,
  '/company': (props) => <CompanyPage {...props} />,
  '/account': (props) => <Account {...props} />,
}

function isAt<Path extends string>(pages: Record<Path, unknown>, path: string): path is Path {
  return Object.hasOwn(pages, path)
}

/** Those who send no events begin with who they are and what they can do. */
const homeOf = ({ user }: Session) => (['admin', 'developer'].includes(user.role) ? '/developer' : '/account')

const NOT_SIGNED_OUT = "You're still signed in: we couldn't reach gatehouse. Try again before you leave."

/** Tells the other tabs which session this one has opened or changed; null once it is signed out, or has found that it is. */
const tabs = openTabs()

/** Null in a browser that refuses channels, as some do where they keep no cookies: each tab then finds out by itself. */
function openTabs(): BroadcastChannel | null {
  try {
    return new BroadcastChannel('gatehouse')
  } catch {
    return null
  }
}

export function App() {
  return (
    <Boundary>
      <LocationProvider>
        <Pages />
        <LeaveDialog />
      </LocationProvider>
    </Boundary>
  )
}

function Pages() {
  const { path, url, route } = useLocation()
  const [session, setSession] = useState<Session | null | undefined>(undefined)
  const [notice, setNotice] = useState<string | null>(null)
  const [fault, setFault] = useState<string | null>(null)
  const [returnTo, setReturnTo] = useState<string | null>(null)
  /** The session that the policy of its company holds: it shows nothing before it has proven a second factor. */
  const [held, setHeld] = useState<string | null>(null)
  /** The session that a recovery code opened. */
  const [recovered, setRecovered] = useState<string | null>(null)
  /** The browser is signed in to a different session than the page shows. */
  const [isStale, setStale] = useState(false)
  const isPublic = isAt(PUBLIC, path)
  const current = useRef({ session, url, isPublic })
  current.current = { session, url, isPublic }
  // The requests of a stale page stay those of its session, so that they are refused.
  if (!isStale) sessionEvents.shownId = session?.session.id ?? null

  /** Pages behind sign-in show one session only. Those of links show nothing of it, and would lose the link. */
  function isOther(id: string | null): boolean {
    const { session, isPublic } = current.current
    return Boolean(session && session.session.id !== id && !isPublic)
  }

  /** Asks who is signed in. What is shown of the same session stays while the service is busy or away. */
  async function ask(): Promise<void> {
    try {
      const found = await call('GET /auth/session')
      if (isOther(found.session.id)) return setStale(true)
      setSession(found)
      setFault(null)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.status === 401) setSession(null)
      else setFault(error.message)
    }
  }

  useEffect(() => {
    sessionEvents.ended = (reason) => {
      signedInMark.set(false)
      if (!current.current.session) return
      setNotice(reason ? ENDED[reason] : 'Your session has ended. Sign in again.')
      if (isAt(SIGNED_IN, location.pathname)) setReturnTo(current.current.url)
      setSession(null)
      tabs?.postMessage(null)
    }
    sessionEvents.changed = () => setStale(true)
    sessionEvents.held = () => setHeld(current.current.session?.session.id ?? null)
    // Another tab can have signed in as somebody else, and its mark may not be here yet: the service knows.
    tabs?.addEventListener('message', ({ data }) => {
      if (isOther(data)) return setStale(true)
      setHeld(null)
      ask()
    })
    // A page that comes back by the back button shows what it was left with.
    addEventListener('pageshow', (event) => {
      if (!event.persisted) return
      if (isOther(null)) setStale(true)
      else ask()
    })
    // The cookie is none of a script's business, so a mark in its place says whether it is worth asking.
    if (signedInMark.isSet()) ask()
    else setSession(null)
  }, [])

  // Everything that the page was doing ends with it. By now it is not shown, so it asks nobody whether to leave.
  useEffect(() => {
    if (isStale) location.reload()
  }, [isStale])

  const isAtHome = HOME_PATHS.includes(path)
  useEffect(() => {
    if (session === null && !isPublic && path !== '/sign-in') {
      const needsSignIn = isAt(SIGNED_IN, path)
      if (needsSignIn) setReturnTo(url)
      if (path === '/' || needsSignIn) route('/sign-in', true)
    }
    if (session && isAtHome) route(returnTo ?? homeOf(session), true)
  }, [session, path, isPublic, isAtHome, returnTo])

  function enter(opened: Session, byRecoveryCode = false): void {
    if (byRecoveryCode) setReturnTo('/account')
    setRecovered(byRecoveryCode ? opened.session.id : null)
    signedInMark.set(true)
    setNotice(null)
    setHeld(null)
    setSession(opened)
    tabs?.postMessage(opened.session.id)
    if (isPublic) route('/', true)
  }

  /** Shows what was saved, here and in other tabs. */
  function change(changed: Session): void {
    setSession(changed)
    tabs?.postMessage(changed.session.id)
  }

  async function signOut(): Promise<void> {
    try {
      await call('POST /auth/logout')
    } catch (error) {
      if (error instanceof ApiError && error.code === 'session_changed') return
      // Who has no session any more is signed out; everybody else must know that they are not.
      if (!(error instanceof ApiError && error.status === 401)) return setFault(NOT_SIGNED_OUT)
    }
    setFault(null)
    signedInMark.set(false)
    setReturnTo(null)
    setNotice(ENDED.logout)
    setSession(null)
    tabs?.postMessage(null)
    route('/sign-in')
  }

  if (session === undefined || isStale)
    return fault === null ? (
      <p class="waiting" role="status">
        Loading…
      </p>
    ) : (
      <Frame title="We can't reach gatehouse">
        <p class="error box" role="alert">
          {fault}
        </p>
        <button type="button" onClick={() => location.reload()}>
          Try again
        </button>
      </Frame>
    )
  if (isAt(PUBLIC, path)) return PUBLIC[path]({ session, onSignedIn: enter })
  if (session === null) {
    if (!isAtHome && !isAt(SIGNED_IN, path)) return <NotFound />
    return <SignIn key={notice} notice={notice} onSignedIn={enter} />
  }
  if (!isAt(SIGNED_IN, path)) return isAtHome ? null : <NotFound />
  const { needs } = SIGNED_IN_PAGES[path]
  const mustEnroll = held === session.session.id
  const onRecovered = recovered === session.session.id ? () => setRecovered(null) : undefined
  const isAllowed = needs === undefined || session.permissions.includes(needs)
  return (
    // Nothing of one session is shown in another.
    <Shell
      key={session.session.id}
      session={session}
      path={path}
      mustEnroll={mustEnroll}
      onSignOut={() => leave(signOut)}
    >
      {fault && (
        <p class="error box" role="alert">
          {fault}
        </p>
      )}
      {mustEnroll ? (
        <Enrolment
          session={session}
          onDone={() => {
            setHeld(null)
            tabs?.postMessage(session.session.id)
          }}
        />
      ) : isAllowed ? (
        SIGNED_IN[path]({ session, onChanged: change, onRecovered })
      ) : (
        <p class="notice">Your role, {session.user.role}, doesn't include this page. Ask an admin.</p>
      )}
      <ProofDialog email={session.user.email} />
    </Shell>
  )
}

function NotFound() {
  return (
    <Frame title="Page not found">
      <p>There is no page at this address.</p>
      <p class="links">
        <a href="/">Go to home page</a>
      </p>
    </Frame>
  )
}
