import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { findPostmaster } from '../../scripts/kit/processes.ts'
import { locateBinaries, startEmbeddedPostgres } from '../../src/process/local/postgres.ts'
import { whenDone } from '../support/cleanup.ts'
import { fastFolder } from '../support/postgres.ts'
import { times } from '../support/test-service.ts'

const isRoot = process.getuid?.() === 0
const systemDir = '/var/lib/gatehouse'
const settings = { fsync: 'off' }

// Creating a database takes most of a second, so tests that do not need a new one share this folder.
const sharedDir = await newDataDir()

afterAll(() => rmdir(systemDir).catch(() => {}))

test('the database is UTF-8, on loopback only, with a private password (ASVS 13.2.3)', async () => {
  const { url } = await start(sharedDir)
  expect(url).toMatch(/^postgres:\/\/gatehouse:[\w-]{32}@127\.0\.0\.1:\d+\/gatehouse\?sslmode=disable$/)
  const settled = `select current_setting('server_encoding') as encoding, current_setting('fsync') as fsync,
    current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets`
  const expected = { encoding: 'UTF8', fsync: 'off', addresses: '127.0.0.1', sockets: '' }
  expect(await query(url, settled)).toEqual([expected])
  expect((await stat(join(sharedDir, 'postgres.password'))).mode & 0o777).toBe(0o600)
  expect((await stat(sharedDir)).mode & 0o777).toBe(isRoot ? 0o711 : 0o700)
  await expect(readNotes(url.replace(/:[\w-]{32}@/, ':guess@'))).rejects.toThrow(/authentication/)
})

test('data survives a restart with an empty lock file', async () => {
  const { url, stop } = await start(sharedDir)
  await note(url, 'restart')
  await stop()
  await expect(readNotes(url)).rejects.toThrow()
  await writeFile(join(sharedDir, 'postgres', 'postmaster.pid'), '')
  expect(await readNotes((await start(sharedDir)).url)).toContain('restart')
})

test('commands that start concurrently share a database until all of them stop', async () => {
  const dataDir = await newDataDir()
  const elsewhere = await startElsewhere(dataDir, { isCommand: true })
  const [url, ...commands] = await Promise.all([
    readUrl(elsewhere),
    start(dataDir, { isCommand: true }),
    start(dataDir, { isCommand: true }),
  ])
  expect(commands.map((one) => one.url)).toEqual([url, url])
  await note(url, 'shared')
  expect(await readNotes(url)).toEqual(['shared'])

  await kill(elsewhere)
  await Promise.all(commands.map((one) => one.stop()))
  // If the killed process owned the database, it has ended too.
  await (await start(dataDir)).stop()
  await expect(readNotes(url)).rejects.toThrow()
})

test('a second service is refused, and a command leaves the database running', async () => {
  const owner = await start(sharedDir)
  await expect(start(sharedDir)).rejects.toThrow(/Another process uses this data folder.*DATA_DIR/s)

  const command = await start(sharedDir, { isCommand: true })
  expect(command.url).toBe(owner.url)
  await command.stop()
  await note(owner.url, 'still there')
})

test('one of two concurrently starting services owns the folder', async () => {
  // Either one can be faster than the one that launched the server.
  const outcomes = times(2, async (index) => {
    const dataDir = await newDataDir()
    const both = await Promise.allSettled([start(dataDir), start(dataDir)])
    const [owner, ...others] = both.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    await note(owner?.url ?? '', `folder ${index}`)
    return [others.length, await readNotes(owner?.url ?? '')]
  })
  expect(await Promise.all(outcomes)).toEqual(times(2, (index) => [0, [`folder ${index}`]]))
})

test("a start right after the owner was killed has the owner's data", async () => {
  const owner = await startElsewhere(sharedDir)
  const url = await readUrl(owner)
  await note(url, 'orphan')
  const pid = await readPid(url)
  await kill(owner)

  const next = await start(sharedDir)
  expect(await readPid(next.url)).not.toBe(pid)
  expect(await readNotes(next.url)).toContain('orphan')
  await next.stop()
  await expect(readNotes(next.url)).rejects.toThrow()
})

