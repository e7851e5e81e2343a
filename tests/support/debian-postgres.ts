import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findPlace } from '../../scripts/kit/places.ts'

/** Clusters of Debian's Postgres, for what the embedded one has no programs for: standbys and dumps. */

const BIN = '/usr/lib/postgresql/15/bin'
export const hasDebianPostgres = existsSync(join(BIN, 'pg_basebackup'))
const execute = promisify(execFile)

export type Cluster = Awaited<ReturnType<Awaited<ReturnType<typeof openClusters>>['start']>>

/** Makes clusters in a folder of their own. */
export async function openClusters() {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-clusters-'))
  const account = await findAccount()
  if (account.uid !== undefined && account.gid !== undefined) await chown(folder, account.uid, account.gid)
  await chmod(folder, 0o755)
  const started: { stop(): Promise<void> }[] = []
  let count = 0

  async function run(program: string, ...args: string[]): Promise<void> {
    await execute(join(BIN, program), args, { ...account, cwd: folder })
  }

  function newData(): string {
    count += 1
    return join(folder, `data-${count}`)
  }

  /** Starts the server of a cluster that is there. */
  async function start(data: string) {
    const place = await findPlace()
    const settings = [
      `listen_addresses=${place.host}`,
      `port=${place.port}`,
      'fsync=off',
      'unix_socket_directories=',
    ]
    const child = spawn(join(BIN, 'postgres'), ['-D', data, ...settings.flatMap((one) => ['-c', one])], {
      ...account,
      stdio: 'ignore',
    })
    const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    async function end(signal: NodeJS.Signals): Promise<void> {
      child.kill(signal)
      await exit
    }
    started.push({ stop: () => end('SIGQUIT') })
    for (let isReady = false; !isReady; ) {
      if (child.exitCode !== null) throw new Error(`postgres ended with ${child.exitCode}`)
      isReady = await run('pg_isready', '-q', '-h', place.host, '-p', String(place.port)).then(
        () => true,
        () => false,
      )
    }
    const at = ['-h', place.host, '-p', String(place.port), '-U', 'postgres']
    return {
      ...place,
      /** At once, as SIGKILL of the machine would. */
      kill: () => end('SIGQUIT'),
      promote: () => run('pg_ctl', 'promote', '-w', '-D', data),
      /** A standby, which is not started. Returns where it is. */
      async copy() {
        const copy = newData()
        await run('pg_basebackup', ...at, '-D', copy, '-R', '-X', 'stream', '-c', 'fast')
        return copy
      },
      async dump() {
        const file = join(folder, `dump-${count}`)
        await run('pg_dump', ...at, '-Fc', '-f', file, 'postgres')
        return file
      },
      restore: (file: string) => run('pg_restore', ...at, '-d', 'postgres', '--exit-on-error', file),
    }
  }

  return {
    start,
    async create() {
      const data = newData()
      await run('initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '--locale=C.UTF-8', '-E', 'UTF8', '-N')
      return await start(data)
    },
    async close() {
      for (const { stop } of started) await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Postgres refuses to run as root. */
async function findAccount(): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {}
  const accounts = await readFile('/etc/passwd', 'utf8')
  const [, uid, gid] = /^postgres:[^:]*:(\d+):(\d+):/m.exec(accounts) ?? []
  return { uid: Number(uid), gid: Number(gid) }
}
