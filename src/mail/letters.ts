import type { FactorKind, SecondFactorPolicy, TokenPurpose } from '../database/schema.ts'
import { type Letter, withoutLinks } from './render.ts'

/**
 * The text of each mail. To add one, add it here, add its kind to the check of `mail_outbox` in a migration, and
 * call `queueMail` (mail/service.ts) with the e-mail of its recipient, in the transaction of the event that it
 * reports, and with the network of the client if a stranger can cause it. When the mail is sent,
 * member/compose-mail.ts drops it unless that e-mail is of an active account.
 *
 * Anyone can register any e-mail under any name. So mail to an e-mail that nobody has proven has no text that
 * somebody chose; only an invitation says who invites. Chosen text becomes neither markup nor a link.
 */

/** The values that are queued with a mail. Other values are read from the account at sending time. */
export interface MailData {
  ipAddress?: string | undefined
  userAgent?: string | undefined
  role?: string | undefined
  /** The name of the member who invites. Without it, an operator does. */
  invitedBy?: string | undefined
  /** Whose e-mail changes: the recipient is not, or not only, their e-mail of today. */
  userId?: string | undefined
  /** The second factor that was added or removed. */
  factor?: { kind: FactorKind; name: string } | undefined
  /** How many recovery codes are left. */
  codesLeft?: number | undefined
  /** Of whom the company asks for a second factor now. */
  policy?: SecondFactorPolicy | undefined
}

/** All values that a letter can contain. */
export interface LetterContext extends MailData {
  companyId: string
  companyName: string
  /** The name of the recipient. */
  name: string
  /** Whether the recipient has proven the e-mail. Otherwise a stranger can have chosen these names. */
  isProven: boolean
  /** The companies of somebody who has forgotten them, with the pages on which to sign in. */
  companies?: { name: string; id: string; url: string }[] | undefined
  /** Proves the mailbox. Made when the mail is sent. */
  code?: string | undefined
  requestedAt: Date
}

interface Link {
  url: string
  until: Date
}

/** A letter with a link: the purpose of its token, and the page below the public URL that posts the token. */
interface LinkedLetter {
  purpose: TokenPurpose
  page: string
  write(context: LetterContext, link: Link): Letter
}

export const LINKED_LETTERS = {
  verify_email: {
    purpose: 'verify',
    page: 'verify-email',
    write: (context, link) => ({
      name: undefined,
      subject: 'Confirm your e-mail address',
      paragraphs: [
        `Somebody gave this e-mail address for a new account, ${askedFrom(context)}. Confirm that it is yours, and you can sign in:`,
        `The link works once, until ${toText(link.until)}. If it was not you, do nothing: without it nobody can sign in.`,
        companyLine(context),
      ],
      links: [{ label: 'Confirm the address', url: link.url }],
    }),
  },
  password_reset: {
    purpose: 'reset',
    page: 'reset-password',
    write: ({ name, companyName, isProven, ...context }, link) => ({
      name: isProven ? name : undefined,
      subject: isProven ? `Reset your password for ${companyName}` : 'Reset your password',
      paragraphs: [
        `Somebody asked to reset your password, ${askedFrom(context)}. To choose a new one:`,
        `The link works once, until ${toText(link.until)}. If it was not you, do nothing: your password stays as it is.`,
        companyLine(context),
      ],
      links: [{ label: 'Choose a new password', url: link.url }],
    }),
  },
  invitation: {
    purpose: 'invite',
    page: 'accept-invitation',
    write: ({ companyName, role, invitedBy, ...context }, link) => ({
      name: undefined,
      subject: `Your invitation to ${companyName}`,
      paragraphs: [
        `${invitedBy ?? 'An operator'} invites you to the account of ${companyName}, with the role ${role}.`,
        `The link works once, until ${toText(link.until)}. If you do not know ${companyName}, do nothing.`,
        companyLine(context),
      ],
      links: [{ label: 'Accept the invitation', url: link.url }],
    }),
  },
  second_factors_reset: {
    purpose: 'reset',
    page: 'reset-password',
    write: (context, link) => ({
      name: context.name,
      subject: `Your sign-in to ${context.companyName} was reset`,
      paragraphs: [
        `An administrator has removed your second factors and your password, on ${toText(context.requestedAt)}, and your sessions have ended. To choose a new password:`,
        `The link works once, until ${toText(link.until)}; after that, ask for another one with “Forgot password”. Then sign in, and add a second factor again.`,
        `If you did not ask for this, ask an administrator of ${context.companyName} who did.`,
        companyLine(context),
      ],
      links: [{ label: 'Choose a new password', url: link.url }],
    }),
  },
  code_guessing: {
    purpose: 'reset',
    page: 'reset-password',
    write: (context, link) => ({
      name: context.name,
      subject: `Somebody knows your password for ${context.companyName}`,
      paragraphs: [
        `Somebody has given your right password many times, and then wrong codes in place of your second factor. The last one came ${askedFrom(context)}. Nobody was let in, and the password does not work any more. To choose a new one:`,
        `The link works once, until ${toText(link.until)}; after that, ask for another one with “Forgot password”. Choose a password that you use nowhere else. Your second factors stay as they are.`,
        companyLine(context),
      ],
      links: [{ label: 'Choose a new password', url: link.url }],
    }),
  },
  email_change: {
    purpose: 'confirm',
    page: 'confirm-email',
    write: (context, link) => ({
      name: undefined,
      subject: 'Confirm your new e-mail address',
      paragraphs: [
        `Somebody gave this e-mail address as the new one of their account, ${askedFrom(context)}. Confirm that it is yours, and you sign in with it from then on:`,
        `The link works once, until ${toText(link.until)}. If it was not you, do nothing: without it nothing changes.`,
        companyLine(context),
      ],
      links: [{ label: 'Confirm the address', url: link.url }],
    }),
  },
} as const satisfies Record<string, LinkedLetter>

