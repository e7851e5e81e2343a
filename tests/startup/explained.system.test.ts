import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { findPlace } from '../../scripts/kit/places.ts'
import { connect } from '../../src/database/connect.ts'
import { waitForDatabase } from '../../src/database/start.ts'
import { explain } from '../../src/startup.ts'
import { createServerProcesses } from '../support/server-process.ts'
import { openTestService } from '../support/test-service.ts'

/** Starts that fail for a reason of the machine: one line for the operator names what to change. */

const { url } = await openTestService()
const { launch } = createServerProcesses(url)

test.for([
  [{ OPS_HOST: '[::1]', OPS_PORT: '0' }, 'OPS_HOST=[::1] and OPS_PORT=0', 'ENOTFOUND'],
  [{ PLATFORM_HOST: 'nowhere.invalid' }, 'PLATFORM_HOST=nowhere.invalid and PLATFORM_PORT=0', ''],
] as const)('a failed start names the listener: %o', async ([env, place, reason]) => {
  const service = await launch(env)
  const [code] = await once(service.child, 'close')
  expect(code).toBe(1)
  const fault = service
    .output()
    .split('\n')
    .find((line) => line.startsWith('Cannot listen'))
  expect(fault).toContain(`Cannot listen at ${place}: `)
  expect(fault).toContain(reason)
  expect(service.output()).not.toMatch(/DATABASE_URL|^\s+at /m)
})

test('a failed start names the port in use', async () => {
  const taken = createServer().listen(await findPlace())
  await once(taken, 'listening')
  onTestFinished(() => void taken.close())
  const { address, port } = Object(taken.address())
  const service = await launch({ HOST: address, PORT: String(port) })
  const [code] = await once(service.child, 'close')
  expect([code, service.output()]).toEqual([
    1,
    expect.stringMatching(new RegExp(`Cannot listen at HOST=${address} and PORT=${port}: .*EADDRINUSE`)),
  ])
})

test('an unknown database CA is explained with both settings for it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-ca-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
  await promisify(execFile)('openssl', ['req', '-x509', ...key, ...subject, '-out', certFile])
  const certificate = { key: await readFile(keyFile), cert: await readFile(certFile) }
  // As Postgres begins TLS, which is as far as the client comes.
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
  const explanationOf = async (parameters: string) => {
    const connection = connect({
      url: `postgres://u:p@127.0.0.1:${port}/gatehouse?sslmode=verify-full${parameters}`,
      poolSize: 2,
    })
    onTestFinished(() => connection.close())
    const options = { signal: new AbortController().signal, say: () => {}, patienceMs: 0 }
    return explain(await waitForDatabase(connection.health, options).catch((error: unknown) => error))
  }
  expect(await explanationOf('')).toMatch(/unknown CA: .*sslrootcert in DATABASE_URL.*NODE_EXTRA_CA_CERTS/)
  expect(await explanationOf(`&sslrootcert=${certFile}`)).not.toMatch(/unknown CA/)
})
