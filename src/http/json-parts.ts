import { Problem } from '../errors.ts'

const SMALLEST_NORMAL = 2 ** -1022
/** Bounds the work of one number. */
const MAX_NUMBER_LENGTH = 400

/** Whether a double preserves the value: yes for 0.10 and 1e2, no for 2^53 + 1. */
export function holdsAsWritten(source: string): boolean {
  return source.length <= MAX_NUMBER_LENGTH && canonicalNumber(source) === String(Number(source))
}

export function isInRange(source: string): boolean {
  if (source.length > MAX_NUMBER_LENGTH) return false
  const double = Number(source)
  return Number.isFinite(double) && (double !== 0 || !/^[^eE]*[1-9]/.test(source))
}

/** One spelling per value: ECMAScript's Number::toString, but with all digits. It is little longer than the source. */
export function canonicalNumber(source: string): string {
  const double = Number(source)
  // A double preserves up to 15 decimal digits, unless it is out of range or too close to zero.
  const holds = source.length <= 15 && Number.isFinite(double) && Math.abs(double) >= SMALLEST_NORMAL
  if (holds) return String(double)
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = whole + fraction
  const start = all.search(/[1-9]/)
  if (start < 0) return '0'
  let end = all.length
  while (all[end - 1] === '0') end -= 1
  const digits = all.slice(start, end)
  const sign = source.startsWith('-') ? '-' : ''
  // The value is 0.digits × 10^point.
  const point = whole.length - start + Number(exponent)
  if (point > 21 || point <= -6) {
    const [first, rest] = [digits.slice(0, 1), digits.slice(1)]
    return `${sign}${first}${rest && `.${rest}`}e${point > 0 ? '+' : ''}${point - 1}`
  }
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  if (digits.length <= point) return sign + digits.padEnd(point, '0')
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`
}

const NUMBER = /-?[\d.]+(?:e[+-]\d+)?/y

/** Restores numbers as they were sent: `spellings` has pairs of an offset and the number's source. */
export function withSpellings(text: string, spellings: string | null): string {
  if (spellings === null) return text
  const parts = spellings.split(' ')
  let result = ''
  let from = 0
  for (let index = 0; index < parts.length; index += 2) {
    const at = Number(parts[index])
    NUMBER.lastIndex = at
    NUMBER.test(text)
    result += text.slice(from, at) + parts[index + 1]
    from = NUMBER.lastIndex
  }
  return result + text.slice(from)
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** A pointer ends before a longer name, so that a response cannot repeat a whole body. */
const MAX_NAME_LENGTH = 1_000

interface Level {
  index: number
  /** Undefined in an array. */
  nameAt: number | undefined
}

/** The JSON pointer (RFC 6901) of the value that starts at index `end` of valid JSON. */
export function pointerTo(text: string, end: number): string {
  const levels: Level[] = []
  let stringAt = 0
  for (let at = 0; at < end; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      stringAt = at
      at = endOfString(text, at)
    } else if (code === OPEN_ARRAY || code === OPEN_OBJECT) levels.push({ index: 0, nameAt: undefined })
    else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) levels.pop()
    else if (code === COMMA || code === COLON) {
      const level = levels.at(-1)
      if (!level) continue
      if (code === COMMA) level.index += 1
      else level.nameAt = stringAt
    }
  }
  let pointer = ''
  for (const { index, nameAt } of levels) {
    if (nameAt === undefined) {
      pointer += `/${index}`
      continue
    }
    const nameEnd = endOfString(text, nameAt) + 1
    if (nameEnd - nameAt > MAX_NAME_LENGTH) break
    const name = String(JSON.parse(text.slice(nameAt, nameEnd)))
    pointer += `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
  }
  return pointer
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

const MANY = 1_000

/** Joins small strings by the thousand. If all lived to the end, collecting them would take longer than all other work. */
export class Pieces {
  length = 0
  readonly #joined: string[] = []
  #pieces: string[] = []

  push(piece: string): void {
    this.length += piece.length
    if (this.#pieces.push(piece) === MANY) this.#join()
  }

  #join(): void {
    this.#joined.push(this.#pieces.join(''))
    this.#pieces = []
  }

  toString(): string {
    this.#join()
    return this.#joined.join('')
  }
}

/** `message` must not quote the body. */
export function malformed(message: string): Problem {
  return new Problem('malformed_body', message)
}

export function notJson(): Problem {
  return malformed('The body is not valid JSON.')
}

export function tooDeep(levels: number): Problem {
  return malformed(`The body is nested deeper than ${levels} levels.`)
}

export function inexact(path: string): Problem {
  return new Problem(
    'invalid_request',
    'A 64-bit float cannot represent a number as written. Send it as a string.',
    { errors: [{ path, message: 'must be a number that a 64-bit float can represent as written' }] },
  )
}

export function outOfRange(path: string): Problem {
  const message = 'must be in the range of a 64-bit float and have at most 400 characters'
  return new Problem(
    'invalid_request',
    'A number is outside the range of a 64-bit float, or too long. Send it as a string.',
    { errors: [{ path, message }] },
  )
}
