import type { FactorKind, SecondFactorPolicy } from '../database/schema.ts'

/** Queued with an email. Other values are read from the account when it is sent. */
export interface MailData {
  ipAddress?: string | undefined
  userAgent?: string | undefined
  role?: string | undefined
  /** A member's name; undefined if an operator invites. */
  invitedBy?: string | undefined
  /** The user it is about, if the recipient can differ from their current email. */
  userId?: string | undefined
  /** The request for a new email used a second factor. */
  isFactorProven?: boolean | undefined
  invitationsWithdrawn?: number | undefined
  factor?: { kind: FactorKind; name: string } | undefined
  isPasswordVoid?: boolean | undefined
  /** Sent after verification, not on request. */
  isJustVerified?: boolean | undefined
  codesLeft?: number | undefined
  /** The session that requested the code; undefined if an earlier release queued the email. */
  sessionId?: string | undefined
  /** The letter lists what the account added to the company since then. */
  additionsSince?: string | undefined
  /** Members' ids; null for an operator. */
  newAdmin?: ({ userId: string } & ({ changedBy: string | null } | { invitedBy: string | null })) | undefined
  policy?: SecondFactorPolicy | undefined
}

interface Added {
  id: string
  email: string
  name: string
  role: string
}

/** Additions of an account to its company. A reset of the account does not remove them. */
export interface Additions {
  members: Added[]
  serviceAccounts: Added[]
  signingSecret: { version: number; createdAt: Date } | null
}

export interface LetterContext extends MailData {
  companyName: string
  /** The handle, or without one the ID. Undefined for an unverified email, and for several companies. */
  signInName?: string | undefined
  name: string
  /** If the email is not verified, a stranger may have chosen these names. */
  isProven: boolean
  companies?: { name: string; signInName: string; url: string }[] | undefined
  additions?: Additions | undefined
  admin?: { name: string; email: string; reason: string } | undefined
  /** Created when the email is sent. */
  code?: string | undefined
  requestedAt: Date
}

/** A line each. `what` names the time. */
export function requestedFrom({ ipAddress, requestedAt }: LetterContext, what = 'Time'): string {
  const time = `${what}: ${toText(requestedAt)}`
  return ipAddress === undefined ? time : `${time}\nIP address: ${ipAddress}`
}

