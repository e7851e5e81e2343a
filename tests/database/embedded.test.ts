import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { type EmbeddedPostgres, locateBinaries, startEmbeddedPostgres } from '../../src/database/embedded.ts'

const isRoot = process.getuid?.() === 0
const systemDir = '/var/lib/gatehouse'
const settings = { fsync: 'off' }

const started: EmbeddedPostgres[] = []
const children: ChildProcess[] = []
const folders: string[] = []
let prepared: Promise<string> | undefined

afterEach(async () => {
  for (const child of children.splice(0)) await kill(child)
  for (const postgres of started.splice(0)) await postgres.stop()
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  await rmdir(systemDir).catch(() => {})
})

afterAll(async () => {
  if (prepared) await rm(dirname(await prepared), { recursive: true, force: true })
})

describe('the embedded Postgres', { timeout: 60_000 }, () => {
  test('keeps its data over a restart', async () => {
    const dataDir = await newDataDir()
    const first = await start(dataDir)
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    await expect(query(first.url, 'select 1')).rejects.toThrow()

    const second = await start(dataDir)
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }])
  })

  test('is a UTF-8 database named gatehouse that listens on the loopback interface alone', async () => {
    const { url } = await start(await newDataDir())
    expect(url).toMatch(/^postgres:\/\/gatehouse:[\w-]{32}@127\.0\.0\.1:\d+\/gatehouse$/)
    const settled = `select current_setting('server_encoding') as encoding, current_setting('fsync') as fsync,
      current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets`
    expect(await query(url, settled)).toEqual([
      { encoding: 'UTF8', fsync: 'off', addresses: '127.0.0.1', sockets: '' },
    ])
    await expect(query(url.replace(/:[\w-]{32}@/, ':guess@'), 'select 1')).rejects.toThrow(/authentication/)
  })

  test('keeps its password to its user', async () => {
    const dataDir = await newDataDir()
    await start(dataDir)
    expect((await stat(join(dataDir, 'postgres.password'))).mode & 0o777).toBe(0o600)
    expect((await stat(dataDir)).mode & 0o777).toBe(isRoot ? 0o711 : 0o700)
  })

  test('serves two folders at once', async () => {
    const [one, other] = await Promise.all([start(await preparedDataDir()), start(await preparedDataDir())])
    await query(one.url, 'create table mine ()')
    await expect(query(other.url, 'select from mine')).rejects.toThrow(/does not exist/)
  })

  test('is shared by processes that start at the same moment', async () => {
    const dataDir = await newDataDir()
    const [here, again, elsewhere] = await Promise.all([
      start(dataDir),
      start(dataDir),
      startElsewhere(dataDir).then(readUrl),
    ])
    expect([again.url, elsewhere]).toEqual([here.url, here.url])
    await query(here.url, 'create table shared ()')
    expect(await query(elsewhere, 'select from shared')).toEqual([])
  })

  test('lives on as an orphan of a killed process and is adopted', async () => {
    const dataDir = await preparedDataDir()
    const owner = await startElsewhere(dataDir)
    const url = await readUrl(owner)
    await query(url, 'create table kept as select 42 as answer')
    const pid = await readPid(url)
    await kill(owner)

    const adopted = await start(dataDir)
    expect(await readPid(adopted.url)).toBe(pid)
    expect(await query(adopted.url, 'select answer from kept')).toEqual([{ answer: 42 }])
    await adopted.stop()
    await expect(query(adopted.url, 'select 1')).rejects.toThrow()
  })

  test('recovers when its server was killed', async () => {
    const dataDir = await preparedDataDir()
    const first = await start(dataDir)
    await query(first.url, 'create table kept as select 42 as answer')
    process.kill(await readPid(first.url), 'SIGKILL')

    const second = await start(dataDir)
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }])
  })

  test('recovers when the pid of its killed server now belongs to another process', async () => {
    const dataDir = await preparedDataDir()
    const first = await start(dataDir)
    await query(first.url, 'create table kept as select 42 as answer')
    const stranger = await spawnStranger(join(dataDir, 'postgres'))
    const pid = await readPid(first.url)
    process.kill(pid, 'SIGKILL')
    const lockFile = join(dataDir, 'postgres', 'postmaster.pid')
    await writeFile(lockFile, (await readFile(lockFile, 'utf8')).replace(String(pid), String(stranger.pid)))

    const second = await start(dataDir)
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }])
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
  })

  test('recovers from an empty lock file', async () => {
    const dataDir = await preparedDataDir()
    await writeFile(join(dataDir, 'postgres', 'postmaster.pid'), '')
    expect(await query((await start(dataDir)).url, 'select answer from prepared')).toEqual([{ answer: 42 }])
  })

  test('begins again when its first start was killed half way', async () => {
    const dataDir = await newDataDir()
    const owner = await startElsewhere(dataDir)
    const isUnderWay = async () => {
      const paths = await readdir(dataDir, { recursive: true }).catch(() => [])
      return paths.some((path) => path.endsWith('cluster/PG_VERSION'))
    }
    while (owner.exitCode === null && !(await isUnderWay())) await sleep(5)
    await kill(owner)

    const { url } = await start(dataDir)
    expect(await query(url, 'select 42 as answer')).toEqual([{ answer: 42 }])
    expect((await readdir(dataDir)).filter((name) => name.includes('tmp'))).toEqual([])
  })

  test('goes on when stopped while another client is connected, and ends with the last one', async () => {
    const dataDir = await preparedDataDir()
    const first = await start(dataDir)
    const guest = new pg.Client(first.url)
    await guest.connect()
    await Promise.all([first.stop(), first.stop()])
    expect((await guest.query('select 42 as answer')).rows).toEqual([{ answer: 42 }])
    await guest.end()

    const second = await start(dataDir)
    expect(second.url).toBe(first.url)
    await second.stop()
    await expect(query(second.url, 'select 1')).rejects.toThrow()
  })

  test('goes on when one of two processes stops, even if the other has no connection open', async () => {
    const dataDir = await preparedDataDir()
    const elsewhere = await startElsewhere(dataDir)
    const url = await readUrl(elsewhere)
    await (await start(dataDir)).stop()
    expect(await query(url, 'select 42 as answer')).toEqual([{ answer: 42 }])

    await kill(elsewhere)
    await (await start(dataDir)).stop()
    await expect(query(url, 'select 1')).rejects.toThrow()
  })

  test('ends when all who use it stop at the same moment', async () => {
    const dataDir = await preparedDataDir()
    const users = await Promise.all([start(dataDir), start(dataDir), start(dataDir)])
    await Promise.all(users.map((user) => user.stop()))
    for (const { url } of users) await expect(query(url, 'select 1')).rejects.toThrow()
  })

  test('serves whoever starts it while another stops it', async () => {
    const dataDir = await preparedDataDir()
    let current = await start(dataDir)
    for (let round = 0; round < 10; round++) {
      const [next] = await Promise.all([start(dataDir), current.stop()])
      expect(await query(next.url, 'select 42 as answer')).toEqual([{ answer: 42 }])
      current = next
    }
  })

  test('opens a data folder that was copied', async () => {
    const { url } = await start(await preparedDataDir())
    expect(await query(url, 'select answer from prepared')).toEqual([{ answer: 42 }])
  })

  test('says what its log says when it cannot start', async () => {
    const attempt = start(await preparedDataDir(), { settings: { shared_buffers: 'plenty' } })
    await expect(attempt).rejects.toThrow(/shared_buffers.*DATABASE_URL/s)
  })

  test('says so when its password was lost', async () => {
    const dataDir = await preparedDataDir()
    await rm(join(dataDir, 'postgres.password'))
    await expect(start(dataDir)).rejects.toThrow(/postgres\.password.*Put the right one back/s)
    await writeFile(join(dataDir, 'postgres.password'), 'guess')
    await expect(start(dataDir)).rejects.toThrow(/postgres\.password.*Put the right one back/s)
  })
})

