import { isUtf8 } from 'node:buffer'
import { Problem } from '../errors.ts'
import { pointerTo } from './json-pointer.ts'

const MAX_DEPTH = 32
const QUOTE = 0x22
const MINUS = 0x2d
const NINE = 0x39
const COLON = 0x3a
const PLUS = 0x2b
const UPPER_E = 0x45
const LOWER_E = 0x65
const BACKSLASH = 0x5c
const LOWER_U = 0x75

/**
 * Parses JSON that every parser reads in the same way (I-JSON, RFC 7493), without U+0000, which Postgres cannot store, deep
 * nesting, and names that can change a prototype. A refusal costs what acceptance costs: the passes are the same.
 * @throws Problem malformed_body, or invalid_request for a number that a double does not hold as it is written
 */
export function parseStrictJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw malformed('The body is not valid UTF-8.')
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    throw malformed('The body is not valid JSON.')
  }
  const { members, inexactAt } = scan(bytes)
  // The parser keeps one of two equal names. The text then has more colons than the value has members.
  if (countMembers(value, 0) !== members) throw malformed('An object has the same name twice.')
  if (inexactAt !== undefined) throw inexact(pointerTo(bytes, inexactAt))
  return value
}

function countMembers(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depth >= MAX_DEPTH) throw malformed(`The body is nested deeper than ${MAX_DEPTH} levels.`)
  let members = 0
  if (Array.isArray(value)) {
    for (const element of value) members += countMembers(element, depth + 1)
    return members
  }
  // Half the cost of a list of names.
  for (const name in value) {
    const member: unknown = value[name as keyof typeof value]
    if (name === '__proto__' || (name === 'constructor' && hasPrototype(member))) {
      throw malformed('An object has a forbidden name.')
    }
    members += 1 + countMembers(member, depth + 1)
  }
  return members
}

/** The message quotes nothing from the body. */
function malformed(message: string): Problem {
  return new Problem('malformed_body', message)
}

function inexact(path: string): Problem {
  return new Problem(
    'invalid_request',
    'A number has more digits, or is larger or smaller, than a 64-bit float holds; send it as a string.',
    { errors: [{ path, message: 'must be a number that a 64-bit float holds as written' }] },
  )
}

function hasPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}

interface Spelling {
  /** Of all objects: colons outside strings. */
  members: number
  /** Where the first number begins that a double does not hold. */
  inexactAt: number | undefined
}

/** Reads what the parser does not keep. The text must be valid JSON. */
function scan(bytes: Buffer): Spelling {
  let members = 0
  let inexactAt: number | undefined
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index]
    if (byte === COLON) members += 1
    else if (byte === QUOTE) {
      for (index += 1; bytes[index] !== QUOTE; index += 1) {
        if (bytes[index] !== BACKSLASH) continue
        index += 1
        if (bytes[index] === LOWER_U) index = passCode(bytes, index)
      }
    } else if (byte !== undefined && byte >= MINUS && byte <= NINE) {
      const start = index
      let hasExponent = false
      for (; ; index += 1) {
        const next = bytes[index + 1]
        if (next === LOWER_E || next === UPPER_E) hasExponent = true
        else if (next === undefined || ((next < MINUS || next > NINE) && next !== PLUS)) break
      }
      // A double holds every decimal of up to 15 digits, but with an exponent it can be out of range.
      const isShort = index - start < 15 && !hasExponent
      if (inexactAt !== undefined || isShort) continue
      if (!holdsAsWritten(bytes.toString('latin1', start, index + 1))) inexactAt = start
    }
  }
  return { members, inexactAt }
}

/** The last index of `\uXXXX`, or of a pair of surrogates. In valid UTF-8, only escapes can write what is refused here. */
function passCode(bytes: Buffer, index: number): number {
  const code = codeAt(bytes, index)
  if (code === 0) throw malformed('A string contains U+0000.')
  if (code < 0xd800 || code > 0xdfff) return index + 4
  const isFollowed = bytes[index + 5] === BACKSLASH && bytes[index + 6] === LOWER_U
  const next = isFollowed ? codeAt(bytes, index + 6) : 0
  const isPair = code < 0xdc00 && next >= 0xdc00 && next <= 0xdfff
  if (!isPair) throw malformed('A string contains a lone surrogate.')
  return index + 10
}

function codeAt(bytes: Buffer, index: number): number {
  let code = 0
  for (let at = index + 1; at <= index + 4; at += 1) {
    const byte = bytes[at] ?? 0
    // Letters, in either case, are behind 0x40 and follow a 9.
    code = code * 16 + (byte & 0xf) + (byte > 0x40 ? 9 : 0)
  }
  return code
}

const SMALLEST_NORMAL = 2 ** -1022

/** Whether the number, as a double that is written again, has the same value: 0.10 and 1e2 have, 2^53 + 1 has not. */
function holdsAsWritten(source: string): boolean {
  const double = Number(source)
  if (!Number.isFinite(double)) return false
  // Every decimal of 15 digits holds, unless it is too close to zero.
  if (source.length <= 15 && Math.abs(double) >= SMALLEST_NORMAL) return true
  const shortest = String(double)
  return source === shortest || canonical(source) === canonical(shortest)
}

/** The value of a decimal without its sign, in one spelling. It takes time in proportion to the length. */
function canonical(source: string): string {
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = whole + fraction
  let start = 0
  while (digits[start] === '0') start += 1
  let end = digits.length
  while (end > start && digits[end - 1] === '0') end -= 1
  if (start === end) return '0'
  return `${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}
