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
  /** A second factor was proven when a new email was requested. */
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

/** What an account added to its company. A reset of the account does not remove it. */
export interface Additions {
  members: Added[]
  serviceAccounts: Added[]
  signingSecret: { version: number; createdAt: Date } | null
}

export interface LetterContext extends MailData {
  companyName: string
  /** The handle, or without one the id. Undefined for an unproven email, and for several companies. */
  signInName?: string | undefined
  name: string
  /** If the email is not proven, a stranger may have chosen these names. */
  isProven: boolean
  companies?: { name: string; signInName: string; url: string }[] | undefined
  additions?: Additions | undefined
  admin?: { name: string; email: string; reason: string } | undefined
  /** Created when the email is sent. */
  code?: string | undefined
  requestedAt: Date
}

export function requestedFrom({ ipAddress, requestedAt }: LetterContext): string {
  return `${ipAddress === undefined ? '' : `from IP address ${ipAddress} `}on ${toText(requestedAt)}`
}

/** 2026-11-20 10:15 UTC */
export function toText(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

export type Text = [subject: string, ...paragraphs: string[]]

/** Emails without a link to redeem. */
export const NOTICES = {
  password_changed: (context) => [
    `Your password for ${context.companyName} was changed`,
    `Your password was changed, ${requestedFrom(context)}, and your other sessions have ended.`,
    ...withdrawnOf(context),
    ...additionsOf(context),
    ifNotYou(context),
  ],
  sign_in_after_lockout: (context) => [
    `New sign-in to ${context.companyName} after too many wrong passwords`,
    `Somebody tried so many wrong passwords for your account that it was locked for a while. Now there was a sign-in with the right one, ${requestedFrom(context)}.${deviceOf(context)}`,
    ifNotYou(context),
  ],
  password_guessing: (context) => [
    `Somebody is guessing your password for ${context.companyName}`,
    `There were many wrong passwords for your account within a few minutes, from different networks. The last one came ${requestedFrom(context)}. For a while, only networks and browsers from which you signed in before can sign in.`,
    `If you cannot sign in, reset your password: that works from everywhere. If you do not know why, tell ${adminOf(context)}.`,
  ],
  refresh_reuse: (context) => [
    `A session of yours at ${context.companyName} was ended to be safe`,
    `A refresh token of yours was used twice, the second time ${requestedFrom(context)}. A token is copied when that happens, or a program is at fault, so the session was ended. Your other sessions go on.`,
    `If you do not know why, reset your password, and tell ${adminOf(context)}.`,
  ],
  reauthentication_failed: (context) => [
    `A session of yours at ${context.companyName} was ended`,
    'Someone in a session of yours entered too many wrong passwords or codes when asked to confirm your identity. The session was ended. Your other sessions stay signed in.',
    `The last attempt came ${requestedFrom(context)}.`,
    `If this was you, sign in again. If this wasn't you, someone else used your session: reset your password, and tell ${adminOf(context)}.`,
  ],
  email_change_requested: (context) => [
    `Another email address for your account at ${context.companyName}`,
    `Somebody who is signed in as you asked to change the email address of your account, ${requestedFrom(context)}. Nothing changes until the link in an email to the new address is followed.`,
    ifNotYou(context),
  ],
  email_changed: (context) => [
    `The email address of your account at ${context.companyName} was changed`,
    `The email address of your account was changed, ${requestedFrom(context)}. You sign in with the new one now, and email goes to it.`,
    `If that was not you, tell ${adminOf(context)}, at once.`,
  ],
  email_restored: (context) => [
    `This address was removed from an account at ${context.companyName}`,
    `An account at ${context.companyName} had this email address. The owner of its former address has taken the change back, ${requestedFrom(context)}. The account has its former address again, and no password and no second factor until its owner chooses new ones.`,
    `If you do not know why, tell ${adminOf(context)}.`,
  ],
  second_factor_added: (context) => [
    `A second factor was added to your account at ${context.companyName}`,
    `${factorOf(context)} was added to your account, ${requestedFrom(context)}. Your other sessions have ended.`,
    `If that was not you, tell ${adminOf(context)}, at once: they can reset your second factors and your password. Another password alone does not remove it.`,
  ],
  second_factor_removed: (context) => [
    `A second factor was removed from your account at ${context.companyName}`,
    `${factorOf(context)} was removed from your account, ${requestedFrom(context)}. Your other sessions have ended.`,
    ifNotYou(context),
  ],
  recovery_code_used: ({ codesLeft = 0, ...context }) => [
    `A recovery code of yours was used at ${context.companyName}`,
    `A recovery code was used in place of your second factor, ${requestedFrom(context)}. ${leftOf(codesLeft)}`,
    ifNotYou(context),
  ],
  recovery_codes_replaced: (context) => [
    `New recovery codes for your account at ${context.companyName}`,
    `New recovery codes were made for your account, ${requestedFrom(context)}. Those of before do not work any more.`,
    ifNotYou(context),
  ],
  second_factors_reset: (context) => [
    `Your sign-in to ${context.companyName} was reset`,
    `An admin has removed your second factors and your password, on ${toText(context.requestedAt)}, and your sessions have ended. Another email has a link to choose a new password. Then sign in, and add a second factor again.`,
    `If you did not ask for this, tell ${adminOf(context)}.`,
  ],
  code_guessing: (context) => [
    `Somebody knows your password for ${context.companyName}`,
    `Somebody has given your right password many times, and then wrong codes in place of your second factor. The last one came ${requestedFrom(context)}. Nobody was let in. The password does not work any more, and all your sessions have ended. Your second factors stay as they are.`,
    'Another email has a link to choose a new password: take one that you use nowhere else.',
  ],
  second_factor_missing: (context) => [
    `Somebody gave your password for ${context.companyName}, and no right second factor`,
    `Somebody gave the right password of your account, ${requestedFrom(context)}, and then no right second factor. That sign-in let nobody in. You get this email once a day at most.`,
    'If that was you, do nothing: a sign-in that you begin and do not finish looks the same, also right after you choose a new password. If not, somebody knows your password: choose another one at once, which you use nowhere else.',
  ],
  mailbox_code: (context) => codeText('To add your first second factor, give this code', context),
  email_change_code: (context) =>
    codeText('To give your account another email address, give this code', context),
  admin_code: (context) =>
    codeText(`To make someone an admin of ${context.companyName}, enter this code`, context),
  admin_added: ({ admin = NOBODY, ...context }) => [
    `${admin.name} is now an admin of ${context.companyName}`,
    `${admin.name} (${admin.email}) is now an admin of ${context.companyName}, and can do everything there. ${admin.reason}`,
    `This happened ${requestedFrom(context)}.`,
    `You get this email because you are an admin. If you don't know why this happened, change the role under Members, and tell ${adminOf(context)}.`,
  ],
  security_policy_changed: ({ policy = 'optional', ...context }) => [
    `Second factors at ${context.companyName}: ${POLICIES[policy]}`,
    `The policy of your company was changed, on ${toText(context.requestedAt)}. A second factor is now ${POLICIES[policy]}. This applies immediately.`,
    'Anyone who needs one and does not have one yet must add it before they go on. You get this email because you are an admin. If you do not know why it was changed, look at the audit log, and ask the other admins, or whoever runs gatehouse for you.',
  ],
  companies: ({ isJustVerified, ...context }) => [
    isJustVerified ? 'Your company is ready' : 'Where you sign in',
    isJustVerified
      ? 'Your email address is confirmed. You can sign in with it here:'
      : `Somebody asked which companies this email address belongs to, ${requestedFrom(context)}. Choose where to sign in:`,
    'Where you are asked for the company, type the part in brackets.',
    ...(isJustVerified ? [] : ['If it was not you, do nothing: nobody else was told.']),
  ],
} as const satisfies Record<string, (context: LetterContext) => Text>

const POLICIES: Record<SecondFactorPolicy, string> = {
  optional: 'optional',
  admins: 'required of admins',
  everyone: 'required of everyone',
}

export function factorOf({ factor }: LetterContext): string {
  return factor?.kind === 'passkey' ? `The passkey “${factor.name}”` : 'An authenticator app'
}

/** The subject omits the code, because mail servers log subjects and locked phones show them. */
function codeText(purpose: string, { code = '', ...context }: LetterContext): Text {
  return [
    `Your code for ${context.companyName}`,
    `${purpose}: ${code.slice(0, 4)} ${code.slice(4)}`,
    `It works once, for 10 minutes. It was asked for ${requestedFrom(context)}. Type it on the page where you asked for it, and nowhere else.`,
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
    `${were} withdrawn, in case somebody else sent ${them} in your name. You can send ${them} again from Members.`,
  ]
}

const NOBODY = { name: '', email: '', reason: '' }
const MAX_NAMED = 20

export function additionsOf({ additions, additionsSince, ...context }: LetterContext): string[] {
  const { members = [], serviceAccounts = [], signingSecret } = additions ?? {}
  const accountOf = ({ name, email, role }: Added) => `${name} (${email}), ${role}`
  const lines = [
    ...members.map((one) => `Joined by your invitation: ${accountOf(one)}`),
    ...serviceAccounts.map((one) => `Service account with a password that you created: ${accountOf(one)}`),
    ...(signingSecret ? [`New signing secret: version ${signingSecret.version}`] : []),
  ]
  if (lines.length === 0 || additionsSince === undefined) return []
  const more = lines.length - MAX_NAMED
  return [
    `Since ${toText(new Date(additionsSince))}, your account added the following to ${context.companyName}. It stays until someone removes it:`,
    ...lines.slice(0, MAX_NAMED),
    ...(more > 0 ? [`And ${more} more: see Members.`] : []),
    `If some of this wasn't you, remove it under Members and Developer settings, or tell ${adminOf(context)}.`,
  ]
}

function leftOf(codesLeft: number): string {
  if (codesLeft === 0) return 'None is left: make new ones on your account page.'
  return `${codesLeft === 1 ? 'One is' : `${codesLeft} are`} left.`
}

function deviceOf({ userAgent }: LetterContext): string {
  return userAgent ? ` The device calls itself “${userAgent}”.` : ''
}

function ifNotYou(context: LetterContext): string {
  return `If that was not you, reset your password at once, and tell ${adminOf(context)}.`
}

/** Names the operator too, because the recipient can be the only admin. */
function adminOf({ companyName }: Pick<LetterContext, 'companyName'>): string {
  return `an admin of ${companyName}, or whoever runs gatehouse for you`
}
