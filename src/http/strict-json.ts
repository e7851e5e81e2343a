import { isUtf8 } from 'node:buffer'
import { findInexact, holdsAsWritten, InexactNumber } from './exact-number.ts'

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
/** Without escapes; `constructor` is forbidden only with a `prototype`. */
const FORBIDDEN_NAME = /"(?:__proto__|constructor)"/

/**
 * Parses JSON that every parser reads in the same way (I-JSON, RFC 7493): valid UTF-8, no duplicate names, no
 * lone surrogates, no number that a double cannot hold as written. It also refuses U+0000, which Postgres cannot
 * store, deep nesting, and names that can change a prototype.
 * @throws UnacceptableJson, InexactNumber
 */
export function parseStrictJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new UnacceptableJson('The body is not valid UTF-8.')
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new UnacceptableJson('The body is not valid JSON.')
  }
  const { members, isExact, hasCodeEscape } = scan(bytes)
  if (hasCodeEscape || FORBIDDEN_NAME.test(text)) checkStrings(value, 0)
  // The parser keeps one of two equal names. The text then has more colons than the value has members.
  if (countMembers(value, 0) !== members) throw new UnacceptableJson('An object has the same name twice.')
  if (!isExact) throw new InexactNumber(findInexact(text))
  return value
}

/** The members of all objects together. A `for … in` costs half of what a list of names does. */
function countMembers(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0
  requireDepth(depth)
  let members = 0
  if (Array.isArray(value)) {
    for (const element of value) members += countMembers(element, depth + 1)
    return members
  }
  for (const name in value) members += 1 + countMembers(value[name as keyof typeof value], depth + 1)
  return members
}

/** Needed only for a text in which something can be wrong: with an escaped code, or with a name that is forbidden. */
function checkStrings(value: unknown, depth: number): void {
  if (typeof value === 'string') checkString(value)
  if (typeof value !== 'object' || value === null) return
  requireDepth(depth)
  for (const [name, member] of Object.entries(value)) {
    checkString(name)
    if (name === '__proto__' || (name === 'constructor' && hasPrototype(member))) {
      throw new UnacceptableJson('An object has a forbidden name.')
    }
    checkStrings(member, depth + 1)
  }
}

function requireDepth(depth: number): void {
  if (depth >= MAX_DEPTH) throw new UnacceptableJson(`The body is nested deeper than ${MAX_DEPTH} levels.`)
}

/** In valid UTF-8, only `\\u` can write what is refused here. */
function checkString(text: string): void {
  if (text.includes('\u0000')) throw new UnacceptableJson('A string contains U+0000.')
  if (!text.isWellFormed()) throw new UnacceptableJson('A string contains a lone surrogate.')
}

function hasPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}

interface Spelling {
  /** Colons outside strings, one for each member. */
  members: number
  /** Whether doubles hold all numbers as they are written. */
  isExact: boolean
  /** Whether a string has a character written as its code. */
  hasCodeEscape: boolean
}

/** Reads what the parser does not keep. The text must be valid JSON. */
function scan(bytes: Buffer): Spelling {
  let members = 0
  let isExact = true
  let hasCodeEscape = false
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index]
    if (byte === COLON) members += 1
    else if (byte === QUOTE) {
      for (index += 1; bytes[index] !== QUOTE; index += 1) {
        if (bytes[index] !== BACKSLASH) continue
        index += 1
        if (bytes[index] === LOWER_U) hasCodeEscape = true
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
      isExact &&= isShort || holdsAsWritten(bytes.toString('latin1', start, index + 1))
    }
  }
  return { members, isExact, hasCodeEscape }
}
