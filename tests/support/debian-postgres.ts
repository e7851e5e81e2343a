import { execFile } from 'node:child_process'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll } from 'vitest'
import { findPlace } from '../../scripts/kit/places.ts'
import { openFolder } from './cleanup.ts'

/** Clusters of Debian's Postgres, because the embedded one lacks the programs for standbys and dumps. */

const BIN = '/usr/lib/postgresql/15/bin'
const isRoot = process.getuid?.() === 0
/** Postgres refuses to run as root. */
const AS_POSTGRES = isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : ['env']

export type Cluster = Awaited<ReturnType<Awaited<ReturnType<typeof openClusters>>['start']>>

/** Creates clusters in their own folder. They end with all tests of the file or group. */
export async function openClusters() {
  const folder = await openFolder()
  const running = new Set<string>()
  let count = 0

  async function execute([program = '', ...args]: string[]): Promise<void> {
    await promisify(execFile)(program, args, { cwd: folder })
  }

  const run = (program: string, ...args: string[]) => execute([...AS_POSTGRES, join(BIN, program), ...args])

  if (isRoot) await execute(['chown', 'postgres:postgres', folder])
  await chmod(folder, 0o755)

  function newData(): string {
    count += 1
    return join(folder, `data-${count}`)
  }

  /** Immediately, like SIGKILL of the machine. */
  async function kill(data: string): Promise<void> {
    if (running.delete(data)) await run('pg_ctl', 'stop', '-D', data, '-m', 'immediate')
  }

  afterAll(async () => {
    for (const data of running) await kill(data)
  })

  async function start(data: string) {
    const place = await findPlace()
    const settings = [
      `listen_addresses=${place.host}`,
      `port=${place.port}`,
      'fsync=off',
      'unix_socket_directories=',
    ]
    const options = settings.map((one) => `-c ${one}`).join(' ')
    await run('pg_ctl', 'start', '-w', '-D', data, '-l', `${data}.log`, '-o', options)
    running.add(data)
    const at = ['-h', place.host, '-p', String(place.port), '-U', 'postgres']
    return {
      ...place,
      kill: () => kill(data),
      promote: () => run('pg_ctl', 'promote', '-w', '-D', data),
      /** Creates a standby without starting it. Returns its folder. */
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
  }
}
