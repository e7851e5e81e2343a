import type { SignInRefusal } from '../../audit/entry.ts'
import { durationOf, formats, LOCALE } from '../parts.tsx'
import type { AuditEntry } from '../routes.ts'
import { ACTIONS } from '../words.ts'

/** Audit log entries in words. Unknown names are shown as they are. */

type Words = Partial<Record<string, string>>

const DETAILS: Words = {
  secondFactor: 'second factor',
  sessionIdleSeconds: 'idle limit',
  sessionMaxAgeSeconds: 'maximum session age',
  invitationsWithdrawn: 'invitations withdrawn',
  superseded: 'older sessions ended',
  codesLeft: 'codes left',
}

/** Authentication methods (RFC 8176). Values that the others imply have no words. */
const METHODS: Words = {
  passkey: 'passkey',
  totp: 'authenticator app',
  recovery_code: 'recovery code',
  mailed_code: 'code from an email',
  pwd: 'password',
  otp: 'code',
  hwk: 'passkey',
  swk: 'passkey',
}

const REASONS: Words & Record<SignInRefusal, string> = {
  unknown_company: 'no such company',
  company_suspended: 'the company is suspended',
  unknown_user: 'no user has this email',
  user_disabled: 'the member is disabled',
  locked_out: 'too many wrong passwords; known devices can still sign in',
  wrong_password: 'wrong password',
  email_not_verified: "the email isn't confirmed",
  token_mode_only: 'a service account tried to sign in as a browser',
  factor_missing: 'correct password, but no second factor',
  other: 'several reasons',
  refused: 'wrong email or password',
  wrong_factor: 'wrong code or passkey',
  unknown_passkey: 'unknown passkey',
  challenge_void: 'too late, or already used',
}

/** Failed actions, by action and outcome: the words before and after the subject. */
const NOT_DONE: Partial<Record<string, [before: string, after: string]>> = {
  'sign_in refused': ['tried to sign in', 'and was refused'],
  'second_factor refused': ['entered a wrong second factor', 'and was refused'],
  'reauthenticate refused': ["tried to confirm it's them", 'and was refused'],
  'password_change refused': ['tried to change their password', 'and was refused'],
  'refresh reused': ['used a refresh token twice, so the session was ended', ''],
  'refresh raced': ['used a refresh token twice at the same time', ''],
  'session_end superseded': ['had too many sessions, so the oldest one was ended', ''],
  'session_end reauthentication_failed': [
    'entered too many wrong passwords or codes, so the session was ended',
    '',
  ],
}

/** The words before and after the subject. */
export function whatOf({ action, outcome, subject }: AuditEntry): [before: string, after: string] {
  const done = (ACTIONS as Words)[action] ?? action
  if (action.startsWith('invite') && subject === null) return [done, 'someone whose email was deleted']
  if (outcome === 'done') return [done, '']
  const [before, after] = NOT_DONE[`${action} ${outcome}`] ?? [done, `(${outcome})`]
  return [action === 'sign_in' && subject !== null ? `${before} as` : before, after]
}

/** The reason for a refusal, and the number of sign-ins that the entry sums up. */
export function whyOf({ reason, count = 1 }: AuditEntry): string | null {
  const why = reason === undefined ? [] : [REASONS[reason] ?? reason]
  const times = count > 1 ? [`${count.toLocaleString(LOCALE)} times`] : []
  return [...why, ...times].join(', ') || null
}

export function detailsOf({ details }: AuditEntry): string | null {
  if (details === null) return null
  const { before = {}, after = {}, ...others }: Changes = { ...details }
  const changes = Object.entries(after).map(
    ([name, value]) =>
      `${DETAILS[name] ?? name} from ${settingOf(name, before[name])} to ${settingOf(name, value)}`,
  )
  return [...changes, ...Object.entries(others).map(([name, value]) => saidOf(name, value))].join('; ')
}

const CODE_USES: Words = {
  factor: 'to add a second factor',
  email: 'to change their email',
  admin: 'to make someone an admin',
}

interface Changes extends Record<string, unknown> {
  before?: Record<string, unknown>
  after?: Record<string, unknown>
}

function saidOf(name: string, value: unknown): string {
  switch (name) {
    case 'kind':
      return methodsOf(value)
    case 'method':
    case 'methods':
      return `by ${methodsOf(value)}`
    case 'reason':
      return REASONS[String(value)] ?? textOf(value)
    case 'operator':
      return `by ${textOf(value)}`
    case 'previousExpiresAt':
      return `the previous one works until ${formats.minute.format(new Date(String(value)))}`
    case 'for':
      return CODE_USES[String(value)] ?? textOf(value)
    default:
      return `${DETAILS[name] ?? name}: ${textOf(value)}`
  }
}

const settingOf = (name: string, value: unknown) =>
  name.endsWith('Seconds') ? (typeof value === 'number' ? durationOf(value) : 'default') : textOf(value)
const textOf = (value: unknown) => [value ?? []].flat().join(', ') || 'none'
/** Leaves out methods that the others imply, such as `mfa` or `user`. */
const methodsOf = (value: unknown) =>
  [value]
    .flat()
    .flatMap((method) => METHODS[String(method)] ?? [])
    .join(' and ')

/** The subject is a second factor, whose ID means nothing to readers. */
export const isOfFactor = (action: string) =>
  action === 'second_factor_add' || action === 'second_factor_remove'
