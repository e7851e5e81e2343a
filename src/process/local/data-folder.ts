import { existsSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { MasterKey } from '../../config/config.ts'
import { codeOf } from '../../database/faults.ts'
import type { System } from '../../system.ts'

/** Files and folders are complete when they appear, even if several processes create them or one is killed. */

export const MASTER_KEY_FILE = 'master-key'

export async function openLocalMasterKey(dataDir: string, { randomBytes }: System): Promise<MasterKey> {
  const encoded = await readOrCreate(dataDir, MASTER_KEY_FILE, () => randomBytes(32).toString('base64'))
  return { id: 'local', key: Buffer.from(encoded, 'base64') }
}

/** Of concurrent calls, one creates the file, and all return its content. */
export async function readOrCreate(folder: string, name: string, make: () => string): Promise<string> {
  const file = join(folder, name)
  if (!existsSync(file)) {
    await makeFolder(folder, 0o700)
    const scratch = await fs.mkdtemp(`${file}.tmp-`)
    const draft = join(scratch, name)
    try {
      await fs.writeFile(draft, make(), { mode: 0o600, flush: true })
      await fs.link(draft, file).catch(unless('EEXIST'))
    } finally {
      await remove(scratch)
    }
  }
  return await fs.readFile(file, 'utf8')
}

/** Of concurrent calls, one creates the folder. `make` fills `draft` in a scratch folder, which then gets its name. */
export async function createFolder(folder: string, make: (draft: string, scratch: string) => Promise<void>) {
  if (existsSync(folder)) return
  const scratch = await fs.mkdtemp(`${folder}.tmp-`)
  const draft = join(scratch, 'draft')
  try {
    await make(draft, scratch)
    await fs.rename(draft, folder)
  } catch (error) {
    await remove(scratch)
    // A faster call removes the scratch folders of the others, and of killed processes.
    if (!existsSync(folder)) throw error
  }
  for await (const name of fs.glob(`${basename(folder)}.tmp-*`, { cwd: dirname(folder) }))
    await remove(join(dirname(folder), name)).catch(() => {})
}

export async function makeFolder(path: string, mode: number): Promise<void> {
  if (await fs.mkdir(path, { recursive: true, mode })) await fs.chmod(path, mode)
}

async function remove(path: string): Promise<void> {
  await fs.rm(path, { recursive: true, force: true, maxRetries: 3 })
}

export function unless(...codes: string[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.includes(codeOf(error) ?? '')) throw error
    return undefined
  }
}