describe('the binaries of the embedded Postgres', { timeout: 60_000 }, () => {
  test('name DATABASE_URL as the way out on a platform that has none', () => {
    expect(() => locateBinaries('plan9', 'sparc')).toThrow(/plan9-sparc.*DATABASE_URL/)
  })

  test('name DATABASE_URL as the way out when they do not run', async () => {
    const folder = await newFolder(0o711)
    await mkdir(join(folder, 'native/bin'), { recursive: true })
    await writeFile(join(folder, 'native/pg-symlinks.json'), '[]')
    await writeFile(join(folder, 'native/bin/postgres'), '#!/no/such/loader\n', { mode: 0o755 })
    const attempt = start(await preparedDataDir(), { binaries: { folder, name: 'broken' } })
    await expect(attempt).rejects.toThrow(/native\/bin\/postgres.*DATABASE_URL/s)
  })

  test('get the links that npm left out', async () => {
    const binaries = await copyWithoutLinks(await newFolder(0o711))
    const { url } = await start(await newDataDir(), { binaries })
    expect(await query(url, 'select 42 as answer')).toEqual([{ answer: 42 }])
  })

  test('are copied when they cannot be used in place', async () => {
    // For root the folder is closed to the account that runs Postgres; for others it is not theirs to write.
    const binaries = await copyWithoutLinks(await newFolder(0o700))
    const copy = `postgres-${binaries.name}`
    folders.push(join(systemDir, copy))
    await chmod(join(binaries.folder, 'native/lib'), 0o555)
    const dataDir = await preparedDataDir()
    try {
      const { url } = await start(dataDir, { binaries })
      expect(await query(url, 'select 42 as answer')).toEqual([{ answer: 42 }])
    } finally {
      await chmod(join(binaries.folder, 'native/lib'), 0o755)
    }
    expect(await readdir(isRoot ? systemDir : dataDir)).toContain(copy)
  })
})

