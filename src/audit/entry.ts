import { newId, type System } from '../system.ts'

/** One entry of the audit trail: who did what, when, from where, and with which outcome. */
export interface AuditEntry {
  auditId: string
  occurredAt: Date
  action: string
  outcome: string
  /** A user's id, `operator`, or null if nobody proved who they are; never an e-mail. */
  actor: string | null
  /** The id of a user or key, or an invited e-mail, which a trigger stores apart. */
  subject?: string | undefined
  sessionId?: string | undefined
  ipAddress?: string | undefined
  /** No IP addresses, e-mails or secrets. */
  details?: Record<string, unknown> | undefined
}

export function newEntry(
  system: System,
  occurredAt: Date,
  about: Omit<AuditEntry, 'auditId' | 'occurredAt'>,
): AuditEntry {
  return { ...about, auditId: newId(system), occurredAt }
}

/** For the log and the audit trail; the client is not told. */
export const REFUSAL_REASONS = [
  'unknown_company',
  'company_suspended',
  'unknown_user',
  'user_disabled',
  'locked_out',
  'wrong_password',
  'email_not_verified',
  'token_mode_only',
  'factor_missing',
  // For a minute that has no room for further rows.
  'other',
  // From instances that told no reason.
  'refused',
] as const

export type RefusalReason = (typeof REFUSAL_REASONS)[number]

/** The company id of entries that concern no single company. */
export const PLATFORM = '00000000-0000-0000-0000-000000000000'
