import { expect, test } from 'vitest'
import { createRandom } from '../../scripts/fault-test/random.ts'
import { Problem } from '../../src/errors.ts'
import { withSpellings } from '../../src/http/json-parts.ts'
import { type KeptObject, parseStrictJson } from '../../src/http/strict-json.ts'
import { times } from '../support/test-service.ts'

const isMalformed = expect.objectContaining({ name: 'Problem', code: 'malformed_body' })
const parse = (text: string) => parseStrictJson(Buffer.from(text))

/** The stored form of a value, and its text as readers get it. */
function keep(value: string | Buffer): { kept: string; read: string } {
  const [before, after] = ['{"value":', '}']
  const bytes = Buffer.concat([`{"data":${before}`, value, `${after}}`].map((part) => Buffer.from(part)))
  const { data } = parseStrictJson(bytes, 'data') as { data: KeptObject }
  const inner = (text: string) => text.slice(before.length, -after.length)
  return { kept: inner(data.text), read: inner(withSpellings(data.text, data.spellings)) }
}

const PIECES = [...'a:"\\,{}[]/\n\u0001é€😀\u2028 1']
const SPACES = ['', '', '', ' ', '\n\t', '\r\n  ']
/** A double holds each of these as written. */
const NUMBERS = '0 -0 1 1.0 -17 0.5 12.50 1e3 1E5 1E-7 1e20 1e21 9007199254740991 1.5e-300'.split(' ')

/** Writes the same random JSON texts in every run, with random spellings of strings and white space. */
function createWriter(seed: string, numbers = NUMBERS) {
  const random = createRandom(seed)
  const { below, isOneIn, pick } = random
  const space = () => pick(SPACES)
  const word = () => times(below(6), () => pick(PIECES)).join('')

  function spell(text: string): string {
    if (isOneIn(2)) return JSON.stringify(text)
    const units = times(text.length, (index) => {
      const hex = text.charCodeAt(index).toString(16).padStart(4, '0')
      return `\\u${isOneIn(2) ? hex : hex.toUpperCase()}`
    })
    return `"${units.join('')}"`
  }
  function value(depth = 0): string {
    const scalars = [() => spell(word()), () => pick(numbers), () => pick(['true', 'false', 'null'])]
    const array = () => `[${times(below(5), () => value(depth + 1)).join(',')}]`
    const text = depth >= 6 || isOneIn(3) ? pick(scalars)() : isOneIn(3) ? array() : object(depth)
    return `${space()}${text}${space()}`
  }
  function object(depth = 0): string {
    // The index makes each name unique within its object.
    const members = times(below(5), (index) => {
      return `${space()}${spell(`${word()}#${index}`)}${space()}:${value(depth + 1)}`
    })
    return `{${members.join(',')}}`
  }
  return { random, word, spell, value, object }
}

const ROUNDS = 500

/** If all or none of the random texts matched, a test would show nothing. */
function expectSome(count: number): void {
  expect(count).toBeGreaterThan(ROUNDS * 0.05)
  expect(count).toBeLessThan(ROUNDS * 0.95)
}

