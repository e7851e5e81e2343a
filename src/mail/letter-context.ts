import type { FactorKind, SecondFactorPolicy } from '../database/schema.ts'

/** What letters are written from, and how they say when and from where. */

/** The values that are queued with a mail. Other values are read from the account at sending time. */
export interface MailData {
  ipAddress?: string | undefined
  userAgent?: string | undefined
  role?: string | undefined
  /** The name of the member who invites. Without it, an operator does. */
  invitedBy?: string | undefined
  /** Whose account it is about: the recipient is not, or not only, their e-mail of today. */
  userId?: string | undefined
  /** Whether who asked for another e-mail had proven a second factor. */
  isFactorProven?: boolean | undefined
  /** How many invitations of the recipient died with their former password. */
  invitationsWithdrawn?: number | undefined
  /** The second factor that was added or removed. */
  factor?: { kind: FactorKind; name: string } | undefined
  /** Whether the password is void already, so that a new one is needed. */
  isPasswordVoid?: boolean | undefined
  /** How many recovery codes are left. */
  codesLeft?: number | undefined
  /** Of whom the company asks for a second factor now. */
  policy?: SecondFactorPolicy | undefined
}

/** All values that a letter can contain. */
export interface LetterContext extends MailData {
  companyId: string
  companyName: string
  /** The name of the recipient. */
  name: string
  /** Whether the recipient has proven the e-mail. Otherwise a stranger can have chosen these names. */
  isProven: boolean
  /** The companies of somebody who has forgotten them, with the pages on which to sign in. */
  companies?: { name: string; id: string; url: string }[] | undefined
  /** Proves the mailbox. Made when the mail is sent. */
  code?: string | undefined
  requestedAt: Date
}

export function askedFrom({
  ipAddress,
  requestedAt,
}: Pick<LetterContext, 'ipAddress' | 'requestedAt'>): string {
  return `${ipAddress === undefined ? '' : `from the address ${ipAddress} `}on ${toText(requestedAt)}`
}

/** 2026-11-20 10:15 UTC */
export function toText(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
