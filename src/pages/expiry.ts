import { signedInMark } from './remembered.ts'

/**
 * When the session has expired, without a request, because each one would extend it. Clocks can differ, so only durations count.
 * The maximum age can end a session earlier, which the next response says.
 */

/** Uses in a shorter time do not extend it. */
const RENEWED_MS = 60_000

/** Of the service's clock. */
let aheadMs = 0
/** Wall time, because it passes while the machine sleeps. */
let usedAt = 0
let idleMs = Infinity

export function noteUse({ headers }: Response): void {
  usedAt = Date.now()
  aheadMs = Date.parse(headers.get('date') ?? '') - usedAt || 0
  // For other tabs, which share the session.
  if (signedInMark.isSet()) signedInMark.set(true)
}

/** `expiresAt` is from the last response. */
export function noteExpiry(expiresAt: string): void {
  idleMs = Date.parse(expiresAt) - aheadMs - Date.now()
}

export const isExpired = () => Date.now() - Math.max(usedAt, signedInMark.setAt()) > idleMs + RENEWED_MS