/** Letters that report an event and have no link. */
const NOTICES = {
  password_changed: (context) => ({
    name: context.name,
    subject: `Your password for ${context.companyName} was changed`,
    paragraphs: [
      `Your password was changed, ${askedFrom(context)}, and your other sessions have ended.`,
      ifNotYou(context),
    ],
  }),
  sign_in_after_lockout: (context) => ({
    name: context.name,
    subject: `New sign-in to ${context.companyName} after too many wrong passwords`,
    paragraphs: [
      `Somebody tried so many wrong passwords for your account that it was locked for a while. Now there was a sign-in with the right one, ${askedFrom(context)}.${deviceOf(context)}`,
      ifNotYou(context),
    ],
  }),
  password_guessing: (context) => ({
    name: context.name,
    subject: `Somebody is guessing your password for ${context.companyName}`,
    paragraphs: [
      `There were many wrong passwords for your account within a few minutes, from different networks. The last one came ${askedFrom(context)}. For a while, only networks and browsers from which you signed in before can sign in.`,
      `If you cannot sign in, reset your password: that works from everywhere. If you do not know why, tell an administrator of ${context.companyName}.`,
    ],
  }),
  refresh_reuse: (context) => ({
    name: context.name,
    subject: `A session of yours at ${context.companyName} was ended to be safe`,
    paragraphs: [
      `A refresh token of yours was used twice, the second time ${askedFrom(context)}. A token is copied when that happens, or a program is at fault, so the session was ended. Your other sessions go on.`,
      `If you do not know why, reset your password, and tell an administrator of ${context.companyName}.`,
    ],
  }),
  email_change_requested: (context) => ({
    name: context.name,
    subject: `Another e-mail address for your account at ${context.companyName}`,
    paragraphs: [
      `Somebody who is signed in as you asked to change the e-mail address of your account, ${askedFrom(context)}. Nothing changes until a link in a mail to the new address is followed.`,
      ifNotYou(context),
    ],
  }),
  email_changed: (context) => ({
    name: context.name,
    subject: `The e-mail address of your account at ${context.companyName} was changed`,
    paragraphs: [
      `The e-mail address of your account was changed, ${askedFrom(context)}. You sign in with the new one now, and mail goes to it.`,
      `If that was not you, tell an administrator of ${context.companyName} at once.`,
    ],
  }),
  second_factor_added: (context) => ({
    name: context.name,
    subject: `A second factor was added to your account at ${context.companyName}`,
    paragraphs: [
      `${factorOf(context)} was added to your account, ${askedFrom(context)}. Your other sessions have ended.`,
      ifNotYou(context),
    ],
  }),
  second_factor_removed: (context) => ({
    name: context.name,
    subject: `A second factor was removed from your account at ${context.companyName}`,
    paragraphs: [
      `${factorOf(context)} was removed from your account, ${askedFrom(context)}. Your other sessions have ended.`,
      ifNotYou(context),
    ],
  }),
  recovery_code_used: ({ codesLeft = 0, ...context }) => ({
    name: context.name,
    subject: `A recovery code of yours was used at ${context.companyName}`,
    paragraphs: [
      `A recovery code was used in place of your second factor, ${askedFrom(context)}. ${leftOf(codesLeft)}`,
      ifNotYou(context),
    ],
  }),
  recovery_codes_replaced: (context) => ({
    name: context.name,
    subject: `New recovery codes for your account at ${context.companyName}`,
    paragraphs: [
      `New recovery codes were made for your account, ${askedFrom(context)}. Those of before do not work any more.`,
      ifNotYou(context),
    ],
  }),
  second_factor_missing: (context) => ({
    name: context.name,
    subject: `Somebody gave your password for ${context.companyName}, and no second factor`,
    paragraphs: [
      `Somebody gave the right password of your account, from the address ${context.ipAddress ?? 'unknown'}, and did not go on with your second factor. Nobody was let in. You get this mail once a day at most.`,
      'If that was you, do nothing. If not, somebody knows your password: choose another one at once, which you use nowhere else.',
    ],
  }),
  mailbox_code: ({ code = '', ...context }) => ({
    name: context.name,
    subject: `${code.slice(0, 4)} ${code.slice(4)} is your code for ${context.companyName}`,
    paragraphs: [
      `Your company asks for a second factor. To add yours, give this code: ${code.slice(0, 4)} ${code.slice(4)}`,
      `It works once, for 10 minutes. It was asked for ${askedFrom(context)}. Give it to nobody: who asks you for it wants your account.`,
      ifNotYou(context),
    ],
  }),
  security_policy_changed: ({ policy = 'optional', ...context }) => ({
    name: context.name,
    subject: `Second factors at ${context.companyName}: ${POLICIES[policy]}`,
    paragraphs: [
      `The policy of your company was changed, on ${toText(context.requestedAt)}. A second factor is now ${POLICIES[policy]}. It holds at once.`,
      'You get this mail since you are an administrator.',
    ],
  }),
  companies: ({ companies = [], ...context }) => ({
    name: undefined,
    subject: 'Where you sign in',
    paragraphs: [
      `Somebody asked which companies this e-mail address belongs to, ${askedFrom(context)}. Choose where to sign in:`,
      'If it was not you, do nothing: nobody else was told.',
    ],
    links: companies.map(({ name, id, url }) => ({ label: `${name} (${id})`, url })),
  }),
} as const satisfies Record<string, (context: LetterContext) => Letter>

