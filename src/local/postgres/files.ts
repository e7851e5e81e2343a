import { execFile } from 'node:child_process'
import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Account {
  uid?: number
  gid?: number
}

/** Without our environment: secrets must not reach other processes. */
export const childEnv = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' }

/** The message says why the local database cannot be used, and what to do. */
export class LocalDatabaseError extends Error {
  override name = 'LocalDatabaseError'
}

const scratchPrefix = 'postgres.tmp-'
const scratchInUse = new Set<string>()
const execute = promisify(execFile)

/** The process id in its name shows whether a killed process left it. */
export async function withScratch(
  folder: string,
  randomBytes: (size: number) => Buffer,
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

export async function run(file: string, args: string[], account: Account = {}): Promise<{ stdout: string }> {
  return await execute(file, args, { ...account, cwd: '/', env: childEnv })
}

/** An existing folder keeps its own mode. */
export async function makeFolder(path: string, mode: number): Promise<void> {
  if (await fs.mkdir(path, { recursive: true, mode })) await fs.chmod(path, mode)
}

export async function giveTo({ uid, gid }: Account, path: string): Promise<void> {
  if (uid !== undefined) await run('chown', ['-R', `${uid}:${gid}`, path])
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

export function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

export function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(() => true).catch(() => false)
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.trim() : String(error)
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
