import { isUtf8 } from 'node:buffer'
import {
  canonicalNumber,
  holdsAsWritten,
  inexact,
  isInRange,
  malformed,
  notJson,
  outOfRange,
  Pieces,
  pointerTo,
  tooDeep,
} from './json-parts.ts'

const MAX_DEPTH = 32
const SHORT_ESCAPES = '"\\bfnrt'
/** For more names in an object, a set is faster. */
const FEW_NAMES = 8
/** In characters. Without an exponent, such a number is in the range of a double. */
const ALWAYS_IN_RANGE = 300

const SPACE = 0x20
const QUOTE = 0x22
const PLUS = 0x2b
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const UPPER_E = 0x45
const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const LOWER_E = 0x65
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** An object that was checked, but not parsed. */
export interface KeptObject {
  /** As JSON.stringify would write it. */
  text: string
  /** Of numbers that were sent in a different spelling: see withSpellings. */
  spellings: string | null
}

/**
 * Accepts JSON that all parsers read the same way (I-JSON, RFC 7493). Refuses U+0000, which Postgres cannot store, deep nesting,
 * and names that can change a prototype. A refusal costs at most as much as acceptance. Objects named `keptName` stay text, so
 * their numbers only need to be in range. @throws Problem malformed_body, or invalid_request for a number
 */
export function parseStrictJson(bytes: Buffer, keptName?: string): unknown {
  if (!isUtf8(bytes)) throw malformed('The body is not valid UTF-8.')
  return new Reader(bytes.toString('utf8'), keptName).read()
}

class Reader {
  readonly #text: string
  readonly #keptName: string | undefined
  #at = 0
  /** The first refused number. The rest is read first, because the body may not even be JSON. */
  #refused: { at: number; problem: typeof inexact } | undefined

  #isKeeping = false
  /** The kept object's text, up to `#copiedTo`. The rest stays unchanged. */
  #kept = new Pieces()
  #copiedTo = 0
  #spellings = new Pieces()

  constructor(text: string, keptName: string | undefined) {
    this.#text = text
    this.#keptName = keptName
  }

  read(): unknown {
    const value = this.#value(0, '')
    this.#next()
    if (this.#at < this.#text.length) throw notJson()
    if (this.#refused) throw this.#refused.problem(pointerTo(this.#text, this.#refused.at))
    return value
  }

  /** The next character code after white space. NaN at the end, which equals nothing. */
  #next(): number {
    let code = this.#text.charCodeAt(this.#at)
    if (code > SPACE) return code
    const start = this.#at
    while (code === SPACE || code === 0x0a || code === 0x0d || code === 0x09) {
      this.#at += 1
      code = this.#text.charCodeAt(this.#at)
    }
    if (this.#isKeeping) this.#replace(start, '')
    return code
  }

  #pass(code: number): boolean {
    const isNext = this.#next() === code
    if (isNext) this.#at += 1
    return isNext
  }

  #expect(code: number): void {
    if (!this.#pass(code)) throw notJson()
  }

  /** Replaces the text from `start` on in a kept object. */
  #replace(start: number, replacement: string): void {
    if (start > this.#copiedTo) this.#kept.push(this.#text.slice(this.#copiedTo, start))
    if (replacement !== '') this.#kept.push(replacement)
    this.#copiedTo = this.#at
  }

  /** Undefined inside a kept object. */
  #value(depth: number, name: string): unknown {
    switch (this.#next()) {
      case QUOTE:
        return this.#string()
      case OPEN_OBJECT:
        return name === this.#keptName && !this.#isKeeping ? this.#keep(depth) : this.#object(depth, name)
      case OPEN_ARRAY:
        return this.#array(depth)
      case 0x74:
        return this.#word('true', true)
      case 0x66:
        return this.#word('false', false)
      case 0x6e:
        return this.#word('null', null)
      default:
        return this.#number()
    }
  }

  #keep(depth: number): KeptObject {
    this.#isKeeping = true
    this.#kept = new Pieces()
    this.#copiedTo = this.#at
    this.#spellings = new Pieces()
    this.#object(depth, '')
    this.#isKeeping = false
    const rest = this.#text.slice(this.#copiedTo, this.#at)
    const spellings = this.#spellings.length === 0 ? null : `${this.#spellings}`
    if (this.#kept.length === 0) return { text: rest, spellings }
    this.#kept.push(rest)
    return { text: `${this.#kept}`, spellings }
  }

