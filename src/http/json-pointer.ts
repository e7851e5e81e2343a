const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** A pointer ends before a longer name, at the object that has it: an answer is not to repeat a whole body. */
const MAX_NAME_LENGTH = 1_000

interface Level {
  index: number
  /** Where the name of the present member begins; undefined in an array. */
  nameAt: number | undefined
}

/** The JSON pointer (RFC 6901) of the value that begins at index `end` of a valid JSON text, in one pass. */
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
