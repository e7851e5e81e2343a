import type { ACTIONS as SERVICE_ACTIONS, SignInRefusal } from '../audit/entry.ts'
import type { PERMISSIONS } from '../company/account.ts'
import type { EndReason } from '../errors.ts'

/** What the interface names, in words for people. A name that is new there does not compile here without its words. */

/** Who can help: a reader can be the only admin. */
export const ADMIN = 'an admin of your company, or whoever runs gatehouse for you'

export const ENDED: Record<EndReason, string> = {
  logout: "You're signed out.",
  expired: 'You were signed out because you were inactive.',
  refresh_reuse: 'This session was ended to be safe. Sign in again.',
  password_changed: 'Your password was changed elsewhere. Sign in with the new one.',
  password_reset: 'Your password was reset. Sign in with the new one.',
  superseded: 'You have signed in so often elsewhere that this session was ended. Sign in again.',
  user_disabled: 'Your account is disabled. Ask an admin of your company.',
  user_deleted: 'Your account was deleted. Ask an admin of your company.',
  company_suspended: `Your company is suspended. Ask ${ADMIN}.`,
  ended_by_user:
    'This session was ended from another one of yours, or your second factors changed there. Sign in again.',
  ended_by_admin: 'An admin of your company ended this session. Sign in again.',
  ended_by_operator: 'This session was ended by the operators of gatehouse. Sign in again.',
  reauthentication_failed: 'There were too many wrong passwords or codes in this session. Sign in again.',
}

export const ROLES = ['admin', 'analyst', 'developer', 'viewer'] as const
export type Role = (typeof ROLES)[number]

/** What each role can do. */
export const CAN: Record<Role, string> = {
  admin: 'Can do everything, and manages members, secrets and settings.',
  analyst: 'Assesses risks, reviews cases and gives feedback.',
  developer: 'Assesses risks by program and sees analytics.',
  viewer: 'Sees risks and analytics, and changes nothing.',
}

/** What each permission allows. */
export const MAY: Record<string, string> = {
  'risk:read': 'see risks',
  'risk:assess': 'assess risks',
  'reviews:manage': 'review cases',
  'feedback:write': 'give feedback',
  'graph:read': 'see the graph',
  'analytics:read': 'see analytics',
  'webhook-secret:manage': 'manage the signing secret',
  'policy:manage': 'manage policies',
  'billing:manage': 'manage billing',
  'members:manage': 'manage members and the company',
  'audit:read': 'see the audit log',
} satisfies Record<(typeof PERMISSIONS)[number], string>

/** What each action of the audit log is called. */
export const ACTIONS: Record<keyof typeof SERVICE_ACTIONS, string> = {
  sign_in: 'signed in',
  second_factor: 'entered a second factor',
  recovery_code: 'used a recovery code',
  reauthenticate: "confirmed it's them",
  refresh: 'refreshed a session',
  logout: 'signed out',
  logout_all: 'signed out everywhere',
  session_end: 'ended a session',
  sessions_end: 'ended sessions',
  sessions_end_all: 'ended all sessions',
  register: 'registered the company',
  verify_email: 'confirmed their email',
  password_change: 'changed their password',
  password_reset: 'reset their password',
  password_void: 'lost their password after too many wrong codes',
  name_change: 'changed their name',
  email_change_request: 'asked for another email',
  email_change: 'changed their email',
  mailbox_code: 'asked for a code by email',
  undo: 'undid a change to an account',
  second_factor_add: 'added a second factor',
  second_factor_remove: 'removed a second factor',
  recovery_codes: 'created recovery codes',
  second_factors_reset: 'reset the second factors of',
  security_policy: 'changed who needs a second factor',
  invite: 'invited',
  invite_resend: 'invited again',
  invite_withdraw: 'withdrew the invitation of',
  accept_invitation: 'accepted an invitation',
  user_create: 'added',
  user_role: 'changed the role of',
  user_assignments: 'changed the assignments of',
  user_disable: 'disabled',
  user_enable: 'enabled',
  user_unlock: 'unlocked',
  user_delete: 'deleted',
  service_create: 'added the service account',
  service_password: 'replaced the password of',
  signing_secret_regenerate: 'created a signing secret',
  company_create: 'created the company, with',
  company_change: 'changed the name or handle of the company',
  company_suspend: 'suspended the company',
  company_resume: 'resumed the company',
  company_delete: 'deleted the company',
  company_lapse: 'deleted the company, which nobody had verified',
  subscription_set: 'changed the subscription',
  keys_rotate: 'added a key for access tokens',
  keys_retire: 'retired a key for access tokens',
  client_create: 'added the platform client',
  client_rotate: 'replaced a secret of the platform client',
  client_delete: 'deleted the platform client',
  restored: 'restored a backup',
}

/** What details are called. */
export const DETAILS: Record<string, string> = {
  method: 'by',
  methods: 'by',
  secondFactor: 'second factor',
  invitationsWithdrawn: 'invitations withdrawn',
  superseded: 'older sessions ended',
}

/** How somebody proved who they are (RFC 8176). What follows from the others has no words. */
export const METHODS: Record<string, string> = {
  passkey: 'passkey',
  totp: 'authenticator app',
  recovery_code: 'recovery code',
  pwd: 'password',
  otp: 'code',
  hwk: 'passkey',
  swk: 'passkey',
}

/** Why a sign-in was refused. */
export const REASONS: Record<SignInRefusal, string> = {
  unknown_company: 'no such company',
  company_suspended: 'the company is suspended',
  unknown_user: 'nobody has this email',
  user_disabled: 'the member is disabled',
  locked_out: 'too many wrong passwords; known devices can still sign in',
  wrong_password: 'wrong password',
  email_not_verified: "the email isn't confirmed",
  token_mode_only: 'a service account tried to sign in as a browser',
  factor_missing: 'right password, but the second factor never came',
  other: 'several reasons',
  refused: 'wrong email or password',
}
