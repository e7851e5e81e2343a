import type { TokenPurpose } from '../database/schema.ts'
import {
  additionsOf,
  EMAIL_CHANGED,
  emailChangedAt,
  factorOf,
  IF_YOU,
  type LetterContext,
  NOTICES,
  requestedFrom,
  type Text,
  toText,
} from './notices.ts'

/**
 * Emails with a link. Others are in notices.ts. To add one, write it in one of these files, add its kind to the check of
 * `mail_outbox` in a migration, and queue it in the event's transaction. If a stranger can cause it, add the client's
 * network. Anyone can register any email under any name, so an unverified email gets only an inviter's text.
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

const UNDO = { purpose: 'undo', page: 'undo', label: 'Undo this change' } as const

export const LINKED_LETTERS = {
  verify_email: {
    purpose: 'verify',
    page: 'verify-email',
    label: 'Confirm email address',
    write: (context, until) => [
      'Confirm your email address',
      'Someone created an account with this email address. If this was you, confirm the address to sign in:',
      worksUntil(until),
      "If this wasn't you, ignore this email. Nobody can use the account until the address is confirmed.",
      requestedFrom(context),
    ],
  },
  password_reset: {
    purpose: 'reset',
    page: 'reset-password',
    label: 'Choose a new password',
    write: (context, until) => [
      context.isProven ? `Reset your password for ${context.companyName}` : 'Reset your password',
      ...(context.isPasswordVoid
        ? [
            'We turned off your password to protect your account, as a separate email explains. Choose a new one:',
            `${worksUntil(until)} After that, request a new one with “Forgot your password?” on the sign-in page.`,
          ]
        : [
            'We received a request to reset your password. If this was you, choose a new one:',
            worksUntil(until),
            "If this wasn't you, ignore this email. Your password stays the same.",
            requestedFrom(context),
          ]),
      ...additionsOf(context),
    ],
  },
  invitation: {
    purpose: 'invite',
    page: 'accept-invitation',
    label: 'Accept invitation',
    write: ({ companyName, role, invitedBy = 'A gatehouse operator' }, until) => [
      `Your invitation to join ${companyName}`,
      `${invitedBy} invited you to join ${companyName} with the ${role} role.`,
      worksUntil(until),
      `If you don't know ${companyName}, ignore this email.`,
    ],
  },
  first_factor_added: {
    ...UNDO,
    write: (context, until) => [
      `A second factor was added to your account at ${context.companyName}`,
      `${factorOf(context)} was added to your account as its first second factor, and we signed you out everywhere else. If this wasn't you, undo it now:`,
      ...undoneBy(until),
      requestedFrom(context),
    ],
  },
  email_changed_without_factor: {
    ...UNDO,
    write: (context, until) => [
      emailChangedAt(context),
      `${EMAIL_CHANGED} If this wasn't you, undo it now:`,
      ...undoneBy(until),
      requestedFrom(context),
    ],
  },
  email_change: {
    purpose: 'confirm',
    page: 'confirm-email',
    label: 'Confirm email address',
    write: (context, until) => [
      'Confirm your new email address',
      'We received a request to use this email address for an existing account. If this was you, confirm the address:',
      `${worksUntil(until)} After you confirm, sign in with this address instead of your previous one.`,
      "If this wasn't you, ignore this email. Nothing changes until the address is confirmed.",
      requestedFrom(context),
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
  const links = companies.map(({ name, signInName, url }) => ({
    label: `Sign in to ${name} (${signInName})`,
    url,
  }))
  return { ...letter, name: undefined, links }
}

function toLetter({ name, isProven, signInName }: LetterContext, [subject, ...paragraphs]: Text): Letter {
  if (signInName !== undefined) paragraphs.push(`To sign in, enter ${signInName} as the company.`)
  return { name: isProven ? name : undefined, subject, paragraphs }
}

const worksUntil = (until: string) => `The link works once, until ${until}.`

const undoneBy = (until: string) => [
  `${worksUntil(until)} Undoing removes the password and all second factors, signs everyone out, and keeps or restores this email address. Then we email you a link to choose a new password.`,
  IF_YOU,
]

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
      `<p style="font-size:13px">Or open this link: <span style="word-break:break-all">${escapeHtml(url)}</span></p>`,
    ]),
    ...rest.map(paragraph),
  ]
  return {
    // Email programs would decode an encoded word (RFC 2047) that a user chose.
    subject: subject.replaceAll('=?', '= ?'),
    text: `${text.join('\n\n')}\n`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">${NO_LINKS}<title>${escapeHtml(subject)}</title></head>
<body style="font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere;max-width:36em;margin:2em auto;padding:0 1em">
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
  return `<p>${escapeHtml(text).replaceAll('\n', '<br>')}</p>`
}

/** Separators in URLs, domains (UTS 46), and emails, before a visible character. */
const JOINS = /[.\u3002\uff0e\uff61@\uff20:\uff1a](?=[^\s\u200a])/g

/** A hair space, unlike a zero-width space, ends a word in every email program. */
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
