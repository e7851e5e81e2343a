import { hash } from 'node:crypto'
import { domainToUnicode } from 'node:url'
import { isTooLong, lengthOf, MAX_LENGTH, type PasswordHasher } from './password.ts'

/** Rules for chosen passwords (ASVS 6.2), without composition rules. */

export const MIN_LENGTH = 8
export const MIN_GUESSES = 1e8
/** Reserved: sign-in recognizes service passwords by it. */
export const SERVICE_PREFIX = 'gsp_'

export interface Person {
  email: string
  companyName: string
  name?: string | undefined
}

type IsBreached = (password: string) => Promise<boolean>

export interface Checks {
  hasher: Pick<PasswordHasher, 'estimate'>
  isBreached?: IsBreached | undefined
  words?: readonly string[]
}

/** Completes a sentence that starts with the field's name, or null. @throws Problem overloaded */
export async function passwordFault(
  password: string,
  person: Person,
  { hasher, isBreached, words = [] }: Checks,
): Promise<string | null> {
  if (lengthOf(password) < MIN_LENGTH) return `must have at least ${MIN_LENGTH} characters`
  if (isTooLong(password)) return `must have at most ${MAX_LENGTH} characters`
  if (password.normalize('NFC').startsWith(SERVICE_PREFIX))
    return `must not start with ${SERVICE_PREFIX}, which is reserved for service accounts`
  const folded = fold(password)
  if ([...spellingsOf(person.email), person.companyName, person.name ?? ''].map(fold).includes(folded)) {
    return 'must not be the email, the name, or the company name'
  }
  const { guesses, parts } = await hasher.estimate(password.normalize('NFC'), [...hintsOf(person), ...words])
  if (guesses < MIN_GUESSES) {
    return `is too easy to guess because it ${describe(parts)} (try a few unrelated words)`
  }
  return (await isBreached?.(password))
    ? 'is known from a breach (choose one that you do not use anywhere else)'
    : null
}

export function generatePassword(randomBytes: (size: number) => Buffer): string {
  return randomBytes(15).toString('base64url')
}

const PATTERNS: Record<string, string> = {
  repeat: 'repeated characters',
  sequence: 'a sequence such as abc or 123',
  wordSequence: 'a sequence of words',
  spatial: 'neighboring keys',
  date: 'a date',
  regex: 'a year',
}
const DICTIONARIES: Record<string, string> = {
  userInputs: 'a word from your email, your name, your company, or this service',
  'passwords-common': 'a common password',
}
const NAMES = /^\w*(first|last)names/i

function describe(parts: { pattern: string; dictionary: string }[]): string {
  const named = new Set(
    parts.map(({ pattern, dictionary }) => {
      if (pattern !== 'dictionary') return PATTERNS[pattern]
      return DICTIONARIES[dictionary] ?? (NAMES.test(dictionary) ? 'a name' : 'a common word')
    }),
  )
  const described = [...named].filter((name) => name !== undefined)
  if (described.length === 0) return 'is short'
  const list = new Intl.ListFormat('en-US').format(described)
  return `is ${described.length < named.size ? 'little more than' : 'made of'} ${list}`
}

function hintsOf({ email, companyName, name = '' }: Person): string[] {
  const whole = [...spellingsOf(email), email.split('@', 1)[0] ?? '', companyName, name].map(fold)
  const words = whole.flatMap((text) => text.split(/[^\p{L}\p{N}]+/u)).filter((word) => word.length > 2)
  return [...new Set([...whole, ...words])].filter((hint) => hint !== '')
}

/** Stored domains are in ASCII; people may type the Unicode form (IDN). */
function spellingsOf(email: string): string[] {
  return [email, email.replace(/[^@]*$/, domainToUnicode)]
}

function fold(text: string): string {
  return text.normalize('NFC').toLowerCase()
}

/** The breach list sees only five digits of the SHA-1. If it fails or is late, the password is accepted. */
const TIMEOUT_MS = 1_000
const MAX_ANSWER_BYTES = 1024 * 1024

export function createIsBreached(
  url: string | undefined,
  onFailure: (cause: string) => void,
): IsBreached | undefined {
  if (url === undefined) return undefined
  return async (password) => {
    const digest = hash('sha1', password.normalize('NFC')).toUpperCase()
    try {
      const lines = await readRange(`${url}/${digest.slice(0, 5)}`)
      return lines.some((line) => isMatch(line, digest.slice(5)))
    } catch (error) {
      onFailure(error instanceof Error ? error.name : 'Error')
      return false
    }
  }
}

/** Lines are SUFFIX:COUNT. Padding, which hides the number of matches, has the count 0. */
function isMatch(line: string, suffix: string): boolean {
  const [found = '', count = ''] = line.trim().split(':')
  return found.toUpperCase() === suffix && Number(count) > 0
}

async function readRange(url: string): Promise<string[]> {
  const answer = await fetch(url, {
    headers: { 'add-padding': 'true', 'user-agent': 'gatehouse', accept: 'text/plain' },
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (answer.status !== 200 || !answer.body) {
    await answer.body?.cancel()
    throw new UnexpectedAnswer()
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of answer.body) {
    size += chunk.byteLength
    if (size > MAX_ANSWER_BYTES) throw new UnexpectedAnswer()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('latin1').split('\n')
}

class UnexpectedAnswer extends Error {
  override name = 'UnexpectedAnswer'
}
