import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { hasDebianPostgres, openClusters } from '../support/debian-postgres.ts'
import { openTestService } from '../support/test-service.ts'

/** TLS to Postgres, whose certificate a different authority has signed since. */

const execute = promisify(execFile)

describe.skipIf(!hasDebianPostgres)("on Debian's Postgres", async () => {
  const clusters = await openClusters()
  afterAll(clusters.close)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-certificates-'))
  afterAll(() => rm(folder, { recursive: true }))
  const cluster = await clusters.create()
  const operator = new pg.Client({ host: cluster.host, port: cluster.port, user: 'postgres' })
  await operator.connect()
  afterAll(() => operator.end())

  async function makeCertificate(name: string) {
    const files = ['-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.pem`)]
    const subject = ['-subj', '/CN=database', '-addext', `subjectAltName=IP:${cluster.host}`]
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1']
    await execute('openssl', ['req', '-x509', ...key, ...subject, ...files])
  }

  /** The server reads its files when it is told to reload. */
  async function present(name: string) {
    const { rows } = await operator.query("select current_setting('data_directory') as data")
    for (const ending of ['key', 'pem']) {
      const file = join(rows[0].data, `server.${ending}`)
      await copyFile(join(folder, `${name}.${ending}`), file)
      await clusters.own(file)
    }
    await operator.query('select pg_reload_conf()')
    await operator.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'gatehouse'`)
  }

  test('a certificate of a different authority returns 503 until it is replaced', async () => {
    await makeCertificate('trusted')
    await makeCertificate('unknown')
    await present('trusted')
    for (const setting of ["ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", 'ssl = on'])
      await operator.query(`alter system set ${setting}`)
    await operator.query('select pg_reload_conf()')
    const url = `postgres://postgres@${cluster.host}:${cluster.port}/postgres?sslmode=verify-full&sslrootcert=${join(folder, 'trusted.pem')}`
    const migrating = async () => {
      const { maintenance, close } = connect({ url, poolSize: 1 })
      const outcome = migrate(maintenance).then(() => 'migrated')
      return await outcome.catch((error: Error) => error.message).finally(close)
    }
    await expect.poll(migrating).toBe('migrated')
    const service = await openTestService({ url, timeoutScale: 1 })
    const admin = await service.addCompany()
    expect((await service.login(admin)).status).toBe(200)
    await present('unknown')
    await expect.poll(async () => (await service.login(admin)).status).not.toBe(200)
    const refused = await service.login(admin)
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
    expect(service.logs.join('')).toMatch(/SELF_SIGNED_CERT|UNABLE_TO_VERIFY/)
    await present('trusted')
    await expect.poll(async () => (await service.login(admin)).status).toBe(200)
  })
})