  #object(depth: number, ofName: string): object | undefined {
    if (depth === MAX_DEPTH) throw tooDeep(MAX_DEPTH)
    this.#at += 1
    const result: Record<string, unknown> | undefined = this.#isKeeping ? undefined : {}
    if (this.#pass(CLOSE_OBJECT)) return result
    const names: string[] = []
    let manyNames: Set<string> | undefined
    for (;;) {
      if (this.#next() !== QUOTE) throw notJson()
      const name = this.#string(true)
      if (manyNames?.has(name) ?? names.includes(name)) throw malformed('An object has a duplicate name.')
      if (name === '__proto__' || (name === 'prototype' && ofName === 'constructor')) {
        throw malformed('An object has a forbidden name.')
      }
      if (manyNames) manyNames.add(name)
      else if (names.push(name) > FEW_NAMES) manyNames = new Set(names)
      this.#expect(COLON)
      const value = this.#value(depth + 1, name)
      if (result) result[name] = value
      if (this.#pass(CLOSE_OBJECT)) return result
      this.#expect(COMMA)
    }
  }

  #array(depth: number): unknown[] | undefined {
    if (depth === MAX_DEPTH) throw tooDeep(MAX_DEPTH)
    this.#at += 1
    const result: unknown[] | undefined = this.#isKeeping ? undefined : []
    if (this.#pass(CLOSE_ARRAY)) return result
    for (;;) {
      const value = this.#value(depth + 1, '')
      result?.push(value)
      if (this.#pass(CLOSE_ARRAY)) return result
      this.#expect(COMMA)
    }
  }

  /** Empty inside a kept object, unless it is a name. */
  #string(isName = false): string {
    const text = this.#text
    const start = this.#at
    let at = start + 1
    let isEscaped = false
    // Escapes that JSON.stringify does not write, or that JSON does not have.
    let isRewritten = false
    for (;;) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) break
      if (code === BACKSLASH) {
        isEscaped = true
        isRewritten ||= !SHORT_ESCAPES.includes(text.charAt(at + 1))
        at += 2
      } else if (code >= SPACE) at += 1
      // A control character, or the end.
      else throw notJson()
    }
    this.#at = at + 1
    const isNeeded = isName || !this.#isKeeping
    if (!isEscaped) return isNeeded ? text.slice(start + 1, at) : ''
    if (!isNeeded && !isRewritten) return ''
    const value = unescaped(text.slice(start, this.#at))
    if (isRewritten && this.#isKeeping) this.#replace(start, JSON.stringify(value))
    return value
  }

  #word<Value>(word: string, value: Value): Value {
    if (!this.#text.startsWith(word, this.#at)) throw notJson()
    this.#at += word.length
    return value
  }

  #number(): number | undefined {
    const text = this.#text
    const start = this.#at
    let at = text.charCodeAt(start) === MINUS ? start + 1 : start
    const wholeAt = at
    at = endOfDigits(text, at)
    if (at > wholeAt + 1 && text.charCodeAt(wholeAt) === ZERO) throw notJson()
    const wholeEnd = at
    if (text.charCodeAt(at) === POINT) at = endOfDigits(text, at + 1)
    const code = text.charCodeAt(at)
    const hasExponent = code === LOWER_E || code === UPPER_E
    if (hasExponent) {
      const sign = text.charCodeAt(at + 1)
      at = endOfDigits(text, sign === PLUS || sign === MINUS ? at + 2 : at + 1)
    }
    this.#at = at
    const length = at - start
    if (!this.#isKeeping) return this.#numberOutsideKept(text.slice(start, at), start, hasExponent)
    // The usual forms, such as 0.5 and 12. Not -0, 0.50, or numbers small enough for an exponent.
    const startsWithZero = text.charCodeAt(wholeAt) === ZERO
    const isCanonical =
      !hasExponent &&
      length <= (startsWithZero ? 8 : 21) &&
      (at > wholeEnd ? text.charCodeAt(at - 1) !== ZERO : !startsWithZero || length === 1)
    if (!isCanonical) this.#keepNumber(text.slice(start, at), start, hasExponent)
    return undefined
  }

  #numberOutsideKept(source: string, start: number, hasExponent: boolean): number {
    // A double preserves up to 15 decimal digits, but with an exponent it can be out of range.
    const isShort = source.length <= 15 && !hasExponent
    if (!isShort && !this.#refused && !holdsAsWritten(source)) this.#refused = { at: start, problem: inexact }
    return Number(source)
  }

  #keepNumber(source: string, start: number, hasExponent: boolean): void {
    if (this.#refused) return
    if ((hasExponent || source.length > ALWAYS_IN_RANGE) && !isInRange(source)) {
      this.#refused = { at: start, problem: outOfRange }
      return
    }
    const canonical = canonicalNumber(source)
    if (canonical === source) return
    const offset = this.#kept.length + start - this.#copiedTo
    this.#spellings.push(`${this.#spellings.length > 0 ? ' ' : ''}${offset} ${source}`)
    this.#replace(start, canonical)
  }
}

function endOfDigits(text: string, start: number): number {
  let at = start
  for (;;) {
    const code = text.charCodeAt(at)
    if (!(code >= ZERO && code <= NINE)) break
    at += 1
  }
  if (at === start) throw notJson()
  return at
}

function unescaped(source: string): string {
  const value = parseString(source)
  // In valid UTF-8, only escapes can produce these.
  if (value.includes('\0')) throw malformed('A string contains U+0000.')
  if (!value.isWellFormed()) throw malformed('A string contains a lone surrogate.')
  return value
}

function parseString(source: string): string {
  try {
    return String(JSON.parse(source))
  } catch {
    throw notJson()
  }
}
