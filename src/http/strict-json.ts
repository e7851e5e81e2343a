import { isUtf8 } from 'node:buffer'
import { holdsAsWritten, InexactNumber } from './exact-number.ts'
import { pointerTo } from './json-pointer.ts'

/** A body that is not acceptable JSON. The message names the fault and quotes nothing from the body. */
export class UnacceptableJson extends Error {
  override name = 'UnacceptableJson'
}

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
 * Parses JSON that every parser reads in the same way (I-JSON, RFC 7493): valid UTF-8, no duplicate names, no
 * lone surrogates, no number that a double cannot hold as written. It also refuses U+0000, which Postgres cannot
 * store, deep nesting, and names that can change a prototype. A refusal costs about what acceptance costs: each
 * fault is found in the same passes.
 * @throws UnacceptableJson, InexactNumber
 */
export function parseStrictJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new UnacceptableJson('The body is not valid UTF-8.')
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new UnacceptableJson('The body is not valid JSON.')
  }
  const { members, inexactAt } = scan(bytes)
  // The parser keeps one of two equal names. The text then has more colons than the value has members.
  if (countMembers(value, 0) !== members) throw new UnacceptableJson('An object has the same name twice.')
  if (inexactAt !== undefined) throw new InexactNumber(pointerTo(bytes, inexactAt))
  return value
}

/**
 * The members of all objects together. A `for … in` costs half of what a list of names does.
 * @throws UnacceptableJson for deep nesting and forbidden names
 */
function countMembers(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depth >= MAX_DEPTH) throw new UnacceptableJson(`The body is nested deeper than ${MAX_DEPTH} levels.`)
  let members = 0
  if (Array.isArray(value)) {
    for (const element of value) members += countMembers(element, depth + 1)
    return members
  }
  for (const name in value) {
    const member: unknown = value[name as keyof typeof value]
    if (name === '__proto__' || (name === 'constructor' && hasPrototype(member))) {
      throw new UnacceptableJson('An object has a forbidden name.')
    }
    members += 1 + countMembers(member, depth + 1)
  }
  return members
}

function hasPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}

interface Spelling {
  /** Colons outside strings, one for each member. */
  members: number
  /** Where the first number begins that a double does not hold as it is written. */
  inexactAt: number | undefined
}

/** Reads what the parser does not keep. The text must be valid JSON. @throws UnacceptableJson */
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

/**
 * Passes the code of an escaped character, whose `u` is at `index`; of a surrogate, the code of its other half too.
 * Returns the index of the last digit. In valid UTF-8, only escapes can write what is refused here.
 */
function passCode(bytes: Buffer, index: number): number {
  const code = codeAt(bytes, index)
  if (code === 0) throw new UnacceptableJson('A string contains U+0000.')
  if (code < 0xd800 || code > 0xdfff) return index + 4
  const isFollowed = bytes[index + 5] === BACKSLASH && bytes[index + 6] === LOWER_U
  const next = isFollowed ? codeAt(bytes, index + 6) : 0
  const isPair = code < 0xdc00 && next >= 0xdc00 && next <= 0xdfff
  if (!isPair) throw new UnacceptableJson('A string contains a lone surrogate.')
  return index + 10
}

/** The four hexadecimal digits behind an index. */
function codeAt(bytes: Buffer, index: number): number {
  let code = 0
  for (let at = index + 1; at <= index + 4; at += 1) {
    const byte = bytes[at] ?? 0
    // Letters, in either case, are behind 0x40 and follow a 9.
    code = code * 16 + (byte & 0xf) + (byte > 0x40 ? 9 : 0)
  }
  return code
}
