import { NIL_ID, newId, type System } from '../system.ts'

export interface AuditEntry {
  auditId: string
  occurredAt: Date
  action: string
  outcome: string
  /** A user's id, `operator`, or null if nobody was authenticated. Never an email. */
  actor: string | null
  /** The id of a user or key, or an invited email, which a trigger stores apart. */
  subject?: string | undefined
  sessionId?: string | undefined
  ipAddress?: string | undefined
  /** No IP addresses, emails, or secrets. */
  details?: Record<string, unknown> | undefined
}

export function newEntry(
  system: System,
  occurredAt: Date,
  about: Omit<AuditEntry, 'auditId' | 'occurredAt'>,
): AuditEntry {
  return { ...about, auditId: newId(system), occurredAt }
}

/** For the log and the audit trail. Clients do not learn them. */
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
  // Beyond the rows that a company may add in a minute.
  'other',
  // Releases from before reasons were recorded.
  'refused',
] as const

export type SignInRefusal = (typeof REFUSAL_REASONS)[number]

/** The company id of entries that concern no single company. */
export const PLATFORM = NIL_ID

/** In the order of the OpenAPI document. */
export const ACTIONS = {
  sign_in: 'A session was opened',
  second_factor: 'A user sent a wrong second factor',
  recovery_code: 'A recovery code was used instead of a second factor',
  reauthenticate: 'A user re-authenticated, or tried to',
  refresh: 'A refresh token was used twice: `reused` ended the session, `raced` did not',
  logout: 'A user ended their session',
  logout_all: 'A user ended all their sessions',
  session_end:
    'A session ended: by its user in another session, `superseded` by a newer one, or `reauthentication_failed` after too many wrong passwords or codes',
  sessions_end: 'The sessions of a member or of the company were ended',
  sessions_end_all: 'All sessions of all companies were ended',
  register: 'The company was registered',
  verify_email: 'The email of a registration was verified',
  password_change: 'A user changed their password, or sent a wrong current one',
  password_reset: 'A user set a new password with an emailed link',
  password_void: 'A password was removed after too many wrong codes',
  name_change: 'A user changed their name',
  email_change_request: 'A user requested a new email',
  email_change_withdraw: 'A user withdrew their request for a new email',
  email_change: 'A user confirmed their new email, which replaced the previous one',
  mailbox_code: 'A user requested an emailed code',
  undo: 'A first second factor or an email change was undone with an emailed link',
  second_factor_add: 'A user added a second factor',
  second_factor_remove: 'A user removed a second factor',
  recovery_codes: 'A user generated new recovery codes',
  second_factors_reset: "A member's second factors were reset",
  security_policy: 'The company changed its second-factor policy or its session limits',
  invite: 'Someone was invited',
  invite_resend: 'An invitation was sent again',
  invite_withdraw: 'An invitation was withdrawn',
  accept_invitation: 'Someone accepted an invitation',
  user_create: 'An operator added a member',
  user_role: "A member's role was changed",
  user_assignments: "A member's assignments were changed",
  user_disable: 'A member was disabled',
  user_enable: 'A disabled member was enabled',
  user_unlock: 'An operator unlocked a member after too many wrong passwords',
  user_delete: 'A member was deleted',
  service_create: 'A service account was added',
  service_password: 'A service account got a new password',
  signing_secret_regenerate: 'The signing secret was created or replaced',
  events_watch: 'A user started to watch the events that the company sends',
  company_create: 'An operator created the company',
  company_change: "The company's name or handle was changed",
  company_suspend: 'An operator suspended the company',
  company_resume: 'An operator resumed the company',
  company_delete: 'An operator deleted the company',
  company_lapse: 'The company was deleted because nobody verified it',
  subscription_set: 'An operator changed the subscription',
  keys_rotate: 'An operator added a key for access tokens',
  keys_retire: 'An operator retired a key for access tokens',
  client_create: 'An operator created a platform client',
  client_rotate: 'An operator issued a new secret for a platform client, or ended the previous one',
  client_delete: 'An operator deleted a platform client',
  restored:
    'An operator restored a backup: all sessions ended, and links, invitations, and keys became invalid',
}
