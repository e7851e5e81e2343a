import type { ComponentChild } from 'preact'
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks'
import { LocationProvider, useLocation } from 'preact-iso/router'
import { ApiError, call, session as sessionEvents } from './api.ts'
import { isExpired, noteExpiry } from './expiry.ts'
import { leave } from './leaving.tsx'
import { HOME_PATHS, type PUBLIC_PATHS, SIGNED_IN_PAGES } from './paths.ts'
import { AcceptInvitation, ResetPassword } from './public/chosen-password.tsx'
import { expectCookie } from './public/cookie-session.ts'
import { FindCompany, ForgotPassword } from './public/forgotten.tsx'
import { Frame } from './public/frame.tsx'
import { ConfirmEmail, type LinkProps, VerifyEmail } from './public/mailed-links.tsx'
import { Register } from './public/register.tsx'
import { SignIn } from './public/sign-in.tsx'
import { Undo } from './public/undo.tsx'
import { Fault, Sharing } from './queries.tsx'
import { signedInMark } from './remembered.ts'
import type { Session } from './routes.ts'
import { ENDED } from './words.ts'

/** Routes paths to pages, and tracks the session. */

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

/** Separate, because strangers and people who sign in need only the public pages. */
const loadSignedIn = () => import('./signed-in/pages.tsx')
const prefetch = () => void loadSignedIn().catch(() => {})
type SignedInPages = Awaited<ReturnType<typeof loadSignedIn>>

function isAt<Path extends string>(pages: Record<Path, unknown>, path: string): path is Path {
  return Object.hasOwn(pages, path)
}

/** Users who do not send events start at their account. */
const homeOf = ({ user }: Session) => (['admin', 'developer'].includes(user.role) ? '/developer' : '/account')

const NOT_LOADED = "This page didn't load. Check your connection, then try again."

/** Tells other tabs the ID of the session that this tab opened or changed, or null after a sign-out. */
const tabs = openTabs()

/** Null if the browser refuses channels, as some do when they block cookies. Tabs then ask the service. */
function openTabs(): BroadcastChannel | null {
  try {
    return new BroadcastChannel('gatehouse')
  } catch {
    return null
  }
}

export function App() {
  const [crash] = useErrorBoundary((error) => console.error(error))
  if (crash)
    return (
      <Frame title="Something went wrong on our side">
        <p>This page stopped working. Everything you saved is safe.</p>
        <button type="button" class="primary" onClick={() => location.reload()}>
          Reload the page
        </button>
      </Frame>
    )
  return (
    <Sharing>
      <LocationProvider>
        <Pages />
      </LocationProvider>
    </Sharing>
  )
}

