import pg from 'pg'
import { LruMap } from 'toad-cache'

/** pg's parsers, but for two types of which every request reads many values. */
export const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format) {
    if (format !== 'binary' && oid === TEXT_ARRAY) return readTextArray
    if (format !== 'binary' && oid === pg.types.builtins.TIMESTAMPTZ) return readTime
    return pg.types.getTypeParser(oid, format)
  },
}

/** text[], for which pg has no name. */
const TEXT_ARRAY: number = 1009
const parseArray = pg.types.getTypeParser(TEXT_ARRAY)
/** Few distinct lists of permissions and features, so each is parsed once. Frozen, since it is shared. */
const known = new LruMap<readonly string[]>(1_000)

function readTextArray(text: string): readonly string[] {
  const found = known.get(text)
  if (found) return found
  const array: readonly string[] = Object.freeze(parseArray(text))
  known.set(text, array)
  return array
}

const parseTime = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ)
/** ISO 8601, but for a space in place of `T` and an offset without minutes. */
const UTC_TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00$/

function readTime(text: string): Date {
  return UTC_TIME.test(text) ? new Date(`${text.slice(0, 10)}T${text.slice(11)}:00`) : parseTime(text)
}