test('the database ends when its owner is killed, without a new start', async () => {
  const owner = await startElsewhere(sharedDir)
  await readUrl(owner)
  expect(findPostmaster(sharedDir)).toBeGreaterThan(0)
  await kill(owner)
  await expect.poll(() => findPostmaster(sharedDir)).toBeUndefined()
})

test('processes that start concurrently on a new folder each get a connection', async () => {
  const dataDir = await newDataDir()
  const starting = times(4, () => startElsewhere(dataDir, { isCommand: true }))
  const urls = await Promise.all((await Promise.all(starting)).map(readUrl))
  expect(new Set(urls).size).toBe(1)
  const answers = await Promise.all(urls.map((url) => query(url, 'select 42 as answer')))
  expect(answers).toEqual(times(4, () => [{ answer: 42 }]))
})

test('a killed server starts again, even if its process ID is reused', async () => {
  const first = await start(sharedDir)
  await note(first.url, 'killed')
  process.kill(await readPid(first.url), 'SIGKILL')
  const second = await start(sharedDir)
  expect(await readNotes(second.url)).toContain('killed')

  const stranger = await spawnStranger(join(sharedDir, 'postgres'))
  const pid = await readPid(second.url)
  process.kill(pid, 'SIGKILL')
  const lockFile = join(sharedDir, 'postgres', 'postmaster.pid')
  await writeFile(lockFile, (await readFile(lockFile, 'utf8')).replace(String(pid), String(stranger.pid)))
  expect(await readNotes((await start(sharedDir)).url)).toContain('killed')
  expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
})

test('an interrupted first start begins again', async () => {
  const dataDir = await newDataDir()
  const owner = await startElsewhere(dataDir)
  const isUnderWay = async () => {
    const paths = await readdir(dataDir, { recursive: true }).catch(() => [])
    return paths.some((path) => path.endsWith('draft/PG_VERSION'))
  }
  while (owner.exitCode === null && !(await isUnderWay())) await sleep(5)
  await kill(owner)

  await note((await start(dataDir)).url, 'second attempt')
  expect((await readdir(dataDir)).filter((name) => name.includes('tmp'))).toEqual([])
})

test('the database ends with its owner, even while others are connected', async () => {
  const owner = await start(sharedDir)
  const command = await start(sharedDir, { isCommand: true })
  const guest = new pg.Client(command.url)
  guest.on('error', () => {})
  await guest.connect()
  await Promise.all([owner.stop(), owner.stop()])
  await expect(guest.query('select 42 as answer')).rejects.toThrow()
  await expect(readNotes(owner.url)).rejects.toThrow()
})

test('a start succeeds while a different process stops', async () => {
  let current = await start(sharedDir)
  for (const round of times(4, (index) => index)) {
    const [next] = await Promise.all([start(sharedDir), current.stop()])
    await note(next.url, `round ${round}`)
    current = next
  }
})

test('a failed start reports the reason from the log', async () => {
  const attempt = start(sharedDir, { settings: { shared_buffers: 'plenty' } })
  await expect(attempt).rejects.toThrow(/shared_buffers.*DATABASE_URL/s)
})

test('a lost password is reported, and works again when restored', async () => {
  const file = join(sharedDir, 'postgres.password')
  await (await start(sharedDir)).stop()
  const password = await readFile(file, 'utf8')
  await rm(file)
  await expect(start(sharedDir)).rejects.toThrow(/postgres\.password.*Restore the right one/s)
  await writeFile(file, password)
  await note((await start(sharedDir)).url, 'password found')
})

test('a copied data folder opens', async () => {
  const first = await start(sharedDir)
  await note(first.url, 'copied')
  await first.stop()
  const copy = await newDataDir()
  await cp(sharedDir, copy, { recursive: true })
  await chmod(copy, 0o711)
  expect(await readNotes((await start(copy)).url)).toContain('copied')
})

test('a platform without binaries is reported, and DATABASE_URL suggested', () => {
  expect(() => locateBinaries('plan9', 'sparc')).toThrow(/plan9-sparc.*DATABASE_URL/)
})

test('binaries that do not run are reported, and DATABASE_URL suggested', async () => {
  const folder = await newFolder(0o711)
  await mkdir(join(folder, 'native/bin'), { recursive: true })
  await writeFile(join(folder, 'native/pg-symlinks.json'), '[]')
  await writeFile(join(folder, 'native/bin/postgres'), '#!/no/such/loader\n', { mode: 0o755 })
  const attempt = start(await newDataDir(), { binaries: { folder, name: 'broken' } })
  await expect(attempt).rejects.toThrow(/does not run on this machine.*DATABASE_URL/s)
})

