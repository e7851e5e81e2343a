import { writeFile } from 'node:fs/promises'
import { UsageError } from '../usage-error.ts'
import { toPage } from './page.ts'
import type { Report } from './report.ts'

export interface ReportFiles {
  json?: string
  html?: string
}

/** Called before anything is measured, so that no figures get lost. @throws UsageError */
export async function requireWritable(files: ReportFiles): Promise<void> {
  for (const file of Object.values(files)) {
    await writeFile(file, '', { flag: 'a' }).catch((error) => {
      throw new UsageError(`The report cannot be written: ${error.message}`)
    })
  }
}

export async function writeReport(report: Report, files: ReportFiles): Promise<void> {
  if (files.json) await writeFile(files.json, `${JSON.stringify(report, null, 2)}\n`)
  if (files.html) await writeFile(files.html, toPage(report))
}