function Pages() {
  const { path, url, route } = useLocation()
  const [session, setSession] = useState<Session | null | undefined>(undefined)
  const [notice, setNotice] = useState<string | null>(null)
  const [fault, setFault] = useState<string | null>(null)
  const [returnTo, setReturnTo] = useState<string | null>(null)
  /** The session that must use a second factor before it shows anything. */
  const [held, setHeld] = useState<string | null>(null)
  /** The session that a recovery code opened. */
  const [recovered, setRecovered] = useState<string | null>(null)
  /** The browser is signed in to a different session than the page shows. */
  const [isStale, setStale] = useState(false)
  /** From a click on "Sign out" until the session has ended. */
  const [leaving, setLeaving] = useState<'busy' | 'failed' | null>(null)
  const [pages, setPages] = useState<SignedInPages | null>(null)
  const isPublic = isAt(PUBLIC, path)
  const current = useRef({ session, url, isPublic })
  current.current = { session, url, isPublic }
  // A stale page keeps naming its own session, so that its requests are refused.
  if (!isStale) sessionEvents.shownId = session?.session.id ?? null

  /** Pages behind sign-in show only one session. Link pages do not show it, and a reload would lose the link. */
  function isOther(id: string | null): boolean {
    const { session, isPublic } = current.current
    return Boolean(session && session.session.id !== id && !isPublic)
  }

  /** Loads the session. While the service is unavailable, the page keeps showing the same session. */
  async function ask(): Promise<void> {
    try {
      const found = await call('GET /auth/session')
      if (isOther(found.session.id)) return setStale(true)
      noteExpiry(found.session.expiresAt)
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
      if (isAt(SIGNED_IN_PAGES, location.pathname)) setReturnTo(current.current.url)
      setSession(null)
      tabs?.postMessage(null)
    }
    sessionEvents.changed = () => setStale(true)
    sessionEvents.outdated = ask
    sessionEvents.held = () => setHeld(current.current.session?.session.id ?? null)
    // A different tab may have signed in as someone else, and its mark may not be here yet, so ask the service.
    tabs?.addEventListener('message', ({ data }) => {
      if (isOther(data)) return setStale(true)
      setLeaving(null)
      setHeld(null)
      ask()
    })
    // The back button restores a page in its previous state.
    addEventListener('pageshow', (event) => {
      if (!event.persisted) return
      if (isOther(null)) setStale(true)
      else ask()
    })
    const look = () => isExpired() && sessionEvents.ended('expired')
    // Timers stop while the machine sleeps, and are rare in hidden tabs.
    setInterval(look, 15_000)
    for (const event of ['focus', 'visibilitychange', 'pageshow']) addEventListener(event, look)
    // Scripts can't read the HTTP-only cookie. The page loads the session early if its request had the cookie, which links from
    // other sites do not send. If nothing took the response, a later request would get it.
    if (document.querySelector('[rel=preload]') || signedInMark.isSet()) {
      prefetch()
      ask()
    } else setSession(null)
  }, [])

  const isSignedIn = Boolean(session)
  useEffect(() => {
    if (session === null || pages) for (const one of document.querySelectorAll('.starting')) one.remove()
  }, [session, pages])
  useEffect(() => {
    if (isSignedIn) loadSignedIn().then(setPages, () => setFault(NOT_LOADED))
    else {
      // The sign-out has succeeded, here or elsewhere.
      setLeaving(null)
      // Typing usually leads to a sign-in.
      addEventListener('input', prefetch, { once: true })
    }
  }, [isSignedIn])

  // A reload ends everything that the page was doing. It shows nothing now, so it does not ask before leaving.
  useEffect(() => {
    if (isStale) location.reload()
  }, [isStale])

  useEffect(() => {
    if (leaving !== 'failed') return
    addEventListener('online', signOut)
    return () => removeEventListener('online', signOut)
  }, [leaving])

  const isAtHome = HOME_PATHS.includes(path)
  useEffect(() => {
    const needsSignIn = isAt(SIGNED_IN_PAGES, path)
    if (session === null && needsSignIn) setReturnTo(url)
    if (session === null && (needsSignIn || path === '/')) route('/sign-in', true)
    if (session && isAtHome) route(returnTo ?? homeOf(session), true)
  }, [session, path, isAtHome, returnTo])

  /** The page to sign in stays until the next one can show. */
  async function enter(opened: Session, byRecoveryCode = false): Promise<void> {
    await expectCookie(opened)
    await loadSignedIn().then(setPages, () => setFault(NOT_LOADED))
    if (byRecoveryCode) setReturnTo('/account')
    setRecovered(byRecoveryCode ? opened.session.id : null)
    signedInMark.set(true)
    noteExpiry(opened.session.expiresAt)
    setNotice(null)
    setSession(opened)
    tabs?.postMessage(opened.session.id)
    if (isPublic) route('/', true)
  }

  /** Shows nothing of the session from the start, even if it cannot end it yet. */
  async function signOut(): Promise<void> {
    setLeaving('busy')
    try {
      await call('POST /auth/logout')
    } catch (error) {
      if (error instanceof ApiError && error.code === 'session_changed') return
      // 401 means signed out. After any other failure, the user must know that they are still signed in.
      if (!(error instanceof ApiError && error.status === 401)) return setLeaving('failed')
    }
    setFault(null)
    signedInMark.set(false)
    setReturnTo(null)
    setNotice(ENDED.logout)
    setSession(null)
    tabs?.postMessage(null)
    route('/sign-in')
  }

  // Without a fault, it shows nothing, so the outline of the page stays (scripts/build.ts).
  const waiting = fault !== null && (
    <Frame title="We can't reach gatehouse">
      <Fault>{fault}</Fault>
      <button type="button" onClick={() => location.reload()}>
        Try again
      </button>
    </Frame>
  )
  if (leaving === 'busy')
    return (
      <p class="waiting" role="status">
        Signing out…
      </p>
    )
  if (leaving === 'failed')
    return (
      <Frame title="You're still signed in">
        <Fault>We couldn't reach gatehouse. We'll sign you out when you're back online.</Fault>
        <button type="button" class="primary" onClick={signOut}>
          Try again
        </button>
      </Frame>
    )
  if (session === undefined || isStale) return waiting
  if (isAt(PUBLIC, path)) return PUBLIC[path]({ session, onSignedIn: enter })
  if (session === null) {
    if (!isAtHome && !isAt(SIGNED_IN_PAGES, path)) return <NotFound />
    return <SignIn key={notice} notice={notice} onSignedIn={enter} />
  }
  if (!isAt(SIGNED_IN_PAGES, path)) return isAtHome ? null : <NotFound />
  if (!pages) return waiting
  return (
    <pages.SignedIn
      session={session}
      path={path}
      fault={fault}
      mustEnroll={held === session.session.id}
      onEnrolled={() => {
        setHeld(null)
        tabs?.postMessage(session.session.id)
      }}
      onSignOut={() => leave(signOut)}
      onChanged={(changed) => {
        setSession(changed)
        tabs?.postMessage(changed.session.id)
      }}
      onRecovered={recovered === session.session.id ? () => setRecovered(null) : undefined}
    />
  )
}

function NotFound() {
  return (
    <Frame title="Page not found" links={{ '/': 'Go to the home page' }}>
      <p>This page doesn't exist. Check the address, or start from the home page.</p>
    </Frame>
  )
}
