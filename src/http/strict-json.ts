import { isUtf8 } from 'node:buffer'

/** A body that is not acceptable JSON. The message names the fault and quotes nothing from the body. */
export class UnacceptableJson extends Error {
  override name = 'UnacceptableJson'
}

const MAX_DEPTH = 32
const QUOTE = 0x22
const COLON = 0x3a
const BACKSLASH = 0x5c

/**
 * Parses JSON that every parser reads in the same way (I-JSON, RFC 7493): valid UTF-8, no duplicate names, no
 * lone surrogates, no integer beyond 2^53 - 1. It also refuses U+0000, which Postgres cannot store, deep
 * nesting, and names that can change a prototype.
 * @throws UnacceptableJson
 */
export function parseStrictJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new UnacceptableJson('The body is not valid UTF-8.')
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new UnacceptableJson('The body is not valid JSON.')
  }
  // The parser keeps one of two equal names. The text then has more colons than the value has members.
  if (checkValue(value, 0) !== countMembers(bytes))
    throw new UnacceptableJson('An object has the same name twice.')
  return value
}

/** Checks strings, numbers and names. Returns the number of members of all objects together. */
function checkValue(value: unknown, depth: number): number {
  if (typeof value === 'string') checkString(value)
  else if (typeof value === 'number') checkNumber(value)
  if (typeof value !== 'object' || value === null) return 0
  if (depth >= MAX_DEPTH) throw new UnacceptableJson(`The body is nested deeper than ${MAX_DEPTH} levels.`)

  let members = 0
  if (Array.isArray(value)) {
    for (const element of value) members += checkValue(element, depth + 1)
    return members
  }
  for (const [name, member] of Object.entries(value)) {
    checkString(name)
    if (name === '__proto__' || (name === 'constructor' && hasPrototype(member))) {
      throw new UnacceptableJson('An object has a forbidden name.')
    }
    members += 1 + checkValue(member, depth + 1)
  }
  return members
}

function checkString(text: string): void {
  if (text.includes('\u0000')) throw new UnacceptableJson('A string contains U+0000.')
  if (!text.isWellFormed()) throw new UnacceptableJson('A string contains a lone surrogate.')
}

function checkNumber(number: number): void {
  if (Number.isInteger(number) ? !Number.isSafeInteger(number) : !Number.isFinite(number)) {
    throw new UnacceptableJson('A number is too large to be exact; send it as a string.')
  }
}

function hasPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}

/** Counts the colons outside strings, one per member. The text must be valid JSON. */
function countMembers(bytes: Buffer): number {
  let members = 0
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index]
    if (byte === COLON) members += 1
    else if (byte === QUOTE) {
      for (index += 1; bytes[index] !== QUOTE; index += 1) if (bytes[index] === BACKSLASH) index += 1
    }
  }
  return members
}
