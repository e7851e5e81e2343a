import type { Executor } from '../database/connect.ts'
import { isTooSlow } from '../database/faults.ts'
import { overloaded } from '../errors.ts'
import { type Filter, findNames, listTrail, type Position, type TrailEntry } from './repository.ts'
import { CSV_COLUMNS } from './schemas.ts'

export const NDJSON = 'application/x-ndjson'
export const CSV = 'text/csv'
type Format = typeof NDJSON | typeof CSV

const ROWS = 500

type Line = ReturnType<typeof toReply> & { actorName: string | null; subjectName: string | null }

const WRITERS: Record<Format, { header: string; write(line: Line): string }> = {
  [NDJSON]: { header: '', write: (line) => `${JSON.stringify(line)}\n` },
  [CSV]: {
    header: toRow(CSV_COLUMNS),
    write: (line) => toRow(CSV_COLUMNS.map((name) => textOf(line[name]))),
  },
}

/** Reads as fast as the client does, and uses no database connection between pages. */
export async function* exportTrail(
  db: Executor,
  companyId: string,
  filter: Filter,
  format: Format,
): AsyncGenerator<string> {
  const { header, write } = WRITERS[format]
  let head = header
  for await (const entries of readPages(db, companyId, filter)) {
    const names = await findNames(db, companyId, entries).catch(throwOverloaded)
    // After the first read: until then, the client can get a problem instead.
    if (head) yield head
    head = ''
    const nameOf = (id: string | null) => (id !== null && names[id]) || null
    for (const entry of entries)
      yield write({ ...toReply(entry), actorName: nameOf(entry.actor), subjectName: nameOf(entry.subject) })
  }
}

/** At least one page, which can be empty. */
export async function* readPages(
  db: Executor,
  companyId: string,
  filter: Filter,
): AsyncGenerator<TrailEntry[]> {
  let after: Position | undefined
  do {
    const page = { ...filter, after, max: ROWS }
    const entries = await listTrail(db, companyId, page).catch(throwOverloaded)
    yield entries
    const last = entries[ROWS - 1]
    after = last && { time: last.occurredAt, id: last.id }
  } while (after)
}

/** @throws Problem overloaded if the trail is too large to read in time; otherwise the error */
export function throwOverloaded(error: unknown): never {
  throw isTooSlow(error)
    ? overloaded('Reading the audit trail took too long. Retry with a narrower filter.')
    : error
}

export function toReply({ occurredAt, reason, count, ...entry }: TrailEntry) {
  const summed = { ...(reason !== null && { reason }), ...(count !== null && { count }) }
  return { ...entry, occurredAt: occurredAt.toISOString(), ...summed }
}

function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '')
}

/** A line of RFC 4180. */
function toRow(cells: readonly string[]): string {
  return `${cells.map(toCell).join(',')}\r\n`
}

function toCell(text: string): string {
  // Spreadsheets would run it as a formula (CWE-1236). In some locales, a cell also starts after `;`, quoted or not.
  const harmless = text.replaceAll(/^(?=[=+\-@\t\r])|(?<=;)(?="*[=+\-@])/g, "'")
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
