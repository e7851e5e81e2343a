import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import type { System } from '../system.ts'
import { makeFolder, unless, withScratch } from './postgres/files.ts'

/** Only its owner can read it. One of several concurrent calls creates it. */
export async function readOrCreate(
  folder: string,
  name: string,
  randomBytes: System['randomBytes'],
  make: () => string,
): Promise<string> {
  const file = join(folder, name)
  const existing = await fs.readFile(file, 'utf8').catch(unless('ENOENT'))
  if (existing !== undefined) return existing
  await makeFolder(folder, 0o700)
  await withScratch(folder, randomBytes, async (scratch) => {
    await fs.writeFile(scratch, make(), { mode: 0o600, flush: true })
    await fs.link(scratch, file).catch(unless('EEXIST'))
  })
  return await fs.readFile(file, 'utf8')
}