const malformed: Record<string, string | Buffer> = {
  'the name __proto__': '{"__proto__":{"admin":true}}',
  '__proto__ in escapes': '{"\\u005f_proto_\\u005F":{}}',
  '__proto__ further in': '{"data":[{"__proto__":1}]}',
  'constructor.prototype': '{"constructor":{"prototype":{"admin":true}}}',
  'constructor.prototype in escapes': '{"\\u0063onstructor":{"prototyp\\u0065":{}}}',
  'a name twice': '{"email":"a@x.example","email":"b@x.example"}',
  'a name twice, once in escapes': '{"a":1,"\\u0061":1}',
  'a name twice, further in': '{"data":[{},{"a":[{"b":1,"b":1}]}]}',
  'a byte that UTF-8 has not': Buffer.from('{"a":"\xff"}', 'latin1'),
  'an overlong form in UTF-8': Buffer.from('{"a":"\xc0\xaf"}', 'latin1'),
  'a surrogate in UTF-8': Buffer.from('{"a":"\xed\xa0\x80"}', 'latin1'),
  'half a character in UTF-8': Buffer.from('{"a":"\xe2\x82"}', 'latin1'),
  'UTF-16': Buffer.from('{"a":1}', 'utf16le'),
  'a byte order mark': '\ufeff{}',
  'a lone surrogate': '{"a":"\\ud800"}',
  'surrogates in the wrong order': '{"a":"\\udc00\\ud800"}',
  'a lone surrogate in a name': '{"\\ud800":1}',
  'U+0000': '{"a":"\\u0000"}',
  'U+0000 in a name': '{"\\u0000":1}',
  'a raw NUL': '{"a":"\0"}',
  'a raw line feed in a string': '{"a":"\n"}',
  'trailing bytes': '{} {}',
  'a trailing NUL': '{}\0',
  'a trailing comma': '{"a":1,}',
  'a comment': '{/* */}',
  'single quotes': "{'a':1}",
  'a name without quotes': '{a:1}',
  'half an object': '{"a":',
  'nothing but a space': ' ',
  NaN: '{"a":NaN}',
  'a leading zero': '{"a":01}',
  'a hexadecimal number': '{"a":0x1}',
  'arrays 250,000 deep': `${'['.repeat(250_000)}${']'.repeat(250_000)}`,
  'objects 50,000 deep': `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`,
  'objects 33 deep': `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`,
  'a backslash twice, once in escapes': '{"\\\\":1,"\\u005c":2}',
  'a colon twice': '{":":1,":":2}',
  'an empty name twice': '{"":1,"":1}',
  'a name twice around others': '{"a":[{"b":{}}],"a":1}',
  'constructor.prototype of null': '{"constructor":{"prototype":null}}',
  '__proto__ of null': '{"a":{"__proto__":null}}',
  'arrays 33 deep': `${'['.repeat(33)}${']'.repeat(33)}`,
  nothing: '',
}

test('valid JSON is read as JSON.parse does, and kept with its digits', () => {
  const { value } = createWriter('valid')
  const compact = (text: string) =>
    text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, string?: string) =>
      string ? JSON.stringify(JSON.parse(string)) : '',
    )
  for (const text of times(ROUNDS, () => value())) {
    expect(parse(text), text).toStrictEqual(JSON.parse(text))
    expect(keep(text), text).toEqual({ kept: JSON.stringify(JSON.parse(text)), read: compact(text) })
  }
})

test('the parser refuses a repeated name, even if it is escaped (RFC 7493, section 2.3)', () => {
  const { word, spell, value } = createWriter('repeated')
  for (const name of times(ROUNDS, word)) {
    const twice = `{${spell(name)}:${value()},"other":${value()},${spell(name)}:1}`
    JSON.parse(twice)
    expect(() => parse(twice), twice).toThrow(isMalformed)
    expect(() => keep(twice), twice).toThrow(isMalformed)
    expect(() => parse(`[{"a":${twice}}]`), twice).toThrow(isMalformed)
  }
})

test('the parser refuses changed bytes as JSON.parse does, with its own error', () => {
  const { random, object } = createWriter('changed', ['0', '-17', '0.5', '1e3', '1E-7'])
  let refused = 0
  for (const bytes of times(ROUNDS, () => Buffer.from(object()))) {
    bytes.writeUInt8(random.below(256), random.below(bytes.length))
    try {
      const value = parseStrictJson(bytes)
      expect(value).toStrictEqual(JSON.parse(bytes.toString()))
      expect(keep(bytes).kept).toBe(JSON.stringify(value))
    } catch (error) {
      expect(error).toEqual(isMalformed)
      expect(() => keep(bytes)).toThrow(isMalformed)
      refused += 1
    }
  }
  expectSome(refused)
})

test.for([
  ['{"a":"\\"b\\":1"}', { a: '"b":1' }],
  ['{"a\\\\":":\\\\"}', { 'a\\': ':\\' }],
  ['{"\\\\\\"":{"::":":"}}', { '\\"': { '::': ':' } }],
  ['{"a":{"a":{"a":[{"a":1},{"a":1}]}}}', { a: { a: { a: [{ a: 1 }, { a: 1 }] } } }],
  ['{"":1}', { '': 1 }],
  ['{"constructor":1,"prototype":{}}', { constructor: 1, prototype: {} }],
  ['{"proto":{"toString":1}}', { proto: { toString: 1 } }],
  ['{"a":"\\ud83d\\ude00"}', { a: '😀' }],
  ['{"a":"\ufeff"}', { a: '\ufeff' }],
  ['[9007199254740991,1e15,0.1,-0]', [9007199254740991, 1e15, 0.1, -0]],
  [`${'['.repeat(32)}${']'.repeat(32)}`, JSON.parse(`${'['.repeat(32)}${']'.repeat(32)}`)],
] as const)('the parser accepts %s', ([text, value]) => {
  expect(parse(text)).toStrictEqual(value)
})

