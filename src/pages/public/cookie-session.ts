import { ApiError, call } from '../api.ts'
import type { Session } from '../routes.ts'

export const COOKIE_MODE = { 'x-session-mode': 'cookie' }

const NOT_KEPT =
  "Your sign-in was accepted, but this browser didn't keep the session cookie. Allow cookies for this site, then sign in again."
/** It keeps no cookie with `Secure` without HTTPS, not even at localhost. */
const SAFARI = ' Safari keeps none without HTTPS: use a different browser.'

/**
 * Asks for the session that was just opened. Without this check, a browser that keeps no cookie shows the page for a moment and
 * then says that the session has ended. @throws ApiError cookie_not_kept
 */
export async function expectCookie(opened: Session): Promise<void> {
  const isKept = await call('GET /auth/session').then(
    ({ session }) => session.id === opened.session.id,
    // Whether it was kept stays unknown while the service is busy or away.
    (error: unknown) => !(error instanceof ApiError && error.status === 401),
  )
  if (isKept) return
  throw new ApiError('cookie_not_kept', location.protocol === 'https:' ? NOT_KEPT : NOT_KEPT + SAFARI)
}
