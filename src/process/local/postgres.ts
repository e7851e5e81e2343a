import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { codeOf } from '../../database/faults.ts'
import { findFreePort, messageOf, StartError } from '../listen.ts'
import {
  CHILD,
  type EmbeddedOptions,
  ensureCluster,
  findPrograms,
  locateBinaries,
  openSite,
  run,
  type Site,
  unless,
  WAY_OUT,
} from './data-folder.ts'

/**
 * The Postgres that is used if none is configured: a real server from npm, with data in the data folder. The process
 * that launched it owns it, and it ends with its owner, however that ends. Postgres's lock file decides which of several
 * starts owns it, and says where it listens. Commands connect there; a second service is refused.
 */

const POLL_MS = 20
const MAX_LAUNCHES = 8
/** With the server of another process: for a command, until it is up; for a service, until it ends. */
const COMMAND_PATIENCE_MS = 60_000
const SERVICE_PATIENCE_MS = 10_000
/** For the own server to let us in, once it is ready: recovery before can take long. */
const READY_PATIENCE_MS = 60_000

/** `stop` stops the server if this process owns it, and so cuts off commands. Close your own pool first. */
export async function startEmbeddedPostgres(options: EmbeddedOptions, binaries = locateBinaries()) {
  try {
    return await findServer(await openSite(options, binaries))
  } catch (error) {
    const what = `The local database in ${options.dataDir} could not be started`
    // Postgres and initdb have no locale of ours.
    if (codeOf(error) === 'ENOSPC' || messageOf(error).includes('No space left on device')) {
      throw new StartError(`${what}, because the disk is full.`, { cause: error })
    }
    const isForbidden = /^(EACCES|EPERM)$/.test(codeOf(error) ?? '')
    const advice = isForbidden ? 'Run as the user to whom the folder belongs. ' : ''
    throw new StartError(`${what}.\n${messageOf(error)}\n${advice}${WAY_OUT}`, { cause: error })
  }
}

/** For a command, the server of another process, if there is one; else one that this process launches. */
async function findServer(site: Site) {
  const { isCommand = false, signal } = site
  const deadline = performance.now() + (isCommand ? COMMAND_PATIENCE_MS : SERVICE_PATIENCE_MS)
  let own: ChildProcess | undefined
  let readySince: number | undefined
  try {
    for (let launches = 0; ; await sleep(POLL_MS)) {
      signal?.throwIfAborted()
      const lock = await readLock(site)
      if (lock && (await isPostmaster(lock.pid, site))) {
        const owned = lock.pid === own?.pid ? own : undefined
        const isUsable = lock.status === 'ready' && (owned || isCommand)
        if (isUsable && (await letsUsIn(site, lock.port)))
          return { url: urlOf(site, lock.port, 'gatehouse'), stop: () => stop(owned) }
        if (owned && isUsable) readySince ??= performance.now()
        if (readySince !== undefined && performance.now() > readySince + READY_PATIENCE_MS)
          throw await notComingUp(site)
        // One that is stopping writes what it has in memory, which can take long on a slow disk.
        if (!owned && lock.status !== 'stopping' && performance.now() > deadline)
          throw isCommand ? await notComingUp(site) : new Error(inUse(lock.pid))
      } else if (!own || !isRunning(own)) {
        if (launches === MAX_LAUNCHES) throw await notComingUp(site)
        // Postgres ignores the lock file of a dead process, unless it is empty or another process has its pid now.
        if (own && lock && (await readLock(site))?.text === lock.text) rmSync(site.lockFile, { force: true })
        // A failure can be temporary: another process took the port, or backends of a killed server still run.
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

function inUse(pid: number): string {
  return `Another process runs with this data folder, and with its Postgres (process ${pid}). Stop that one, or set another DATA_DIR.`
}

async function notComingUp({ log }: Site): Promise<Error> {
  const lines = (await fs.readFile(log, 'utf8').catch(() => '')).trim().split('\n')
  return new Error(`Postgres does not come up. Its log ${log} ends so:\n${lines.slice(-12).join('\n')}`)
}

/**
 * The shell turns into Postgres, and leaves a process behind that stops Postgres at the end of its input: when we close
 * it, or are gone. Forked twice, that process is not a child of Postgres. INT is a fast shutdown, after which Postgres ignores
 * TERM; a shell that has not turned into Postgres yet can ignore INT.
 */
const SCRIPT =
  'exec 3<&0; ({ read -r line; kill -INT $$; kill -TERM $$; } <&3 2>&- &); exec "$@" 3<&- </dev/null'

async function launch(site: Site): Promise<ChildProcess> {
  const programs = await findPrograms(site)
  await ensureCluster(site, programs)
  const settings = {
    shared_buffers: '64MB',
    max_connections: '200',
    // Ends the queries of a killed process soon.
    client_connection_check_interval: '1s',
    ...site.settings,
    listen_addresses: '127.0.0.1',
    port: String(await findFreePort({ host: '127.0.0.1', port: 0 })),
    unix_socket_directories: '',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const command = [join(programs, 'postgres'), '-D', site.cluster, ...args]
  const log = await fs.open(site.log, 'a', 0o600)
  const child = spawn('sh', ['-c', SCRIPT, 'sh', ...command], {
    ...CHILD,
    ...site.account,
    // Ctrl-C in the terminal must reach only us; the server ends when our work is done.
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
  server.stdin?.destroy()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) server.kill(signal)
  await once(server, 'exit')
}

/** Whether the server can be used yet. Creates the database in it. @throws an error that time does not mend */
async function letsUsIn(site: Site, port: number): Promise<boolean> {
  const connectionString = urlOf(site, port, 'postgres')
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5000 })
  client.on('error', () => {})
  try {
    await client.connect()
    const found = await client.query(`select from pg_database where datname = 'gatehouse'`)
    // A command can do this at the same time; the slower one gets the error that the database exists.
    if (!found.rowCount) await client.query('create database gatehouse').catch(unless('42P04', '23505'))
    return true
  } catch (error) {
    const code = codeOf(error) ?? ''
    if (code === '28P01') {
      const what = `The password in ${site.dataDir}/postgres.password is not that of the database.`
      throw new Error(`${what} Put the right one back, or delete ${site.cluster} to begin with an empty one.`)
    }
    // Temporary: starting, stopping, too many connections, connection lost. Other server errors are not.
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

/** Process ids are reused, especially in containers. */
async function isPostmaster(pid: number, { cluster }: Site): Promise<boolean> {
  const reading =
    process.platform === 'linux'
      ? fs.readFile(`/proc/${pid}/cmdline`, 'utf8').then((text) => text.replaceAll('\0', ' '))
      : run('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).then(({ stdout }) => stdout.trim())
  const command = await reading.catch(() => '')
  // What the shell leaves behind has the same arguments.
  return !command.startsWith('sh ') && `${command} `.includes(`postgres -D ${cluster} `)
}
