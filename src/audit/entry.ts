import { newId, type System } from '../system.ts'

/** One entry of the audit trail: who did what, when, from where, and with which outcome. */
export interface AuditEntry {
  auditId: string
  occurredAt: Date
  action: string
  outcome: string
  /** A user's id, the e-mail of a sign-in attempt, or `operator`. */
  actor: string
  /** The object of an operator's action: a user's id, an invited e-mail, or a key's id. */
  subject?: string | undefined
  sessionId?: string | undefined
  ipAddress?: string | undefined
}

export function newEntry(
  system: System,
  occurredAt: Date,
  about: Omit<AuditEntry, 'auditId' | 'occurredAt'>,
): AuditEntry {
  return { ...about, auditId: newId(system), occurredAt }
}

/** The company id of entries that concern no single company. */
export const PLATFORM = '00000000-0000-0000-0000-000000000000'
