import type { Socket } from 'node:net'

/** Answers that a client does not take, which occupy memory until it does. */

/** Enough for the largest answer at 10 KB/s. */
const LONGEST_MS = 10_000

/** The bytes that a connection was given until it was seen with some that are unsent, and when that was. */
export interface Unsent {
  given: number
  since: number
}

export interface Sending {
  socket: Pick<Socket, 'writableLength' | 'bytesWritten'>
  unsent?: Unsent | undefined
}

/**
 * Whether the client has not taken an answer for too long. That it takes some of it now and then is not enough. To be
 * asked again and again: `sending` keeps what was seen.
 */
export function isUnread(sending: Sending, now: number): boolean {
  const { socket, unsent } = sending
  // The bytes written include those that are unsent, so they change only with the next answer, which has its own time.
  const { writableLength, bytesWritten: given } = socket
  if (writableLength === 0) sending.unsent = undefined
  else if (unsent?.given !== given) sending.unsent = { given, since: now }
  else return now - unsent.since >= LONGEST_MS
  return false
}