const rows = Object.entries(malformed)
test.for(rows)(
  'the parser refuses %s (ASVS 1.1.1, 1.5.2, 1.5.3, 15.3.6, RFC 7493, section 2.1)',
  ([, body]) => {
    expect(() => parseStrictJson(Buffer.from(body))).toThrow(isMalformed)
    expect(() => keep(body)).toThrow(isMalformed)
  },
)

test('the parser accepts many names, and refuses one repeated among them', () => {
  const members = times(20, (index) => `"${index}":${index}`)
  expect(parse(`{${members.join(',')}}`)).toEqual({ ...times(20, (index) => index) })
  for (const name of ['0', '8', '19']) {
    expect(() => parse(`{${members.join(',')},"${name}":1}`)).toThrow(isMalformed)
  }
})

test('a refusal does not quote the body (ASVS 16.2.5)', () => {
  const isSilent = ({ message, stack }: Problem) => !`${message} ${stack}`.includes('c4n4ry')
  for (const text of ['{"c4n4ry":1,"c4n4ry":2}', '{"a":"c4n4ry', '{"a":c4n4ry}', '{"a":"c4n4ry\\u0000"}'])
    expect(() => parse(text), text).toThrow(expect.toSatisfy(isSilent))
})

/** The path at which a number is refused, or undefined. */
function inexactAt(text: string): string | undefined {
  try {
    parse(text)
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'invalid_request') throw error
    return String(error.extras.errors?.[0]?.path)
  }
  return undefined
}

/** A decimal as a fraction of whole numbers: an oracle that shares no code with the parser. */
function fractionOf(decimal: string): { of: bigint; over: bigint } {
  const [mantissa = '', exponent = '0'] = decimal.toLowerCase().split('e')
  const power = Number(exponent) - (mantissa.split('.')[1]?.length ?? 0)
  const of = BigInt(mantissa.replace('.', ''))
  return power < 0 ? { of, over: 10n ** BigInt(-power) } : { of: of * 10n ** BigInt(power), over: 1n }
}

function areEqual(...decimals: [string, string]): boolean {
  const [one, other] = [fractionOf(decimals[0]), fractionOf(decimals[1])]
  return one.of * other.over === other.of * one.over
}

const held =
  '0.1 0.10 1.0 1e2 1E+2 100 -0 0.0e-999 0e999999999999999999999 123456789012345 9007199254740991 ' +
  '-9007199254740992 100000000000000000000000 1.7976931348623157e308 0.30000000000000004 5e-324 ' +
  '0.000000000000000000000000000000000000000000000000000000000000001'
test.for(held.split(' '))('a number that a double holds as written is accepted: %s', (number) => {
  expect(parse(`[${number}]`)).toStrictEqual([Number(number)])
})

const inexact =
  '9007199254740993 -9007199254740993 9007199254740991.5 0.1000000000000000055511151231257827 ' +
  '1.00000000000000000001 18446744073709551616 12345678.123456789 1e309 -1e400 1e-400 4e-324 ' +
  '1.79769313486231571e308'
test.for(inexact.split(' '))('a number that a double cannot hold is refused everywhere: %s', (number) => {
  expect(inexactAt(`[${number}]`)).toBe('/0')
  expect(inexactAt(` ${number}\n`)).toBe('')
  expect(inexactAt(`{"a":${number}\t}`)).toBe('/a')
  expect(inexactAt(`{"a":"${number}"}`)).toBeUndefined()
})

test('a number can have 400 characters, and is judged by its value', () => {
  expect(parse(`[1.${'0'.repeat(398)}]`)).toEqual([1])
  for (const number of [`1.${'0'.repeat(399)}`, `1${'0'.repeat(398)}`, `1.${'0'.repeat(390)}1`])
    expect(inexactAt(`[${number}]`)).toBe('/0')
})

