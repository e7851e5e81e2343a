import {
  isLinked,
  LINKED_LETTERS,
  type MailKind,
  renderLetter,
  writeLinkedLetter,
  writeNotice,
} from '../../src/mail/letters.ts'
import { type LetterContext, NOTICES } from '../../src/mail/notices.ts'

export const KINDS = [...Object.keys(LINKED_LETTERS), ...Object.keys(NOTICES)] as MailKind[]
const LINK = { url: 'https://auth.example.com/page#token=x', until: new Date(0) }
const COMPANY_URL = 'https://auth.example.com/sign-in#company=acme'
export const SINCE = new Date(0).toISOString()

/** All that an email can show, with this text in each value that users choose. */
export function contextOf(text: string): LetterContext {
  const account = { id: '1', email: text, name: text, role: 'viewer' }
  return {
    companyName: text,
    signInName: 'acme',
    name: text,
    isProven: true,
    requestedAt: new Date(0),
    role: 'analyst',
    invitedBy: text,
    userAgent: text,
    code: '12345678',
    factor: { kind: 'passkey', name: text },
    companies: [{ name: text, signInName: 'acme', url: COMPANY_URL }],
    admin: { name: text, email: text, reason: `The role comes from ${text}.` },
    additions: { members: [account], serviceAccounts: [account], signingSecret: null },
    additionsSince: SINCE,
  }
}

export function write(kind: MailKind, context: LetterContext) {
  const letter = isLinked(kind) ? writeLinkedLetter(kind, context, LINK) : writeNotice(kind, context)
  return { ...renderLetter(letter), links: letter.links ?? [] }
}
