import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { findPlace } from '../../scripts/kit/places.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { waitForDatabase } from '../../src/database/start.ts'
import { startEmbeddedPostgres } from '../../src/process/local/postgres.ts'
import { explain } from '../../src/process/startup.ts'
import { makeCertificate } from '../support/certificate.ts'
import { openFolder } from '../support/cleanup.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'

/** If a start fails because of the machine, one line explains what the operator must change. */

const run = promisify(execFile)
const { url } = await openTestService()
const { launch } = createServerProcesses(url)

test('a failed start names the listener', async () => {
  const taken = createServer().listen(await findPlace())
  await once(taken, 'listening')
  onTestFinished(() => void taken.close())
  const { address, port } = Object(taken.address())
  const faults: [env: Record<string, string>, place: string, reason: string][] = [
    [{ OPS_HOST: '[::1]' }, 'OPS_HOST=[::1] and OPS_PORT=0', 'ENOTFOUND'],
    [{ PLATFORM_HOST: 'nowhere.invalid' }, 'PLATFORM_HOST=nowhere.invalid and PLATFORM_PORT=0', ''],
    [{ HOST: address, PORT: String(port) }, `HOST=${address} and PORT=${port}`, 'EADDRINUSE'],
  ]
  for (const [env, place, reason] of faults) {
    const { child, output } = await launch(env)
    expect(await once(child, 'close')).toEqual([1, null])
    const [line] = /^Cannot listen.*/m.exec(output()) ?? []
    expect(line).toContain(`Cannot listen at ${place}: `)
    expect(line).toContain(reason)
    expect(output()).not.toMatch(/DATABASE_URL|^\s+at /m)
  }
})

test('migrations of a different version are refused', async () => {
  const { db } = await openTestService()
  const refusal = async () => explain(await migrate(db).catch((error: unknown) => error))
  const advice = /^The database was migrated by a different version \([^\n]+\)\. Start [^\n]+\.$/
  await sql`delete from kysely_migration where name like '0002-%'`.execute(db)
  expect(await refusal()).toMatch(advice)
  expect(await refusal()).toMatch(/to be at index 1/)
  await sql`update kysely_migration set name = '0002-of-others' where name like '0003-%'`.execute(db)
  expect(await refusal()).toMatch(advice)
  expect(await refusal()).toMatch(/0002-of-others is missing/)
})

/** A disk of 1 MB is too small for Postgres's files, and one of 20 MB for its first database. */
test.for(['1m', '20m'])('the embedded Postgres explains a full disk of %s', async (size, context) => {
  const folder = await openFolder()
  const mounting = run('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=711`, 'none', folder])
  const isMounted = await mounting.then(
    () => true,
    () => false,
  )
  if (!isMounted) context.skip('only root can mount a disk')
  onTestFinished(async () => void (await run('umount', [folder])))
  const starting = startEmbeddedPostgres({ dataDir: join(folder, '.data'), randomBytes })
  expect(explain(await starting.catch((error: unknown) => error))).toMatch(
    /^[^\n]*could not be started, because the disk is full\.$/,
  )
})

test('a full disk is reported with its location', () => {
  const ofDatabase = new pg.DatabaseError('could not extend file: No space left on device', 1, 'error')
  ofDatabase.code = '53100'
  const ofService = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  expect(explain(ofDatabase)).toMatch(/^The database's disk is full: [^\n]+\.$/)
  expect(explain(ofService)).toMatch(/^The disk is full: [^\n]+\.$/)
})

test('an unknown database CA is explained with both of its settings (ASVS 16.3.4)', async () => {
  const certificate = await makeCertificate()
  // Postgres starts TLS like this. The client gets no further.
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write('S')
      new TLSSocket(socket, { isServer: true, ...certificate }).on('error', () => {})
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = Object(server.address())
  const url = `postgres://u:p@127.0.0.1:${port}/gatehouse?sslmode=verify-full`
  const connection = connect({ url, poolSize: 2 })
  onTestFinished(() => connection.close())
  const options = { signal: new AbortController().signal, say: () => {}, patienceMs: 0 }
  const waiting = waitForDatabase(connection.health, options).catch((error: unknown) => error)
  const advice = /unknown CA: .*sslrootcert in DATABASE_URL.*NODE_EXTRA_CA_CERTS/
  expect(explain(await waiting)).toMatch(advice)
})
