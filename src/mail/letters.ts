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

/**
 * Emails with a link. Others are in notices.ts. To add one, write it here or there, add its kind to the check of
 * `mail_outbox` in a migration, and queue it in the event's transaction, with the client's network if a stranger
 * can cause it. Anyone can register any email under any name, so an unproven email gets only an inviter's text.
 */

export interface Letter {
  name: string | undefined
  subject: string
  paragraphs: string[]
  links?: { label: string; url: string }[]
}

/** `page` is the path of the page that posts the token, `label` the link's text. */
interface LinkedLetter {
  purpose: TokenPurpose
  page: string
  label: string
  write(context: LetterContext, until: string): Text
}

const UNDO = { purpose: 'undo', page: 'undo', label: "This wasn't me: undo it" } as const

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
    ...UNDO,
    write: (context, until) => [
      `A second factor was added to your account at ${context.companyName}`,
      `${factorOf(context)} was added to your account, ${requestedFrom(context)}. It is your first one, and your other sessions have ended. If that was you, do nothing. If not, undo it at once:`,
      undoneBy(until),
    ],
  },
  email_changed_without_factor: {
    ...UNDO,
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

/** Breaks up links in text that a user chose. */
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

/** Text that a user chose is escaped and never becomes markup. */
export function renderLetter({ name, subject, paragraphs, links = [] }: Letter) {
  const [first = '', ...rest] = paragraphs
  const greeting = name === undefined ? 'Hello,' : `Hello ${name},`
  const text = [greeting, first, ...links.map(({ label, url }) => `${label}:\n${url}`), ...rest]
  const html = [
    paragraph(greeting),
    paragraph(first),
    ...links.flatMap(({ label, url }) => [
      `<p><a href="${escapeHtml(url)}" style="${BUTTON}">${escapeHtml(label)}</a></p>`,
      `<p style="font-size:13px">Or open this address: <span style="word-break:break-all">${escapeHtml(url)}</span></p>`,
    ]),
    ...rest.map(paragraph),
  ]
  return {
    // Mail programs would decode an encoded word (RFC 2047) that a user chose.
    subject: subject.replaceAll('=?', '= ?'),
    text: `${text.join('\n\n')}\n`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark">${NO_LINKS}<title>${escapeHtml(subject)}</title></head>
<body style="font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:2em auto;padding:0 1em">
${html.join('\n')}
</body>
</html>
`,
  }
}

/** Stops Apple Mail from linking phone numbers and addresses. */
const NO_LINKS = '<meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no">'

const BUTTON =
  'display:inline-block;padding:0.5em 1em;border-radius:6px;background:#1d4ed8;color:#ffffff;text-decoration:none'

function paragraph(text: string): string {
  return `<p>${escapeHtml(text)}</p>`
}

/** Separators in URLs, domains (UTS 46), and emails, before a visible character. */
const JOINS = /[.\u3002\uff0e\uff61@\uff20:\uff1a](?=[^\s\u200a])/g

/** A hair space, unlike a zero-width space, ends a word in every mail program. */
function withoutLinks(text: string): string {
  return text.replace(JOINS, '$&\u200a')
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
}
