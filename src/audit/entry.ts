import { NIL_ID, newId, type System } from '../system.ts'

export interface AuditEntry {
  auditId: string
  occurredAt: Date
  action: string
  outcome: string
  /** A user's id, `operator`, or null if nobody proved who they are. Never an email. */
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
  // The minute has no room for more rows.
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
  second_factor: 'A second factor was wrong',
  recovery_code: 'A recovery code was used in place of a second factor',
  reauthenticate: 'A user proved again who they are, or tried',
  refresh: 'A refresh token was used twice: `reused` ended the session, `raced` did not',
  logout: 'A session was ended by its user',
  logout_all: 'All sessions of a user were ended by them',
  session_end:
    'One session was ended by its user from another; `superseded` by a new one, for lack of room; `reauthentication_failed` after too many wrong passwords or codes',
  sessions_end: 'Sessions of a member or of the whole company were ended',
  sessions_end_all: 'All sessions of all companies were ended',
  register: 'The company was registered',
  verify_email: 'The e-mail of a registration was proven',
  password_change: 'A user changed their password, or tried with a wrong one',
  password_reset: 'A user chose another password by a mailed link',
  password_void: 'A password is void after too many wrong codes',
  name_change: 'A user changed their name',
  email_change_request: 'A user asked for another e-mail',
  email_change: 'A user proved their new e-mail, which took the place of the old one',
  mailbox_code: 'A user asked for a mailed code',
  undo: 'Who reads the mail of a user took back a first second factor, or another e-mail',
  second_factor_add: 'A user added a second factor',
  second_factor_remove: 'A user removed a second factor',
  recovery_codes: 'A user made new recovery codes',
  second_factors_reset: 'The second factors of a member were reset',
  security_policy: 'The company changed who needs a second factor',
  invite: 'Somebody was invited',
  invite_resend: 'An invitation was sent again',
  invite_withdraw: 'An invitation was withdrawn',
  accept_invitation: 'Somebody accepted an invitation',
  user_create: 'An operator added a member',
  user_role: 'A member got another role',
  user_assignments: 'A member got other assignments',
  user_disable: 'A member was disabled',
  user_enable: 'A member was enabled again',
  user_unlock: 'An operator let a member sign in again after too many wrong passwords',
  user_delete: 'A member was deleted',
  service_create: 'A server of the company was added',
  service_password: 'A server of the company got another password',
  signing_secret_regenerate: 'The signing secret was made or replaced',
  company_create: 'An operator opened the company',
  company_change: 'The company got another name or handle',
  company_suspend: 'An operator suspended the company',
  company_resume: 'An operator resumed the company',
  company_delete: 'An operator deleted the company',
  company_lapse: 'The company was deleted, since nobody had verified it',
  subscription_set: 'An operator changed the subscription',
  keys_rotate: 'An operator added a key of access tokens',
  keys_retire: 'An operator retired a key of access tokens',
  client_create: 'An operator made a client of the platform',
  client_rotate: 'An operator gave a client of the platform another secret, or ended the former one',
  client_delete: 'An operator deleted a client of the platform',
  restored: 'An operator has restored a backup: all sessions ended, and links, invitations and keys are void',
}
