import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** For the operations listener, log, mail, modules, and connections that are being closed. */
const OTHER_FILES = 100
/** More would take too much memory: an idle connection takes some 10 KB, one with unread bytes 80 KB. */
const MAX_CONNECTIONS = 10_000
const MIN_CONNECTIONS = 16

const Report = Type.Object({ userLimits: Type.Object({ open_files: Type.Object({ soft: Type.Number() }) }) })

const OPEN_FILES = openFilesLimit()

/** How many connections the public listener can hold: what the process's limit of open files leaves for it. */
export function connectionLimit(databasePoolSize: number, files = OPEN_FILES): number {
  const left = files - OTHER_FILES - databasePoolSize
  return Math.max(MIN_CONNECTIONS, Math.min(MAX_CONNECTIONS, left))
}

/** Infinite where there is none, or the system does not tell. */
function openFilesLimit(): number {
  // Otherwise the report makes DNS look-ups for the network interfaces.
  Object.assign(process.report, { excludeNetwork: true })
  const report: unknown = process.report.getReport()
  return Value.Check(Report, report) ? report.userLimits.open_files.soft : Number.POSITIVE_INFINITY
}