test('binaries that cannot be used in place are copied', async () => {
  // The account that runs Postgres cannot enter root's folder. Other users cannot write to it.
  const binaries = await copyWithoutLinks(await newFolder(0o700))
  await chmod(join(binaries.folder, 'native/lib'), 0o555)
  try {
    await note((await start(sharedDir, { binaries })).url, 'binaries copied')
  } finally {
    await chmod(join(binaries.folder, 'native/lib'), 0o755)
  }
  expect(await readdir(sharedDir)).toContain(`postgres-${binaries.name}`)
})

test.runIf(isRoot)("root keeps a closed folder's data elsewhere until the folder is deleted", async () => {
  const closed = await newFolder(0o700)
  const dataDir = join(closed, '.data')
  const first = await start(dataDir)
  await note(first.url, 'closed')
  await first.stop()
  const second = await start(dataDir)
  expect(await readNotes(second.url)).toEqual(['closed'])
  expect((await stat(closed)).mode & 0o777).toBe(0o700)
  expect(await readdir(dataDir)).not.toContain('postgres')

  const other = await start(join(await newFolder(0o700), '.data'))
  expect(await readNotes(other.url)).toEqual([])

  await second.stop()
  await rm(dataDir, { recursive: true })
  expect(await readNotes((await start(dataDir)).url)).toEqual([])
})

async function newFolder(mode: number): Promise<string> {
  const folder = await mkdtemp(join(await fastFolder(), 'gatehouse-embedded-'))
  whenDone(() => remove(folder))
  await chmod(folder, mode)
  return folder
}

/** A data folder that does not exist yet, in a place that the account running Postgres can enter. */
async function newDataDir(): Promise<string> {
  return join(await newFolder(0o711), '.data')
}

type Options = Partial<Parameters<typeof startEmbeddedPostgres>[0]> & {
  binaries?: ReturnType<typeof locateBinaries>
}

async function start(dataDir: string, { binaries = locateBinaries(), ...rest }: Options = {}) {
  const postgres = await startEmbeddedPostgres({ dataDir, randomBytes, settings, ...rest }, binaries)
  let home = ''
  whenDone(async () => {
    await postgres.stop()
    if (home.startsWith(systemDir)) await remove(home)
  })
  const [row] = await query(postgres.url, `select current_setting('data_directory') as cluster`)
  home = dirname(String(row?.['cluster']))
  return postgres
}

/** Uses the database from a different process, which prints the URL and then stays. */
async function startElsewhere(dataDir: string, options: Options = {}): Promise<ChildProcess> {
  const module = new URL('../../src/process/local/postgres.ts', import.meta.url).href
  const script = `
    import { randomBytes } from 'node:crypto'
    import { startEmbeddedPostgres } from ${JSON.stringify(module)}
    const options = ${JSON.stringify({ dataDir, settings, ...options })}
    console.log((await startEmbeddedPostgres({ ...options, randomBytes })).url)
    setInterval(() => {}, 60_000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  whenDone(() => kill(child))
  await once(child, 'spawn')
  return child
}

async function readUrl(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('The process has no output to read.')
  const [chunk] = await once(child.stdout, 'data')
  return String(chunk).trim()
}

/** Kills a process that we started, with its group. The server has its own group. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  process.kill(-child.pid, 'SIGKILL')
  await exit
}

/** A process unrelated to the database, under the account that owns the database. */
async function spawnStranger(cluster: string): Promise<ChildProcess> {
  const { uid, gid } = await stat(cluster)
  const child = spawn('sleep', ['600'], { cwd: '/', detached: true, stdio: 'ignore', uid, gid })
  whenDone(() => kill(child))
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

async function note(url: string, text: string): Promise<void> {
  await query(url, `create table if not exists notes (text text); insert into notes values ('${text}')`)
}

async function readNotes(url: string): Promise<unknown[]> {
  await query(url, 'create table if not exists notes (text text)')
  return (await query(url, 'select text from notes')).map((row) => row['text'])
}

async function remove(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url)
  // A connection that a shutdown cuts also emits an error outside the query.
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
