import { ApiError, call } from '../api.ts'
import type { Session } from '../routes.ts'

/** After a recovery code, the user may have lost a second factor. */
export type OnSignedIn = (session: Session, byRecoveryCode?: boolean) => Promise<void>

export const COOKIE_MODE = { 'x-session-mode': 'cookie' }

const NOT_KEPT =
  "Your sign-in was accepted, but this browser didn't keep the session cookie. Allow cookies for this site, then sign in again."
/** Safari keeps no `Secure` cookies without HTTPS, even on localhost. */
const SAFARI = ' Safari keeps no cookies without HTTPS, so use a different browser.'

/**
 * Loads the new session. Otherwise, a browser that keeps no cookies would show the page for a moment, then report that the
 * session ended. @throws ApiError cookie_not_kept
 */
export async function expectCookie(opened: Session): Promise<void> {
  const isKept = await call('GET /auth/session').then(
    ({ session }) => session.id === opened.session.id,
    // Unknown while the service is unavailable.
    (error: unknown) => !(error instanceof ApiError && error.status === 401),
  )
  if (isKept) return
  throw new ApiError('cookie_not_kept', location.protocol === 'https:' ? NOT_KEPT : NOT_KEPT + SAFARI)
}
