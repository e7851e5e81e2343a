import { newId, type System } from '../system.ts'

/** One entry of the audit trail: who did what, when, from where, and how it ended. */
export interface AuditEntry {
  auditId: string
  occurredAt: Date
  action: string
  outcome: string
  /** A user's id, the e-mail that was tried, or `operator`. */
  actor: string
  /** The user to whom it was done, where that is not the actor. */
  subject?: string | undefined
  sessionId?: string | undefined
  ipAddress?: string | undefined
}

/** An entry about what happened at that time. */
export function newEntry(
  system: System,
  occurredAt: Date,
  about: Omit<AuditEntry, 'auditId' | 'occurredAt'>,
): AuditEntry {
  return { ...about, auditId: newId(system), occurredAt }
}

/** The company id of entries about what concerns no single company. */
export const PLATFORM = '00000000-0000-0000-0000-000000000000'