const bad = '1e-400'
const long = '/'.repeat(100_000)
test.for([
  ['an escaped name', `{"x":[{},{"x":{"a/b":{"~":[1.5,2.5,${bad},3]}}}]}`, '/x/1/x/a~1b/~0/2'],
  ['a number as name', `{"10":1,"2":${bad},"":{}}`, '/2'],
  ['empty names', `{"":{"":${bad}}}`, '//'],
  ['a backslash before', `{"a":"\\\\","b":-1.5,"c":${bad}}`, '/c'],
  ['escapes', `{"a":[{},[],"]}",{"b":["[",{"c\\u0041\\/\\u007e\\"é" : ${bad}}]}]}`, '/a/3/b/1/cA~1~0"é'],
  ['the first of two', `{"a":[[1,2],{"b":3,"c":4},${bad},${bad}]}`, '/a/2'],
  ['a long name, which is left out', `{"a":[{"${long}":[{"b":${bad}}]}]}`, '/a/0'],
  ['a long name before', `{"a":[{"${long}":1,"b":${bad}}]}`, '/a/0/b'],
] as const)('a refused number is named by its path: %s (RFC 6901)', ([, text, path]) => {
  expect(inexactAt(text)).toBe(path)
})

test('a number is accepted if a double holds it, and kept exactly', () => {
  const { below, isOneIn } = createRandom('numbers')
  const digits = (most: number) => times(1 + below(most), () => below(10)).join('')
  let accepted = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const fraction = isOneIn(2) ? `.${digits(16)}` : ''
    const exponent = isOneIn(2) ? `e${below(80) - 40}` : ''
    const number = `${isOneIn(2) ? '-' : ''}${BigInt(digits(20))}${fraction}${exponent}`
    const isExact = areEqual(number, JSON.stringify(Number(number)))
    expect(inexactAt(`[${number}]`) === undefined, number).toBe(isExact)
    if (isExact) accepted += 1
    const { kept } = keep(number)
    expect(areEqual(kept, number), number).toBe(true)
    expect(keep(kept)).toEqual({ kept, read: kept })
  }
  expectSome(accepted)
})

test.for([
  ['0', '-0', '0.0', '-0e-20000', '0e999999999999999999999'],
  ['1', '1.0', '10e-1', '0.1E+1'],
  ['-1.5', '-1.50', '-15e-1'],
  ['1e+21', '1000000000000000000000', '1.0e21'],
  ['1e-7', '0.0000001', '10e-8'],
  ['9007199254740993', '9007199254740993.0', '9007199254740.993e3'],
  ['99.989999999999995', '99.9899999999999950', '99989999999999995E-15'],
  ['1.234567890123456789012345e+29', '123456789012345678901234500000', '123456789012345678901234.5e6'],
  ['5e-324', '0.05e-322'],
])('equal numbers are kept in one spelling: %j', ([canonical = '', ...others]) => {
  for (const number of [canonical, ...others]) {
    expect(keep(number)).toEqual({ kept: canonical, read: number })
  }
})

test('a kept object refuses a number too large, small, or long', () => {
  const zeros = '0'.repeat(399)
  const small = `0.${zeros.slice(2)}1`
  for (const number of ['1e309', '-1e400', '1e-324', '-1e-20000', `1${zeros}`, `1.${zeros}`, small]) {
    for (const text of [number, `[1,{"a":${number}}]`, `[${number},1e309]`])
      expect(() => keep(text), text).toThrow(expect.objectContaining({ code: 'invalid_request' }))
    expect(keep(`"${number}"`).read).toBe(`"${number}"`)
  }
  for (const number of ['1.7976931348623157e308', '-5e-324', `1.${zeros.slice(2)}1`, `0.${zeros.slice(1)}`])
    expect(keep(number).read).toBe(number)
})

test('a kept object can change in thousands of places', () => {
  const list = (number: string, separator: string) => `[${Array(5_000).fill(number).join(separator)}]`
  expect(keep(list('1.0', ' , '))).toEqual({ kept: list('1', ','), read: list('1.0', ',') })
})
