/** Which numbers of a JSON text keep their value when they are parsed and written again. */

/** A body with a number that would be stored as another one. */
export class InexactNumber extends Error {
  override name = 'InexactNumber'
  /** Where the number is: a JSON pointer (RFC 6901). */
  readonly path: string

  constructor(path: string) {
    super(
      'A number has more digits, or is larger or smaller, than a 64-bit float holds; send it as a string.',
    )
    this.path = path
  }
}

const SMALLEST_NORMAL = 2 ** -1022

/**
 * Whether a double holds the number of a JSON text as it is written: the shortest decimal that stands for the
 * double (which is how it is written again) must have the same value. So 0.10 and 1e2 hold, 2^53 + 1 does not.
 */
export function holdsAsWritten(source: string): boolean {
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
