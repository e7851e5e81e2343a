import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect, createServer as createTcpServer, type Server as TcpServer } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { issueCertificate } from '../../scripts/cluster/certificates.ts'
import { readInstanceTls } from '../../scripts/cluster/instance.ts'
import { startHaproxy, startProxy } from '../../scripts/kit/haproxy.ts'
import { findPlace } from '../../scripts/kit/places.ts'
import { openFolder, whenDone } from '../support/cleanup.ts'
import { times } from '../support/test-service.ts'

/** TLS between machines: the public HAProxy, and the one beside each instance, with certificates by deploy/certificates.sh. */

const HOST = '127.0.0.1'
const folder = await openFolder()
const proxyMachine = await issueCertificate(folder, 'proxy', [])
const instanceMachine = await issueCertificate(folder, 'instance', ['gatehouse'])
const databaseMachine = await issueCertificate(folder, 'machine', ['localhost'])
const otherNames = await issueCertificate(folder, 'other', [])
const otherCa = await issueCertificate(await openFolder(), 'instance', ['gatehouse', 'localhost'])

async function listen(server: Server | TcpServer, { host = HOST, port = 0 } = {}): Promise<string> {
  await once(server.listen(port, host), 'listening')
  whenDone(async () => void server.close())
  return `${host}:${Object(server.address()).port}`
}

/** A server with a certificate, which requires one from its callers. */
async function secure(machine: string, handle: RequestListener, { requestCert = true } = {}) {
  const own = await readFile(join(machine, 'machine.pem'))
  const ca = await readFile(join(folder, 'ca.pem'))
  return createTlsServer({ cert: own, key: own, ca, requestCert, rejectUnauthorized: requestCert }, handle)
}

function openCleanup(): AsyncDisposableStack {
  const cleanup = new AsyncDisposableStack()
  whenDone(() => cleanup.disposeAsync())
  return cleanup
}

/** The public proxy. The first instance has its own address for health checks. */
async function openEdge(instances: string[], { ops = instances[0] ?? '', tls = '' } = {}) {
  const [first = '', second = first] = instances
  const variables = {
    INSTANCE_1: first,
    INSTANCE_1_OPS: ops,
    INSTANCE_1_PLATFORM: first,
    INSTANCE_2: second,
    INSTANCE_2_OPS: second === first ? ops : second,
    INSTANCE_2_PLATFORM: second,
    INSTANCE_TLS: tls || (await readInstanceTls(proxyMachine)),
  }
  return await startProxy({ variables }, openCleanup())
}

/** The proxy beside an instance. */
async function openBeside(instance: string, variables: Record<string, string> = {}) {
  const [ops, platform] = [await listen(createServer(answerReady)), await listen(createServer(answerReady))]
  const portOf = (address: string) => address.slice(address.lastIndexOf(':') + 1)
  const { host } = await findPlace()
  const database = await findPlace()
  const env = {
    RUN_AS: userInfo().username,
    TLS_FOLDER: instanceMachine,
    MACHINE: host,
    PORT: portOf(instance),
    OPS_PORT: portOf(ops),
    PLATFORM_PORT: portOf(platform),
    DATABASE_BIND: `${database.host}:${database.port}`,
    ...variables,
  }
  await startHaproxy({ file: 'haproxy-database.cfg', env, place: database }, openCleanup())
  return { database, address: `${host}:${portOf(instance)}`, ops: `${host}:${portOf(ops)}` }
}

const answerReady: RequestListener = (_, answer) => answer.end()

async function statusOf(url: string): Promise<number> {
  const { statusCode, body } = await request(url, { method: 'POST', body: '{}' })
  await body.dump()
  return statusCode
}

test.for([
  ['serves instances whose certificate names gatehouse', instanceMachine, 200],
  ['refuses a certificate without this name', otherNames, 503],
  ['refuses a certificate from a different CA', otherCa, 503],
] as const)('the public proxy %s (ASVS 12.3.2, 12.3.4)', async ([, machine, status]) => {
  let received = 0
  const instance = await secure(machine, (_, answer) => {
    received += 1
    answer.end()
  })
  const { url } = await openEdge([await listen(instance)])
  expect(await statusOf(url)).toBe(status)
  expect(received > 0).toBe(status === 200)
})

test('requests pass the proxy beside an instance unchanged', async () => {
  const instance = await listen(
    createServer(async (message, answer) => {
      const { rawHeaders, socket, url } = message
      let body = ''
      for await (const part of message.setEncoding('utf8')) body += part
      answer.end(JSON.stringify({ rawHeaders, body, url, from: socket.remoteAddress }))
    }),
  )
  const { address, ops } = await openBeside(instance)
  const direct = await openEdge([instance], { tls: 'no-ssl' })
  const encrypted = await openEdge([address], { ops })
  const answers = []
  for (const { url } of [direct, encrypted]) {
    const headers = { host: 'gatehouse.example', 'x-forwarded-for': '192.0.2.1', 'x-empty': '' }
    const { body } = await request(`${url}/%61?b=%20`, { method: 'POST', headers, body: '{"c": 1}' })
    answers.push(await body.json())
  }
  expect(answers[1]).toEqual(answers[0])
  expect(answers[1]).toMatchObject({ body: '{"c": 1}', url: '/%61?b=%20', from: HOST })
})

test('the next instance gets a request if the first one does not accept it', async () => {
  const gone = createServer()
  const { address, ops } = await openBeside(await listen(gone))
  await once(gone.close(), 'close')
  const { url } = await openEdge([address, await listen(await secure(instanceMachine, answerReady))], { ops })
  // The proxy notices it within a second.
  await expect.poll(() => Promise.all(times(8, () => statusOf(url)))).toEqual(times(8, () => 200))
  for (const _ of times(8, () => {})) expect(await statusOf(url)).toBe(200)
})

test('the database is a machine whose Patroni has a certificate for it (ASVS 12.3.2, 12.3.4)', async () => {
  const { port } = await findPlace()
  const machines = await Promise.all(
    [otherCa, otherNames, databaseMachine].map(async (machine, index) => {
      const { host } = await findPlace()
      await listen(await secure(machine, answerReady, { requestCert: false }), { host, port })
      return await listen(
        createTcpServer((socket) => socket.on('error', () => {}).end(`machine ${index + 1}`)),
        { host },
      )
    }),
  )
  const databases = Object.fromEntries(machines.map((address, index) => [`POSTGRES_${index + 1}`, address]))
  const instance = await listen(createServer(answerReady))
  const { database } = await openBeside(instance, { PATRONI_PORT: String(port), ...databases })
  async function reached(): Promise<string> {
    const socket = connect(database).setEncoding('utf8')
    let said = ''
    for await (const part of socket) said += part
    return said
  }
  const reachedBy = async (count: number) => new Set(await Promise.all(times(count, reached)))
  await expect.poll(() => reachedBy(9)).toEqual(new Set(['machine 3']))
})
