/** Codes as people type and paste them: from a word processor, with a keyboard for full-width or Arabic digits. */

/** Spaces, dashes, and format characters. A Japanese keyboard has the prolonged sound mark where others have the hyphen. */
const IGNORED = /[\p{White_Space}\p{Dash}\p{Cf}\u30fc]/gu
const DIGIT = /\p{Nd}/u

/** The plain form of a code. Every code passes through here before it is checked. */
export function normalizeCode(text: string): string {
  return text
    .normalize('NFKC')
    .replace(IGNORED, '')
    .replace(/[^\p{ASCII}]/gu, (character) => (DIGIT.test(character) ? decimalOf(character) : character))
}

/** NFKC leaves digits such as the Arabic ones. In Unicode, the digits of a script are a row of ten that begins with the zero. */
function decimalOf(digit: string): string {
  const point = digit.codePointAt(0) ?? 0
  let value = 0
  while (DIGIT.test(String.fromCodePoint(point - value - 1))) value += 1
  // Rows can touch.
  return String(value % 10)
}
