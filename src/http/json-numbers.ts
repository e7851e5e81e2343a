/** Numbers of JSON by their decimal value, of which a double often holds only the nearest one. */

const SMALLEST_NORMAL = 2 ** -1022
/** Bounds the work of one number. */
export const MAX_NUMBER_LENGTH = 400

/** Whether the number, as a double that is written again, has the same value: 0.10 and 1e2 have, 2^53 + 1 has not. */
export function holdsAsWritten(source: string): boolean {
  return source.length <= MAX_NUMBER_LENGTH && canonicalNumber(source) === String(Number(source))
}

/** Whether it is neither too large for a double, nor so small that it becomes zero. */
export function isInRange(source: string): boolean {
  if (source.length > MAX_NUMBER_LENGTH) return false
  const double = Number(source)
  return Number.isFinite(double) && (double !== 0 || !/^[^eE]*[1-9]/.test(source))
}

/** One spelling for each value: that of ECMAScript (Number::toString), with all digits. Its length grows little. */
export function canonicalNumber(source: string): string {
  const double = Number(source)
  // A double holds every decimal of up to 15 digits, unless it is out of range or too close to zero.
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

/** A JSON text with its numbers as they were sent: `spellings` has pairs of an offset and what stands there instead. */
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
