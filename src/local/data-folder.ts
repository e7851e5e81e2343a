import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Returns the text of a file that only its owner can read. One of several concurrent calls creates it. */
export async function readOrCreate(folder: string, name: string, make: () => string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const path = join(folder, name)
  try {
    await writeFile(path, make(), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  return await readFile(path, 'utf8')
}
