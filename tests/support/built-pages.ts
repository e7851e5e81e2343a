import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'

/** Builds the pages once per run, as those who start the service do. */
export default async function setup(): Promise<void> {
  await promisify(execFile)(process.execPath, [resolve(import.meta.dirname, '../../scripts/build.ts')])
}
