import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs/promises'
import { createServer, Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import {
  type EmbeddedOptions,
  findRunnable,
  locateBinaries,
  prepareSite,
  type Site,
  wayOut,
} from './cluster.ts'
import { childEnv, hasCode, isAlive, LocalDatabaseError, messageOf, run, unless } from './files.ts'

/** The Postgres that is used if none is configured: a real server from npm, with data in the data folder. */

export interface EmbeddedPostgres {
  url: string
  /** Close your own pool first. Another process that is connected keeps the server. */
  stop(): Promise<void>
}

const patienceMs = 60_000
const pollMs = 20
const maxLaunches = 8
const presenceName = 'gatehouse presence'

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

/** `release` closes the connection that keeps the server running. */
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
      // Postgres ignores the lock file of a dead process, but not if another process has its pid now.
      if (lock && (isAlive(lock.pid) || launches > 0)) await setAside(site.cluster, lock.text)
      // A failure can be temporary: another process took the port, or backends of a killed server still run.
      await sleep(launches * 100)
      child = await launch(site)
      launches += 1
    }
    await sleep(pollMs)
  }
  const lines = (await fs.readFile(site.log, 'utf8').catch(() => '')).trim().split('\n')
  throw new Error(`Postgres does not come up. Its log ${site.log} ends so:\n${lines.slice(-12).join('\n')}`)
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
    port: String(await findFreePort()),
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

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}

/** Keeps a connection with a shared lock, which shows other processes that we exist. Undefined: try again. */
async function enter(site: Site, port: number): Promise<(() => Promise<void>) | undefined> {
  const socket = new Socket()
  const client = makeClient(site, port, socket)
  try {
    await client.connect()
    await client.query('select pg_advisory_lock_shared(1)')
    const found = await client.query(`select from pg_database where datname = 'gatehouse'`)
    // Two first starts can both get here; the slower one gets the error that the database exists.
    if (!found.rowCount) await client.query('create database gatehouse').catch(unless('42P04', '23505'))
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
    // Temporary: starting, stopping, too many connections, connection lost. Other server errors are not.
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
  // A lost connection is harmless here: the pool detects it itself, and stop() connects again.
  client.on('error', () => {})
  return client
}

async function stopIfLast(site: Site): Promise<void> {
  const lock = await readLock(site.cluster)
  if (!lock || !(await isPostmaster(lock.pid, site.cluster))) return
  const client = makeClient(site, lock.port)
  const connected = client.connect().then(() => isLastOne(client))
  // No answer: the server is stopping, or it has a fault that the next start must handle.
  const isLast = await connected.catch(() => false)
  if (isLast) {
    process.kill(lock.pid, 'SIGINT')
    const deadline = performance.now() + patienceMs
    while (await isPostmaster(lock.pid, site.cluster)) {
      if (performance.now() > deadline) throw new Error(`Postgres (process ${lock.pid}) does not stop.`)
      await sleep(pollMs)
    }
  }
  // Only now: a process that enters meanwhile waits for our lock until the shutdown disconnects it.
  await client.end()
}

/** Only the last process gets the exclusive lock. An advisory one will do: this server is never distributed. */
async function isLastOne(client: pg.Client): Promise<boolean> {
  const query = `select pg_try_advisory_lock(1) and not exists (select from pg_stat_activity
    where backend_type = 'client backend' and application_name <> $1) as alone`
  // The server detects the end of a pool or a process a little later, so the check is repeated.
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
