import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { findFreePort } from '../../workers/free-port.ts'
import { hasCode, isAlive, unless } from '../data-folder.ts'
import {
  childEnv,
  type EmbeddedOptions,
  findRunnable,
  LocalDatabaseError,
  locateBinaries,
  messageOf,
  prepareSite,
  run,
  type Site,
  wayOut,
} from './cluster.ts'

/**
 * The Postgres that is used if none is configured: a real server from npm, with data in the data folder. One process
 * owns it and stops it. Its lock in the server ends with the process; whoever comes after a killed one owns the server.
 */

export interface EmbeddedPostgres {
  url: string
  /** Stops the server, unless another process owns it. Close your own pool first. */
  stop(): Promise<void>
}

const patienceMs = 60_000
const pollMs = 20
const maxLaunches = 8
/** As long as a service takes to stop. */
const maxOwnerWait = '10s'

export async function startEmbeddedPostgres(
  options: EmbeddedOptions,
  binaries = locateBinaries(),
): Promise<EmbeddedPostgres> {
  try {
    const site = await prepareSite(options, binaries)
    const { pid, port, owner } = await enterServer(site)
    let stopped: Promise<void> | undefined
    async function stop(): Promise<void> {
      stopped ??= owner ? stopServer(site, pid, owner) : Promise.resolve()
      await stopped
    }
    // The server has no TLS, so PGSSLMODE must not apply to it.
    const url = `postgres://gatehouse:${site.password}@127.0.0.1:${port}/gatehouse?sslmode=disable`
    return { url, stop }
  } catch (error) {
    const what = `The local database in ${options.dataDir} could not be started`
    // Postgres and initdb say it in English, since they get no locale of ours.
    if (hasCode(error, 'ENOSPC') || messageOf(error).includes('No space left on device')) {
      throw new LocalDatabaseError(`${what}, because the disk is full.`, { cause: error })
    }
    const advice = hasCode(error, 'EACCES', 'EPERM') ? 'Run as the user to whom the folder belongs. ' : ''
    throw new LocalDatabaseError(`${what}.\n${messageOf(error)}\n${advice}${wayOut}`, { cause: error })
  }
}

interface Entered {
  pid: number
  port: number
  /** The connection whose lock makes this process the owner; null if another one is. */
  owner: pg.Client | null
}

async function enterServer(site: Site): Promise<Entered> {
  const launched: { child?: ChildProcess } = {}
  // At once: on a busy machine, a process that stops can have no time left to come back to it.
  const endChild = () => launched.child?.kill('SIGINT')
  site.signal?.addEventListener('abort', endChild)
  const entered = await findServer(site, launched)
    .catch((error) => {
      endChild()
      throw error
    })
    .finally(() => site.signal?.removeEventListener('abort', endChild))
  if (!entered) {
    const lines = (await fs.readFile(site.log, 'utf8').catch(() => '')).trim().split('\n')
    throw new Error(`Postgres does not come up. Its log ${site.log} ends so:\n${lines.slice(-12).join('\n')}`)
  }
  if (entered.owner || site.isCommand) return entered
  throw new Error('Another process runs with this data folder. Stop that one, or set another DATA_DIR.')
}

/** Undefined if it does not come up in time. What was launched can still do so, for the next start. */
async function findServer(site: Site, launched: { child?: ChildProcess }): Promise<Entered | undefined> {
  const deadline = performance.now() + patienceMs
  let launches = 0
  while (performance.now() < deadline) {
    site.signal?.throwIfAborted()
    const { child } = launched
    const lock = await readLock(site.cluster)
    if (lock && (await isPostmaster(lock.pid, site.cluster))) {
      const entered = lock.status === 'ready' ? await enter(site, lock) : undefined
      if (entered) return entered
    } else if (!child || child.exitCode !== null || child.signalCode !== null) {
      if (launches === maxLaunches) break
      // Postgres ignores the lock file of a dead process, but not if another process has its pid now.
      if (lock && (isAlive(lock.pid) || launches > 0)) await setAside(site.cluster, lock.text)
      // A failure can be temporary: another process took the port, or backends of a killed server still run.
      await sleep(launches * 100)
      launched.child = await launch(site)
      launches += 1
    }
    await sleep(pollMs)
  }
  return undefined
}

