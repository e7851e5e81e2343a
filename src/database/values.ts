import pg from 'pg'
import { LruMap } from 'toad-cache'

/** The parsers of pg, except for two types of which every request reads many values. */
export const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format) {
    if (format !== 'binary' && oid === TEXT_ARRAY) return readTextArray
    if (format !== 'binary' && oid === pg.types.builtins.TIMESTAMPTZ) return readTime
    return pg.types.getTypeParser(oid, format)
  },
}

/** The oid of text[]. pg has no name for it. */
const TEXT_ARRAY: number = 1009
const parseArray = pg.types.getTypeParser(TEXT_ARRAY)
/** Permissions and features: few distinct lists, so each is parsed once. Frozen, since many share them. */
const known = new LruMap<readonly string[]>(1_000)

function readTextArray(text: string): readonly string[] {
  const found = known.get(text)
  if (found) return found
  const array: readonly string[] = Object.freeze(parseArray(text))
  known.set(text, array)
  return array
}

const parseTime = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ)
/** ISO 8601, except for a space in place of `T` and an offset without minutes. */
const UTC_TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00$/

function readTime(text: string): Date {
  return UTC_TIME.test(text) ? new Date(`${text.slice(0, 10)}T${text.slice(11)}:00`) : parseTime(text)
}
