import type { ACTIONS as SERVICE_ACTIONS } from '../audit/entry.ts'
import type { PERMISSIONS } from '../company/account.ts'
import type { EndReason } from '../errors.ts'

/** Words for names that the API uses. A new name does not compile without its words. */

/** Names the operator too, because the reader can be the only admin. */
export const ADMIN = 'an admin of your company or your gatehouse operator'

export const ENDED: Record<EndReason, string> = {
  logout: "You're signed out.",
  expired: 'You were signed out because you were inactive, or signed in for too long.',
  refresh_reuse: 'This session was ended as a precaution. Sign in again.',
  password_changed: 'Your password was changed elsewhere. Sign in with the new one.',
  password_reset: 'Your password was reset. Sign in with the new one.',
  superseded: 'This session was ended because you have too many active sessions. Sign in again.',
  user_disabled: 'Your account is disabled. Contact an admin of your company.',
  user_deleted: "Your account was deleted. If you didn't do this, contact an admin of your company.",
  company_suspended: `Your company is suspended. Contact ${ADMIN}.`,
  ended_by_user:
    'You ended this session from a different one, or changed your second factors there. Sign in again.',
  ended_by_admin: 'An admin of your company ended this session. Sign in again.',
  ended_by_operator: 'A gatehouse operator ended this session. Sign in again.',
  reauthentication_failed: 'This session was ended after too many wrong passwords or codes. Sign in again.',
}

export const ROLES = ['admin', 'analyst', 'auditor', 'developer', 'viewer'] as const
export type Role = (typeof ROLES)[number]
export const isRole = (text: string | undefined): text is Role => ROLES.some((role) => role === text)

export const CAN: Record<Role, string> = {
  admin: 'Can do everything, including managing members, secrets, and settings.',
  analyst: 'Assesses risks, reviews cases, and gives feedback.',
  auditor: "Views and downloads the audit log, but can't change anything.",
  developer: 'Assesses risks through the API, and views analytics and received events.',
  viewer: "Views risks and analytics, but can't change anything.",
}

export const MAY: Record<string, string> = {
  'risk:read': 'view risks',
  'risk:assess': 'assess risks',
  'reviews:manage': 'review cases',
  'feedback:write': 'give feedback',
  'graph:read': 'view the graph',
  'analytics:read': 'view analytics',
  'webhook-secret:manage': 'manage the signing secret',
  'policy:manage': 'manage policies',
  'billing:manage': 'manage billing',
  'members:manage': 'manage members and the company',
  'audit:read': 'view the audit log',
  'events:inspect': 'view received events',
} satisfies Record<(typeof PERMISSIONS)[number], string>

/** Actions of the audit log that a company can have, in groups. */
export const ACTION_GROUPS = {
  'Sign-ins and sessions': {
    sign_in: 'signed in',
    second_factor: 'entered a second factor',
    recovery_code: 'used a recovery code',
    reauthenticate: "confirmed it's them",
    refresh: 'refreshed a session',
    logout: 'signed out',
    logout_all: 'signed out everywhere',
    session_end: 'ended a session',
    sessions_end: 'ended sessions',
  },
  Accounts: {
    register: 'registered the company',
    verify_email: 'confirmed their email',
    password_change: 'changed their password',
    password_reset: 'reset their password',
    password_void: 'lost their password after too many wrong codes',
    name_change: 'changed their name',
    email_change_request: 'requested a new email',
    email_change_withdraw: 'withdrew the request for a new email',
    email_change: 'changed their email',
    mailbox_code: 'requested a code by email',
    undo: 'undid a change to an account',
  },
  'Second factors': {
    second_factor_add: 'added a second factor',
    second_factor_remove: 'removed a second factor',
    recovery_codes: 'created recovery codes',
    second_factors_reset: 'reset the second factors of',
    security_policy: 'changed the security settings',
  },
  Members: {
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
  },
  Company: {
    signing_secret_regenerate: 'created a signing secret',
    events_watch: 'started to watch events',
    company_create: 'created the company, with',
    company_change: 'changed the name or handle of the company',
    company_suspend: 'suspended the company',
    company_resume: 'resumed the company',
    subscription_set: 'changed the subscription',
  },
}

export const ACTIONS: Record<keyof typeof SERVICE_ACTIONS, string> = {
  ...ACTION_GROUPS['Sign-ins and sessions'],
  ...ACTION_GROUPS.Accounts,
  ...ACTION_GROUPS['Second factors'],
  ...ACTION_GROUPS.Members,
  ...ACTION_GROUPS.Company,
  company_delete: 'deleted the company',
  company_lapse: 'deleted the company, which was never verified',
  sessions_end_all: 'ended all sessions',
  keys_rotate: 'added an access token key',
  keys_retire: 'retired an access token key',
  client_create: 'added the platform client',
  client_rotate: 'replaced a secret of the platform client',
  client_delete: 'deleted the platform client',
  restored: 'restored a backup',
}
