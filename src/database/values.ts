import pg from 'pg'
import { LruMap } from 'toad-cache'

/** How values are read from Postgres: as pg does it, but for two kinds that every request reads many of. */
export const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format) {
    if (format !== 'binary' && oid === TEXT_ARRAY) return readTextArray
    if (format !== 'binary' && oid === pg.types.builtins.TIMESTAMPTZ) return readTime
    return pg.types.getTypeParser(oid, format)
  },
}

/** The oid of text[], which pg has no name for. */
const TEXT_ARRAY: number = 1009
const parseArray = pg.types.getTypeParser(TEXT_ARRAY)
/** Permissions and features: few different ones, so each is parsed once. Frozen, since many share it. */
const known = new LruMap<readonly string[]>(1_000)

function readTextArray(text: string): readonly string[] {
  const found = known.get(text)
  if (found) return found
  const array: readonly string[] = Object.freeze(parseArray(text))
  known.set(text, array)
  return array
}

const parseTime = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ)
/** ISO 8601 but for a space and the minutes of its offset. */
const UTC_TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\+00$/

function readTime(text: string): Date {
  return UTC_TIME.test(text) ? new Date(`${text.slice(0, 10)}T${text.slice(11)}:00`) : parseTime(text)
}
