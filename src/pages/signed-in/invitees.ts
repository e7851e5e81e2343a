import { isRole, type Role } from '../words.ts'

export interface Invitee {
  email: string
  /** Undefined means the role that is selected for everyone. */
  role: Role | undefined
}

/** Names in quotes, addresses in angle brackets, even on their own line, words, and ends of entries. */
const TOKEN = /"[^"]*"|<[^<>\s]*>|[^\s,;<>"]+|;|\n(?!\s*<)/g
const AROUND = /^["'<]+(?:mailto:)?|["'>]+$/gi

/**
 * Without duplicates, in order, with the role that follows on the same line. Email programs copy "Lovelace, Ada
 * <ada@acme.example>": the words before an address in angle brackets are its name.
 */
export function inviteesIn(text: string): Invitee[] {
  const found = new Map<string, Invitee>()
  let last: Invitee | undefined
  /** Names, if an address in angle brackets follows. Otherwise, invalid emails. */
  let words: string[] = []

  function add(word: string): void {
    const email = word.replace(AROUND, '')
    if (email === '') return
    last = found.get(email.toLowerCase()) ?? { email, role: undefined }
    found.set(email.toLowerCase(), last)
  }
  function addWords(): void {
    for (const word of words) {
      if (last && isRole(word.toLowerCase())) last.role = word.toLowerCase() as Role
      else add(word)
    }
    words = []
  }
  for (const [token] of text.matchAll(TOKEN)) {
    const role = token.toLowerCase()
    if (token.startsWith('<')) {
      words = []
      add(token)
    } else if (token === ';' || token === '\n') {
      addWords()
      if (token === '\n') last = undefined
    } else if (last && isRole(role) && words.length === 0) {
      last.role = role
    } else if (token.includes('@') && !token.startsWith('"')) {
      addWords()
      add(token)
    } else words.push(token)
  }
  addWords()
  return [...found.values()]
}

export const toLine = ({ email, role }: Invitee) => (role ? `${email}, ${role}` : email)
