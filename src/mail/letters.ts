import type { TokenPurpose } from '../database/schema.ts'
import {
  type Additions,
  additionsOf,
  factorOf,
  type LetterContext,
  NOTICES,
  requestedFrom,
  toText,
} from './notices.ts'
import { type Letter, withoutLinks } from './render.ts'

/**
 * The text of mails with a link; the others are in notices.ts. For a new one, add it here or there, add its kind to the
 * check of `mail_outbox` in a migration, and call `queueMail` in the transaction of the event that it reports, with the
 * network of the client if a stranger can cause it. member/compose-mail.ts drops it unless its recipient is active.
 *
 * Anyone can register any e-mail under any name, so mail to an unproven e-mail has no chosen text but an inviter's, and
 * chosen text becomes neither markup nor a link.
 */

interface Link {
  url: string
  until: Date
}

/** `page` is the path below the public URL that posts the token. */
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
      subject: 'Confirm your email address',
      paragraphs: [
        `Somebody gave this email address for a new account, ${requestedFrom(context)}. Confirm that it is yours, and you can sign in:`,
        `The link works once, until ${toText(link.until)}. If it was not you, do nothing: without it nobody can sign in.`,
      ],
      links: [{ label: 'Confirm the address', url: link.url }],
    }),
  },
  password_reset: {
    purpose: 'reset',
    page: 'reset-password',
    write: ({ name, companyName, isProven, isPasswordVoid, ...context }, link) => ({
      name: isProven ? name : undefined,
      subject: isProven ? `Reset your password for ${companyName}` : 'Reset your password',
      paragraphs: [
        isPasswordVoid
          ? 'Your password does not work any more, as another email explains. To choose a new one:'
          : `Somebody asked to reset your password, ${requestedFrom(context)}. To choose a new one:`,
        isPasswordVoid
          ? `The link works once, until ${toText(link.until)}. After that, ask for another one with “Forgot password”.`
          : `The link works once, until ${toText(link.until)}. If it was not you, do nothing: your password stays as it is.`,
        ...additionsOf({ ...context, name, companyName, isProven }),
      ],
      links: [{ label: 'Choose a new password', url: link.url }],
    }),
  },
  invitation: {
    purpose: 'invite',
    page: 'accept-invitation',
    write: ({ companyName, role, invitedBy }, link) => ({
      name: undefined,
      subject: `Your invitation to ${companyName}`,
      paragraphs: [
        `${invitedBy ?? 'An operator'} invites you to ${companyName}, with the role ${role}.`,
        `The link works once, until ${toText(link.until)}. If you do not know ${companyName}, do nothing.`,
      ],
      links: [{ label: 'Accept the invitation', url: link.url }],
    }),
  },
  first_factor_added: {
    purpose: 'undo',
    page: 'undo',
    write: (context, link) => ({
      name: context.name,
      subject: `A second factor was added to your account at ${context.companyName}`,
      paragraphs: [
        `${factorOf(context)} was added to your account, ${requestedFrom(context)}. It is your first one, and your other sessions have ended. If that was you, do nothing. If not, undo it at once:`,
        undoneBy(link),
      ],
      links: [{ label: "This wasn't me: undo it", url: link.url }],
    }),
  },
  email_changed_without_factor: {
    purpose: 'undo',
    page: 'undo',
    write: (context, link) => ({
      name: context.name,
      subject: `The email address of your account at ${context.companyName} was changed`,
      paragraphs: [
        `The email address of your account was changed, ${requestedFrom(context)}. You sign in with the new one now, and email goes to it. If that was you, do nothing. If not, undo it at once:`,
        undoneBy(link),
      ],
      links: [{ label: "This wasn't me: undo it", url: link.url }],
    }),
  },
  email_change: {
    purpose: 'confirm',
    page: 'confirm-email',
    write: (context, link) => ({
      name: undefined,
      subject: 'Confirm your new email address',
      paragraphs: [
        `Somebody gave this email address as the new one of their account, ${requestedFrom(context)}. Confirm that it is yours, and you sign in with it from then on:`,
        `The link works once, until ${toText(link.until)}. If it was not you, do nothing: without it nothing changes.`,
      ],
      links: [{ label: 'Confirm the address', url: link.url }],
    }),
  },
} as const satisfies Record<string, LinkedLetter>

export function writeLinkedLetter(kind: LinkedKind, context: LetterContext, link: Link): Letter {
  const letter = LINKED_LETTERS[kind].write(harmless(context), link)
  return { ...letter, paragraphs: [...letter.paragraphs, ...howToSignIn(context)] }
}

export function writeNotice(kind: keyof typeof NOTICES, context: LetterContext): Letter {
  const shown = harmless(context)
  const { paragraphs, ...notice } = NOTICES[kind](shown)
  return { name: shown.name, ...notice, paragraphs: [...paragraphs, ...howToSignIn(context)] }
}

function howToSignIn({ signInName }: LetterContext): string[] {
  return signInName === undefined ? [] : [`To sign in, type this as the company: ${signInName}`]
}

function harmless({
  name,
  companyName,
  invitedBy,
  userAgent,
  companies,
  factor,
  additions,
  admin,
  ...context
}: LetterContext): LetterContext {
  return {
    ...context,
    additions: additions && harmlessAdditions(additions),
    admin: admin && {
      name: withoutLinks(admin.name),
      email: withoutLinks(admin.email),
      reason: withoutLinks(admin.reason),
    },
    factor: factor && { ...factor, name: withoutLinks(factor.name) },
    companies: companies?.map((one) => ({ ...one, name: withoutLinks(one.name) })),
    name: withoutLinks(name),
    companyName: withoutLinks(companyName),
    invitedBy: invitedBy && withoutLinks(invitedBy),
    userAgent: userAgent && withoutLinks(userAgent),
  }
}

function harmlessAdditions({ members, serviceAccounts, ...additions }: Additions): Additions {
  const harmlessOnes = (added: Additions['members']) =>
    added.map(({ name, email, ...one }) => ({ ...one, name: withoutLinks(name), email: withoutLinks(email) }))
  return {
    ...additions,
    members: harmlessOnes(members),
    serviceAccounts: harmlessOnes(serviceAccounts),
  }
}

export type LinkedKind = keyof typeof LINKED_LETTERS
export type MailKind = LinkedKind | keyof typeof NOTICES
export const MAIL_KINDS = [...Object.keys(LINKED_LETTERS), ...Object.keys(NOTICES)]

export function isLinked(kind: MailKind): kind is LinkedKind {
  return kind in LINKED_LETTERS
}

function undoneBy({ until }: Link): string {
  return `The link works once, until ${toText(until)}. It gives your account this address again, removes its password and all its second factors, and ends all its sessions. Then another email has a link to choose a new password.`
}
