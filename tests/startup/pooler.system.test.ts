import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql, type Transaction } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { findPlace, isListening } from '../../scripts/kit/places.ts'
import { connect } from '../../src/database/connect.ts'
import type { Database } from '../../src/database/schema.ts'
import { requireSessionPooling, TransactionPoolingError } from '../../src/database/start.ts'
import { openFolder } from '../support/cleanup.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'

/** The service behind PgBouncer with its package's settings, if the machine has it. */

const hasPgBouncer = spawnSync('pgbouncer', ['--version']).status === 0
const testService = await openTestService()
const admin = await testService.addCompany()
const { launch } = createServerProcesses(testService.url)

/** Starts PgBouncer in front of the database, and returns the URL of the database behind it. */
async function startPgBouncer(mode: 'session' | 'transaction'): Promise<string> {
  const database = new URL(testService.url)
  const place = await findPlace()
  const folder = await openFolder()
  // PgBouncer refuses to run as root, so a different account must be able to read its files.
  await chmod(folder, 0o755)
  const users = join(folder, 'users.txt')
  const settings = join(folder, 'pgbouncer.ini')
  const target = `host=${database.hostname} port=${database.port} user=${database.username} password=${database.password}`
  await writeFile(users, `"${database.username}" "${database.password}"\n`)
  await writeFile(
    settings,
    `[databases]\n* = ${target}\n[pgbouncer]\nlisten_addr = ${place.host}\nlisten_port = ${place.port}\nunix_socket_dir =\nauth_type = plain\nauth_file = ${users}\npool_mode = ${mode}\n`,
  )
  const asOther = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const child = spawn('pgbouncer', ['-q', ...asOther, settings], { stdio: 'ignore' })
  const exit = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await exit
  })
  while (!(await isListening(place))) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`)
    await sleep(50)
  }
  const url = new URL(testService.url)
  url.host = `${place.host}:${place.port}`
  return url.href
}

describe.skipIf(!hasPgBouncer)('behind PgBouncer', () => {
  test('the service works behind PgBouncer in session mode', async () => {
    const url = await startPgBouncer('session')
    const connection = connect({ url, poolSize: 2 })
    const { rows } = await sql`select current_setting('statement_timeout') as statement,
      current_setting('lock_timeout') as lock,
      current_setting('idle_in_transaction_session_timeout') as idle`.execute(connection.db)
    expect(rows).toEqual([{ statement: '5s', lock: '2s', idle: '10s' }])
    await requireSessionPooling(connection.db)
    await connection.close()
    await (await openTestService({ url })).loginAs(admin)
  })

  test('a start behind PgBouncer in transaction mode fails with an explanation', async () => {
    const service = await launch({ DATABASE_URL: await startPgBouncer('transaction') })
    expect(await service.exit).toEqual([1, null])
    expect(service.output()).toMatch(/pooler in transaction mode\. Set its pool mode to session\./)
    expect(service.output()).not.toMatch(/^\s+at /m)
  })

  test('transaction mode is detected while other clients use the pooler', async () => {
    const url = await startPgBouncer('transaction')
    const [ours, others] = [connect({ url, poolSize: 2 }), connect({ url, poolSize: 1 })]
    onTestFinished(() => others.close())
    onTestFinished(() => ours.close())
    let isFirst = true

    /** The first time, a different client occupies the first connection's server while the second one takes a server. */
    async function transact<Result>(work: (tx: Transaction<Database>) => Promise<Result>): Promise<Result> {
      if (!isFirst) return await ours.db.transaction().execute(work)
      isFirst = false
      const other = await others.db.startTransaction().execute()
      await sql`select 1`.execute(other)
      return await ours.db.transaction().execute(async (tx) => {
        await other.rollback().execute()
        return await work(tx)
      })
    }

    const db = new Proxy(ours.db, {
      get: (target, name) =>
        name === 'transaction' ? () => ({ execute: transact }) : target.connection.bind(target),
    })
    await expect(requireSessionPooling(db)).rejects.toThrow(TransactionPoolingError)
    expect(isFirst).toBe(false)
  })
})