describe.runIf(isRoot)('the embedded Postgres of root', { timeout: 60_000 }, () => {
  test('keeps its data elsewhere when the data folder is below a closed one', async () => {
    const closed = await newFolder(0o700)
    const dataDir = join(closed, '.data')
    const first = await start(dataDir)
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    const second = await start(dataDir)
    expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }])
    expect((await stat(closed)).mode & 0o777).toBe(0o700)
    expect(await readdir(dataDir)).not.toContain('postgres')

    const other = await start(join(await newFolder(0o700), '.data'))
    await expect(query(other.url, 'select from kept')).rejects.toThrow(/does not exist/)
  })

  test('begins with an empty database after the data folder was deleted', async () => {
    const dataDir = join(await newFolder(0o700), '.data')
    const first = await start(dataDir)
    await query(first.url, 'create table kept ()')
    await first.stop()
    await rm(dataDir, { recursive: true })
    await expect(query((await start(dataDir)).url, 'select from kept')).rejects.toThrow(/does not exist/)
  })
})

async function newFolder(mode: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-embedded-'))
  folders.push(folder)
  await chmod(folder, mode)
  return folder
}

/** A data folder that does not exist yet, in a place that the account running Postgres can pass. */
async function newDataDir(): Promise<string> {
  return join(await newFolder(0o711), '.data')
}

/** One with a database in it, which is a copy: making a database takes most of a second. */
async function preparedDataDir(): Promise<string> {
  prepared ??= prepareDataDir()
  const dataDir = await newDataDir()
  await cp(await prepared, dataDir, { recursive: true })
  await chmod(dataDir, 0o711)
  return dataDir
}

async function prepareDataDir(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'gatehouse-embedded-'))
  await chmod(home, 0o711)
  const dataDir = join(home, '.data')
  const postgres = await startEmbeddedPostgres({ dataDir, randomBytes, settings })
  await query(postgres.url, 'create table prepared as select 42 as answer')
  await postgres.stop()
  return dataDir
}

type Options = Partial<Parameters<typeof startEmbeddedPostgres>[0]> & {
  binaries?: ReturnType<typeof locateBinaries>
}

async function start(
  dataDir: string,
  { binaries = locateBinaries(), ...rest }: Options = {},
): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({ dataDir, randomBytes, settings, ...rest }, binaries)
  started.push(postgres)
  const [row] = await query(postgres.url, `select current_setting('data_directory') as cluster`)
  const home = dirname(String(row?.['cluster']))
  if (home.startsWith(systemDir)) folders.push(home)
  return postgres
}

/** Another process that uses the database; it prints the url and then stays. */
async function startElsewhere(dataDir: string): Promise<ChildProcess> {
  const module = new URL('../../src/database/embedded.ts', import.meta.url).href
  const script = `
    import { randomBytes } from 'node:crypto'
    import { startEmbeddedPostgres } from ${JSON.stringify(module)}
    const options = { dataDir: ${JSON.stringify(dataDir)}, settings: { fsync: 'off' }, randomBytes }
    console.log((await startEmbeddedPostgres(options)).url)
    setInterval(() => {}, 60_000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  children.push(child)
  await once(child, 'spawn')
  return child
}

async function readUrl(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('The process has no output to read.')
  const [chunk] = await once(child.stdout, 'data')
  return String(chunk).trim()
}

/** Kills a process that we started, with the children that share its group; the server has its own. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  process.kill(-child.pid, 'SIGKILL')
  await exit
}

/** A process with nothing to do with the database, of the account that the database belongs to. */
async function spawnStranger(cluster: string): Promise<ChildProcess> {
  const { uid, gid } = await stat(cluster)
  const child = spawn('sleep', ['600'], { cwd: '/', detached: true, stdio: 'ignore', uid, gid })
  children.push(child)
  await once(child, 'spawn')
  return child
}

async function copyWithoutLinks(home: string): Promise<ReturnType<typeof locateBinaries>> {
  const installed = locateBinaries()
  const folder = join(home, 'package')
  await cp(installed.folder, folder, { recursive: true, verbatimSymlinks: true })
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isSymbolicLink()) await rm(join(entry.parentPath, entry.name))
  return { folder, name: `${installed.name}-${randomBytes(4).toString('hex')}` }
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  // A connection cut by a shutdown also speaks up outside of the query.
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

async function readPid(url: string): Promise<number> {
  const [row] = await query(url, `select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int as pid`)
  return Number(row?.['pid'])
}
