import type { TokenPurpose } from '../database/schema.ts'
import {
  additionsOf,
  factorOf,
  type LetterContext,
  NOTICES,
  requestedFrom,
  type Text,
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

/** `page` is the path below the public URL that posts the token, `label` the text of the link. */
interface LinkedLetter {
  purpose: TokenPurpose
  page: string
  label: string
  write(context: LetterContext, until: string): Text
}

export const LINKED_LETTERS = {
  verify_email: {
    purpose: 'verify',
    page: 'verify-email',
    label: 'Confirm the address',
    write: (context, until) => [
      'Confirm your email address',
      `Somebody gave this email address for a new account, ${requestedFrom(context)}. Confirm that it is yours, and you can sign in:`,
      `The link works once, until ${until}. If it was not you, do nothing: without it nobody can sign in.`,
    ],
  },
  password_reset: {
    purpose: 'reset',
    page: 'reset-password',
    label: 'Choose a new password',
    write: (context, until) => [
      context.isProven ? `Reset your password for ${context.companyName}` : 'Reset your password',
      context.isPasswordVoid
        ? 'Your password does not work any more, as another email explains. To choose a new one:'
        : `Somebody asked to reset your password, ${requestedFrom(context)}. To choose a new one:`,
      context.isPasswordVoid
        ? `The link works once, until ${until}. After that, ask for another one with “Forgot password”.`
        : `The link works once, until ${until}. If it was not you, do nothing: your password stays as it is.`,
      ...additionsOf(context),
    ],
  },
  invitation: {
    purpose: 'invite',
    page: 'accept-invitation',
    label: 'Accept the invitation',
    write: ({ companyName, role, invitedBy = 'An operator' }, until) => [
      `Your invitation to ${companyName}`,
      `${invitedBy} invites you to ${companyName}, with the role ${role}.`,
      `The link works once, until ${until}. If you do not know ${companyName}, do nothing.`,
    ],
  },
  first_factor_added: {
    purpose: 'undo',
    page: 'undo',
    label: "This wasn't me: undo it",
    write: (context, until) => [
      `A second factor was added to your account at ${context.companyName}`,
      `${factorOf(context)} was added to your account, ${requestedFrom(context)}. It is your first one, and your other sessions have ended. If that was you, do nothing. If not, undo it at once:`,
      undoneBy(until),
    ],
  },
  email_changed_without_factor: {
    purpose: 'undo',
    page: 'undo',
    label: "This wasn't me: undo it",
    write: (context, until) => [
      `The email address of your account at ${context.companyName} was changed`,
      `The email address of your account was changed, ${requestedFrom(context)}. You sign in with the new one now, and email goes to it. If that was you, do nothing. If not, undo it at once:`,
      undoneBy(until),
    ],
  },
  email_change: {
    purpose: 'confirm',
    page: 'confirm-email',
    label: 'Confirm the address',
    write: (context, until) => [
      'Confirm your new email address',
      `Somebody gave this email address as the new one of their account, ${requestedFrom(context)}. Confirm that it is yours, and you sign in with it from then on:`,
      `The link works once, until ${until}. If it was not you, do nothing: without it nothing changes.`,
    ],
  },
} as const satisfies Record<string, LinkedLetter>

export type LinkedKind = keyof typeof LINKED_LETTERS
export type MailKind = LinkedKind | keyof typeof NOTICES
export const MAIL_KINDS = [...Object.keys(LINKED_LETTERS), ...Object.keys(NOTICES)]

export function isLinked(kind: MailKind): kind is LinkedKind {
  return kind in LINKED_LETTERS
}

export function writeLinkedLetter(
  kind: LinkedKind,
  context: LetterContext,
  { url, until }: { url: string; until: Date },
): Letter {
  const { label, write } = LINKED_LETTERS[kind]
  const shown = harmless(context)
  return { ...toLetter(shown, write(shown, toText(until))), links: [{ label, url }] }
}

export function writeNotice(kind: keyof typeof NOTICES, context: LetterContext): Letter {
  const shown = harmless(context)
  const letter = toLetter(shown, NOTICES[kind](shown))
  if (kind !== 'companies') return letter
  const { companies = [] } = shown
  const links = companies.map(({ name, signInName, url }) => ({ label: `${name} (${signInName})`, url }))
  return { ...letter, name: undefined, links }
}

function toLetter({ name, isProven, signInName }: LetterContext, [subject, ...paragraphs]: Text): Letter {
  if (signInName !== undefined) paragraphs.push(`To sign in, type this as the company: ${signInName}`)
  return { name: isProven ? name : undefined, subject, paragraphs }
}

function undoneBy(until: string): string {
  return `The link works once, until ${until}. It gives your account this address again, removes its password and all its second factors, and ends all its sessions. Then another email has a link to choose a new password.`
}

/** Without links in what a user chose. */
function harmless(context: LetterContext): LetterContext {
  const { name, companyName, invitedBy, userAgent, companies, factor, additions, admin } = context
  return {
    ...context,
    name: withoutLinks(name),
    companyName: withoutLinks(companyName),
    invitedBy: invitedBy && withoutLinks(invitedBy),
    userAgent: userAgent && withoutLinks(userAgent),
    companies: companies?.map((one) => ({ ...one, name: withoutLinks(one.name) })),
    factor: factor && { ...factor, name: withoutLinks(factor.name) },
    additions: additions && {
      ...additions,
      members: additions.members.map(harmlessPerson),
      serviceAccounts: additions.serviceAccounts.map(harmlessPerson),
    },
    admin: admin && { ...harmlessPerson(admin), reason: withoutLinks(admin.reason) },
  }
}

function harmlessPerson<Person extends { name: string; email: string }>(person: Person): Person {
  return { ...person, name: withoutLinks(person.name), email: withoutLinks(person.email) }
}
