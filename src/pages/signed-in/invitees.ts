import type { Role } from '../words.ts'
import { isRole } from './role-select.tsx'

/** The people in a pasted list. */

export interface Invitee {
  email: string
  /** Undefined means the role that is selected for everyone. */
  role: Role | undefined
}

/** "Ada Lovelace <ada@acme.example>", as email programs copy it. */
const WITH_NAME = /[^,;\n<>]*<([^<>\s]*)>/g

/** Without duplicates, in order, with the role that follows on the same line. */
export function inviteesIn(text: string): Invitee[] {
  const found = new Map<string, Invitee>()
  for (const line of text.replace(WITH_NAME, ' $1 ').split('\n')) {
    let last: Invitee | undefined
    for (const word of line.split(/[\s,;]+/).filter(Boolean)) {
      const lower = word.toLowerCase()
      if (last && isRole(lower)) {
        last.role = lower
        continue
      }
      last = { email: word, role: undefined }
      found.set(lower, last)
    }
  }
  return [...found.values()]
}

export const toLine = ({ email, role }: Invitee) => (role ? `${email}, ${role}` : email)
