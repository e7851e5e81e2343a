import type { FactorKind, SecondFactorPolicy } from '../database/schema.ts'

/** Queued with a mail. Other values are read from the account at sending time. */
export interface MailData {
  ipAddress?: string | undefined
  userAgent?: string | undefined
  role?: string | undefined
  /** The name of the member; undefined if an operator invites. */
  invitedBy?: string | undefined
  /** The user it is about, if the recipient is not, or not only, their present e-mail. */
  userId?: string | undefined
  /** Whether a second factor was proven when another e-mail was requested. */
  isFactorProven?: boolean | undefined
  invitationsWithdrawn?: number | undefined
  factor?: { kind: FactorKind; name: string } | undefined
  isPasswordVoid?: boolean | undefined
  codesLeft?: number | undefined
  policy?: SecondFactorPolicy | undefined
}

export interface LetterContext extends MailData {
  companyId: string
  companyName: string
  name: string
  /** Whether the recipient has proven the e-mail. If not, a stranger can have chosen these names. */
  isProven: boolean
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
