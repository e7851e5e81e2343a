import { existsSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { MasterKey } from '../../config/config.ts'
import { codeOf } from '../../database/faults.ts'
import type { System } from '../../system.ts'

/** The data folder: what is kept in it is written whole, and only its owner can read it. */

export const MASTER_KEY_FILE = 'master-key'

export async function openLocalMasterKey(dataDir: string, { randomBytes }: System): Promise<MasterKey> {
  const encoded = await readOrCreate(dataDir, MASTER_KEY_FILE, () => randomBytes(32).toString('base64'))
  return { id: 'local', key: Buffer.from(encoded, 'base64') }
}

/** One of several concurrent calls creates it. */
export async function readOrCreate(folder: string, name: string, make: () => string): Promise<string> {
  const file = join(folder, name)
  if (!existsSync(file)) {
    await makeFolder(folder, 0o700)
    await withScratch(file, async (scratch) => {
      const draft = join(scratch, name)
      await fs.writeFile(draft, make(), { mode: 0o600, flush: true })
      await fs.link(draft, file).catch(unless('EEXIST'))
    })
  }
  return await fs.readFile(file, 'utf8')
}

/** What `make` returns, a path in the scratch folder, becomes the folder. One of several concurrent calls creates it. */
export async function createFolder(
  folder: string,
  make: (scratch: string) => Promise<string>,
): Promise<void> {
  await withScratch(folder, async (scratch) => await fs.rename(await make(scratch), folder)).catch(
    (error) => {
      // If a call was faster, the scratch folder can be gone.
      if (!existsSync(folder)) throw error
    },
  )
  // Those of slower calls, and of killed processes.
  const names = (await fs.readdir(dirname(folder))).filter((name) =>
    name.startsWith(`${basename(folder)}.tmp-`),
  )
  await Promise.allSettled(names.map((name) => remove(join(dirname(folder), name))))
}

async function withScratch(path: string, work: (scratch: string) => Promise<void>): Promise<void> {
  const scratch = await fs.mkdtemp(`${path}.tmp-`)
  await work(scratch).finally(() => remove(scratch))
}

export async function makeFolder(path: string, mode: number): Promise<void> {
  if (await fs.mkdir(path, { recursive: true, mode })) await fs.chmod(path, mode)
}

async function remove(folder: string): Promise<void> {
  await fs.rm(folder, { recursive: true, force: true, maxRetries: 3 })
}

export function unless(...codes: string[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.includes(codeOf(error) ?? '')) throw error
    return undefined
  }
}