/** Starts the server process, which outlives us unless it is stopped. The lock file says when it is ready. */
async function launch(site: Site): Promise<ChildProcess> {
  const folder = await findRunnable(site)
  const settings = {
    shared_buffers: '64MB',
    max_connections: '200',
    // Ends the queries of a killed process soon; otherwise they would delay the next start.
    client_connection_check_interval: '1s',
    ...site.settings,
    listen_addresses: '127.0.0.1',
    port: String(await findFreePort({ host: '127.0.0.1', port: 0 })),
    unix_socket_directories: '',
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const log = await fs.open(site.log, 'a', 0o600)
  try {
    // Detached: Ctrl-C in the terminal must reach only us; we stop the server when our work is done.
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

async function enter(site: Site, { pid, port }: Pick<Entered, 'pid' | 'port'>): Promise<Entered | undefined> {
  const socket = new Socket()
  const access = { user: 'gatehouse', password: site.password, database: 'postgres', ssl: false }
  const settings = { ...access, host: '127.0.0.1', port, connectionTimeoutMillis: 5000 }
  const client = new pg.Client({ ...settings, stream: () => socket })
  client.on('error', () => {}) // The pool notices a loss itself.
  try {
    await client.connect()
    const isOwner = await becomeOwner(client, site)
    const found = await client.query(`select from pg_database where datname = 'gatehouse'`)
    // A command can do this at the same time; the slower one gets the error that the database exists.
    if (!found.rowCount) await client.query('create database gatehouse').catch(unless('42P04', '23505'))
    if (!isOwner) await client.end()
    // The connection lasts as long as the process, but does not keep it running.
    socket.unref()
    return { pid, port, owner: isOwner ? client : null }
  } catch (error) {
    await client.end()
    if (hasCode(error, '28P01')) {
      const what = `The password in ${site.dataDir}/postgres.password is not that of the database.`
      throw new Error(`${what} Put the right one back, or delete ${site.cluster} to begin with an empty one.`)
    }
    if (hasCode(error, '55P03')) return { pid, port, owner: null }
    // Temporary: starting, stopping, too many connections, connection lost. Other server errors are not.
    if (error instanceof pg.DatabaseError && !/^(57|53300)/.test(error.code ?? '')) throw error
    return undefined
  }
}

/** By an advisory lock of the connection, which will do, since this server is never distributed. */
async function becomeOwner(client: pg.Client, { isCommand = false }: Site): Promise<boolean> {
  if (isCommand) {
    const { rows } = await client.query<{ isOwner: boolean }>('select pg_try_advisory_lock(1) as "isOwner"')
    return rows[0]?.isOwner ?? false
  }
  await client.query(`set lock_timeout = '${maxOwnerWait}'`)
  await client.query('select pg_advisory_lock(1)')
  return true
}

/** Also cuts off commands that are connected. */
async function stopServer({ cluster }: Site, pid: number, owner: pg.Client): Promise<void> {
  const deadline = performance.now() + patienceMs
  if (await isPostmaster(pid, cluster)) process.kill(pid, 'SIGINT')
  while (await isPostmaster(pid, cluster)) {
    if (performance.now() > deadline) throw new Error(`Postgres (process ${pid}) does not stop.`)
    await sleep(pollMs)
  }
  // Only now: until the shutdown disconnects it, who comes meanwhile waits for our lock.
  await owner.end()
}

async function readLock(cluster: string) {
  const text = await fs.readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(unless('ENOENT'))
  const lines = text?.split('\n') ?? []
  const [pid, port, status] = [Number(lines[0]), Number(lines[3]), lines[7]?.trim()]
  return text === undefined ? undefined : { text, pid, port, status }
}

/** Removes the lock file of a dead server, and restores the file if it is already that of another start. */
async function setAside(cluster: string, text: string): Promise<void> {
  const [file, aside] = [join(cluster, 'postmaster.pid'), join(cluster, 'postmaster.pid.stale')]
  await fs.rename(file, aside).catch(unless('ENOENT'))
  const taken = await fs.readFile(aside, 'utf8').catch(unless('ENOENT'))
  if (taken !== undefined && taken !== text) await fs.link(aside, file).catch(unless('EEXIST', 'ENOENT'))
  await fs.rm(aside, { force: true })
}

/** Process ids are reused, especially in containers. */
async function isPostmaster(pid: number, cluster: string): Promise<boolean> {
  const reading =
    process.platform === 'linux'
      ? fs.readFile(`/proc/${pid}/cmdline`, 'utf8').then((text) => text.replaceAll('\0', ' '))
      : run('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).then(({ stdout }) => stdout.trim())
  const command = await reading.catch(() => '')
  return `${command} `.includes(`postgres -D ${cluster} `)
}