export function writeLinkedLetter(kind: LinkedKind, context: LetterContext, link: Link): Letter {
  return LINKED_LETTERS[kind].write(harmless(context), link)
}

export function writeNotice(kind: keyof typeof NOTICES, context: LetterContext): Letter {
  return NOTICES[kind](harmless(context))
}

/** No text that somebody chose becomes a link. */
function harmless({
  name,
  companyName,
  invitedBy,
  userAgent,
  companies,
  factor,
  ...context
}: LetterContext): LetterContext {
  return {
    ...context,
    factor: factor && { ...factor, name: withoutLinks(factor.name) },
    companies: companies?.map((one) => ({ ...one, name: withoutLinks(one.name) })),
    name: withoutLinks(name),
    companyName: withoutLinks(companyName),
    invitedBy: invitedBy && withoutLinks(invitedBy),
    userAgent: userAgent && withoutLinks(userAgent),
  }
}

/** The kinds of mail whose link resets a password. */
export const RESET_KINDS = Object.entries(LINKED_LETTERS)
  .filter(([, { purpose }]) => purpose === 'reset')
  .map(([kind]) => kind)

export type LinkedKind = keyof typeof LINKED_LETTERS
export type MailKind = LinkedKind | keyof typeof NOTICES

export function isLinked(kind: MailKind): kind is LinkedKind {
  return kind in LINKED_LETTERS
}

function companyLine({ companyId }: Pick<LetterContext, 'companyId'>): string {
  return `The id of the company, which signing in asks for: ${companyId}`
}

function askedFrom({
  ipAddress = 'unknown',
  requestedAt,
}: Pick<LetterContext, 'ipAddress' | 'requestedAt'>): string {
  return `from the address ${ipAddress} on ${toText(requestedAt)}`
}

const POLICIES: Record<SecondFactorPolicy, string> = {
  optional: 'optional',
  admins: 'required of administrators',
  everyone: 'required of everyone',
}

function factorOf({ factor }: LetterContext): string {
  return factor?.kind === 'passkey' ? `The passkey “${factor.name}”` : 'An authenticator app'
}

function leftOf(codesLeft: number): string {
  if (codesLeft === 0) return 'None is left: make new ones on your account page.'
  return `${codesLeft === 1 ? 'One is' : `${codesLeft} are`} left.`
}

function deviceOf({ userAgent }: LetterContext): string {
  return userAgent ? ` The device calls itself “${userAgent}”.` : ''
}

function ifNotYou({ companyName }: LetterContext): string {
  return `If that was not you, reset your password at once, and tell an administrator of ${companyName}.`
}

/** 2026-11-20 10:15 UTC */
function toText(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
