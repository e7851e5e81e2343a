import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import type { MasterKey } from '../../config/config.ts'
import type { System } from '../../system.ts'

/** The data folder: what is kept in it is written whole, and only its owner can read it. */

const scratchPrefix = 'postgres.tmp-'
const scratchInUse = new Set<string>()

export const MASTER_KEY_FILE = 'master-key'

export async function openLocalMasterKey(dataDir: string, { randomBytes }: System): Promise<MasterKey> {
  const make = () => randomBytes(32).toString('base64')
  const encoded = await readOrCreate(dataDir, MASTER_KEY_FILE, randomBytes, make)
  return { id: 'local', key: Buffer.from(encoded, 'base64') }
}

/** One of several concurrent calls creates it. */
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

export async function makeFolder(path: string, mode: number): Promise<void> {
  if (await fs.mkdir(path, { recursive: true, mode })) await fs.chmod(path, mode)
}

/** The process id in its name shows whether a killed process left it. */
export async function withScratch(
  folder: string,
  randomBytes: System['randomBytes'],
  work: (scratch: string) => Promise<void>,
): Promise<void> {
  const scratch = join(folder, `${scratchPrefix}${process.pid}-${randomBytes(6).toString('hex')}`)
  scratchInUse.add(scratch)
  try {
    await work(scratch)
  } finally {
    await fs.rm(scratch, { recursive: true, force: true, maxRetries: 3 })
    scratchInUse.delete(scratch)
  }
}

export async function dropLeftovers(folder: string): Promise<void> {
  const names = (await fs.readdir(folder).catch(unless('ENOENT'))) ?? []
  for (const name of names.filter((each) => each.startsWith(scratchPrefix))) {
    const path = join(folder, name)
    const pid = Number.parseInt(name.slice(scratchPrefix.length), 10)
    const isInUse = pid === process.pid ? scratchInUse.has(path) : isAlive(pid)
    if (!isInUse) await fs.rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
  }
}

export function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

export function unless(...codes: string[]): (error: unknown) => undefined {
  return (error) => {
    if (!hasCode(error, ...codes)) throw error
    return undefined
  }
}