/** 2026-11-20 10:15 UTC */
export function toText(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

export type Text = [subject: string, ...paragraphs: string[]]

export const IF_YOU = "If this was you, you don't need to do anything."

export const EMAIL_CHANGED =
  'The email address of your account was changed. You now sign in with the new address, and we send email to it.'

export const emailChangedAt = ({ companyName }: LetterContext) =>
  `The email address of your account at ${companyName} was changed`

/** Emails without a link to redeem. */
export const NOTICES = {
  password_changed: (context) => [
    `Your password for ${context.companyName} was changed`,
    'Your password was changed, and we signed you out everywhere else.',
    requestedFrom(context),
    IF_YOU,
    ifNotYou(context),
    ...withdrawnOf(context),
    ...additionsOf(context),
  ],
  sign_in_after_lockout: (context) => [
    `New sign-in to ${context.companyName} after too many wrong passwords`,
    'Someone entered too many wrong passwords for your account, so we locked it for a while. Now someone has signed in with the correct password.',
    `${requestedFrom(context)}${deviceOf(context)}`,
    IF_YOU,
    ifNotYou(context),
  ],
  password_guessing: (context) => [
    `Someone is guessing your password for ${context.companyName}`,
    "Someone entered many wrong passwords for your account within a few minutes, from different networks. For now, you can sign in only from networks and browsers you've used before.",
    requestedFrom(context, 'Last attempt'),
    "If this was you, or if you can't sign in, reset your password. You can do that from any network.",
    `If this wasn't you, contact ${adminOf(context)}.`,
  ],
  refresh_reuse: (context) => [
    `One of your sessions at ${context.companyName} was ended as a precaution`,
    "A refresh token was used twice. This usually means that the token was copied or that a program has a bug, so we ended the session. Your other sessions aren't affected.",
    requestedFrom(context, 'Second use'),
    'If this was your own program, make sure that it uses each refresh token only once, then sign in again.',
    `If this wasn't you, reset your password and contact ${adminOf(context)}.`,
  ],
  reauthentication_failed: (context) => [
    `One of your sessions at ${context.companyName} was ended`,
    "Someone in one of your sessions entered too many wrong passwords or codes when asked to confirm your identity, so we ended the session. Your other sessions aren't affected.",
    requestedFrom(context, 'Last attempt'),
    'If this was you, sign in again.',
    `If this wasn't you, someone else used your session. Reset your password and contact ${adminOf(context)}.`,
  ],
  email_change_requested: (context) => [
    `A new email address was requested for your account at ${context.companyName}`,
    'Someone who is signed in to your account asked to change its email address. Nothing changes until they open the link that we sent to the new address.',
    requestedFrom(context),
    'If this was you, open the link to finish the change.',
    ifNotYou(context),
  ],
  email_changed: (context) => [
    emailChangedAt(context),
    EMAIL_CHANGED,
    requestedFrom(context),
    IF_YOU,
    `If this wasn't you, contact ${adminOf(context)} immediately.`,
  ],
  email_restored: (context) => [
    `This email address was removed from an account at ${context.companyName}`,
    `The owner of an account at ${context.companyName} undid the change to this email address, so the account has its previous address again. Its password and second factors were removed.`,
    requestedFrom(context),
    'If this was you, use the link that we sent to the previous address to choose a new password.',
    `If this wasn't you, contact ${adminOf(context)}.`,
  ],
  second_factor_added: (context) => [
    `A second factor was added to your account at ${context.companyName}`,
    `${factorOf(context)} was added to your account, and we signed you out everywhere else.`,
    requestedFrom(context),
    IF_YOU,
    `If this wasn't you, contact ${adminOf(context)} immediately. They can reset your second factors and your password. A new password isn't enough to remove the second factor.`,
  ],
  second_factor_removed: (context) => [
    `A second factor was removed from your account at ${context.companyName}`,
    `${factorOf(context)} was removed from your account, and we signed you out everywhere else.`,
    requestedFrom(context),
    IF_YOU,
    ifNotYou(context),
  ],
  recovery_code_used: ({ codesLeft = 0, ...context }) => [
    `One of your recovery codes for ${context.companyName} was used`,
    `One of your recovery codes was used instead of a second factor. ${leftOf(codesLeft)}`,
    requestedFrom(context),
    IF_YOU,
    ifNotYou(context),
  ],
  recovery_codes_replaced: (context) => [
    `New recovery codes for your account at ${context.companyName}`,
    'New recovery codes were created for your account. Your previous codes no longer work.',
    requestedFrom(context),
    IF_YOU,
    ifNotYou(context),
  ],
  second_factors_reset: (context) => [
    `Your password and second factors for ${context.companyName} were reset`,
    'An admin or operator removed your password and all your second factors, and signed you out everywhere. Use the link in our other email to choose a new password. Then sign in and add a second factor again.',
    requestedFrom(context),
    `If you didn't request this, contact ${adminOf(context)}.`,
  ],
  code_guessing: (context) => [
    `Someone knows your password for ${context.companyName}`,
    'Someone entered your correct password many times, and then wrong codes instead of your second factor. Nobody got in. To protect your account, we turned off your password and signed you out everywhere. Your second factors still work.',
    requestedFrom(context, 'Last attempt'),
    'If this was you, choose a new password with the link in our other email.',
    "If this wasn't you, do the same, and choose a password that you don't use anywhere else.",
  ],
  second_factor_missing: (context) => [
    `Your password for ${context.companyName} was used without your second factor`,
    'Someone entered your correct password but no valid second factor, so the sign-in failed. We send this email at most once a day.',
    requestedFrom(context),
    "If this was you, you don't need to do anything. A sign-in that you don't finish looks the same, even right after you choose a new password.",
    "If this wasn't you, someone knows your password. Change it immediately to one that you don't use anywhere else.",
  ],
  mailbox_code: (context) => codeText('add your first second factor', context),
  email_change_code: (context) => codeText('change the email address of your account', context),
  admin_code: (context) => codeText(`make someone an admin of ${context.companyName}`, context),
  admin_added: ({ admin = NOBODY, ...context }) => [
    `${admin.name} is now an admin of ${context.companyName}`,
    `${admin.name} (${admin.email}) is now an admin of ${context.companyName} and can do everything there. ${admin.reason}`,
    requestedFrom(context),
    IF_EXPECTED,
    `If you don't know why this happened, change the role under Members and contact ${adminOf(context)}.`,
    TO_ADMINS,
  ],
  security_policy_changed: ({ policy = 'optional', ...context }) => [
    `Two-factor authentication at ${context.companyName} is now ${POLICIES[policy]}`,
    `Your company's policy was changed. A second factor is now ${POLICIES[policy]}. This takes effect immediately.`,
    ...(policy === 'optional' ? [] : ["Members who need one and don't have one must add it to continue."]),
    requestedFrom({ ...context, ipAddress: undefined }),
    IF_EXPECTED,
    "If you don't know why this happened, look under Activity and ask the other admins or your gatehouse operator.",
    TO_ADMINS,
  ],
  companies: ({ isJustVerified, ...context }) =>
    isJustVerified
      ? [
          'Your company is ready',
          'Your email address is confirmed. You can sign in with it here:',
          IN_PARENTHESES,
        ]
      : [
          'Your companies',
          'We received a request for a list of your companies. If this was you, choose where to sign in:',
          IN_PARENTHESES,
          "If this wasn't you, ignore this email. We sent it only to you.",
          requestedFrom(context),
        ],
} as const satisfies Record<string, (context: LetterContext) => Text>

const IF_EXPECTED = "If you expected this, you don't need to do anything."
const TO_ADMINS = "You get this email because you're an admin."
const IN_PARENTHESES = 'On the sign-in page, enter the part in parentheses as the company.'

const POLICIES: Record<SecondFactorPolicy, string> = {
  optional: 'optional',
  admins: 'required for admins',
  everyone: 'required for everyone',
}

export function factorOf({ factor }: LetterContext): string {
  return factor?.kind === 'passkey' ? `The passkey “${factor.name}”` : 'An authenticator app'
}

/** Mail servers log subjects, and locked phones show them and the first words, so the code comes later. */
function codeText(purpose: string, { code = '', ...context }: LetterContext): Text {
  return [
    `Your code for ${context.companyName}`,
    `We received a request to ${purpose}. If this was you, enter this code on the page where you requested it:`,
    `${code.slice(0, 4)} ${code.slice(4)}`,
    "The code works once, for 10 minutes. Don't enter it anywhere else.",
    requestedFrom(context),
    ifNotYou(context),
  ]
}

function withdrawnOf({ invitationsWithdrawn: count = 0 }: LetterContext): string[] {
  if (count === 0) return []
  const [were, them] =
    count === 1
      ? ['An invitation you had sent was', 'it']
      : [`${count} invitations you had sent were`, 'them']
  return [
    `${were} withdrawn, in case someone else sent ${them} in your name. You can send ${them} again from Members.`,
  ]
}

const NOBODY = { name: '', email: '', reason: '' }
const MAX_NAMED = 20

export function additionsOf({ additions, additionsSince, ...context }: LetterContext): string[] {
  const { members = [], serviceAccounts = [], signingSecret } = additions ?? {}
  const accountOf = ({ name, email, role }: Added) => `${name} (${email}), ${role}`
  const lines = [
    ...members.map((one) => `Joined by your invitation: ${accountOf(one)}`),
    ...serviceAccounts.map((one) => `Service account with a password you created: ${accountOf(one)}`),
    ...(signingSecret ? [`New signing secret: version ${signingSecret.version}`] : []),
  ]
  if (lines.length === 0 || additionsSince === undefined) return []
  const more = lines.length - MAX_NAMED
  return [
    `Since ${toText(new Date(additionsSince))}, your account added the following to ${context.companyName}. It stays until someone removes it:`,
    ...lines.slice(0, MAX_NAMED),
    ...(more > 0 ? [`And ${more} more: see Members.`] : []),
    `If you don't recognize something here, remove it under Members or Developer settings, or contact ${adminOf(context)}.`,
  ]
}

function leftOf(codesLeft: number): string {
  if (codesLeft === 0) return 'You have no codes left. Create new ones on your account page.'
  return `You have ${codesLeft} left.`
}

function deviceOf({ userAgent }: LetterContext): string {
  return userAgent ? `\nBrowser or program: “${userAgent}”` : ''
}

function ifNotYou(context: LetterContext): string {
  return `If this wasn't you, reset your password immediately and contact ${adminOf(context)}.`
}

/** Names the operator too, because the recipient can be the only admin. */
function adminOf({ companyName }: Pick<LetterContext, 'companyName'>): string {
  return `an admin of ${companyName} or your gatehouse operator`
}
