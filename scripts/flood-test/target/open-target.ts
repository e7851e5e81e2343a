import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import type pg from 'pg'
import {
  type Answer,
  type Client,
  JSON_CONTENT,
  openClient,
  patient,
  requireStatus,
} from '../../kit/client.ts'
import { insertAnalysts } from '../../kit/company.ts'
import { openSender } from '../../kit/events.ts'
import { waitForMail } from '../../kit/mail-folder.ts'
import { type Credentials, replyOf } from '../../kit/operations.ts'
import { createDatabase, openConnection, type Postgres } from '../../kit/postgres.ts'
import { startService } from '../../kit/service.ts'
import { clientLine } from '../networks.ts'
import { startProxy } from './start-proxy.ts'

/** A service with limits as in production, on a database of its own, with a company that came in by itself. */
export interface FloodTarget {
  /** Where clients connect, without a path: the reverse proxy, or the service itself. */
  url: string
  isProxied: boolean
  pid: number | undefined
  dataFolder: string
  connection: pg.Client
  /** The trusted proxy. With `from(network)` it forwards a request of any network. */
  proxy: Client
  admin: Credentials
  /** Members whom the honest load consists of, and members whom attackers know. All have the admin's password. */
  honest: Credentials[]
  attacked: Credentials[]
  signingKey: Buffer
}

interface TargetOptions {
  /** The project whose service it is; this one by default. */
  serviceFolder: string | undefined
  /** Whether the reverse proxy that is shipped stands before the service. */
  isProxied: boolean
  workers: number
}

const PROXY_IP_ADDRESS = '127.0.0.1'
const HONEST_MEMBERS = 150

/** The header by which the trusted proxy tells whom it forwards. */
export function from(network: string): Record<string, string> {
  return { 'x-forwarded-for': network }
}

export async function openFloodTarget(
  postgres: Postgres,
  { serviceFolder, isProxied, workers }: TargetOptions,
  cleanup: AsyncDisposableStack,
): Promise<FloodTarget> {
  const databaseUrl = await createDatabase(postgres, cleanup)
  const name = new URL(databaseUrl).pathname.slice(1)
  const dataFolder = join(postgres.folder, name)
  const variables = {
    DATABASE_URL: databaseUrl,
    MASTER_KEYS: `flood:${randomBytes(32).toString('base64')}`,
    PUBLIC_URL: 'http://flood.example',
    DATA_DIR: dataFolder,
    WORKERS: String(workers),
    TRUST_PROXY: `${PROXY_IP_ADDRESS}/32`,
  }
  const logFile = join(postgres.folder, `${name}.log`)
  const service = await startService({ variables, logFile, folder: serviceFolder }, cleanup)
  const url = isProxied ? await startProxyBefore(service, cleanup) : service.url
  const connection = await openConnection(databaseUrl)
  cleanup.defer(() => connection.end())
  const proxy = isProxied
    ? openForwardingClient(url)
    : openClient(url, { connections: 32, localAddress: PROXY_IP_ADDRESS })
  cleanup.defer(() => proxy.close())
  const admin = await registerCompany(proxy, dataFolder)
  const people = (await insertAnalysts(connection, admin.companyId)).map((email) => ({ ...admin, email }))
  return {
    url,
    isProxied,
    pid: service.pid,
    dataFolder,
    connection,
    proxy,
    admin,
    honest: people.slice(0, HONEST_MEMBERS),
    attacked: people.slice(HONEST_MEMBERS),
    signingKey: (await openSender(proxy, admin)).signingKey,
  }
}

/** Clients that connect from PROXY_IP_ADDRESS name another, as those of a balancer do. */
async function startProxyBefore(
  { url, opsUrl }: { url: string; opsUrl: string },
  cleanup: AsyncDisposableStack,
): Promise<string> {
  const [instance, ops] = [new URL(url).host, new URL(opsUrl).host]
  const variables = {
    BALANCERS: PROXY_IP_ADDRESS,
    MAX_CONNECTIONS: '8000',
    STRANGERS_CONNECTIONS: '6000',
    INSTANCE_1: instance,
    INSTANCE_1_OPS: ops,
    // There is no second one.
    INSTANCE_2: '127.0.0.1:1',
    INSTANCE_2_OPS: '127.0.0.1:1',
  }
  return (await startProxy({ variables }, cleanup)).url
}

/** Sends each request on a connection of the client that it names. */
function openForwardingClient(url: string): Client {
  const clientFor = ({ headers }: { headers?: Record<string, string> }) =>
    openClient(url, { connections: 1, firstLine: clientLine(headers?.['x-forwarded-for'] ?? ELSEWHERE) })
  return {
    async send(request) {
      const client = clientFor(request)
      return await client.send(request).finally(() => client.close())
    },
    async request(expectedStatus, request) {
      const client = clientFor(request)
      return await client.request(expectedStatus, request).finally(() => client.close())
    },
    close: async () => {},
  }
}
const ELSEWHERE = '198.51.100.1'

const RegisterReply = Type.Object({ companyId: Type.String() })

/** Registers a company as anybody can. Its mail is read where the service wrote it. */
async function registerCompany(client: Client, dataFolder: string): Promise<Credentials> {
  const email = 'admin@flood.example'
  const password = randomBytes(18).toString('base64url')
  const company = { companyName: 'Flood test', name: 'Ada', email, password }
  const { companyId } = replyOf(RegisterReply, 201, await postJson(client, '/api/auth/register', company))
  const token = await waitForMail(dataFolder, email, /verify_[\w-]{43}/)
  requireStatus(200, await postJson(client, '/api/auth/verify-email', { token }))
  return { companyId, email, password }
}

function postJson(client: Client, path: string, body: object): Promise<Answer> {
  return patient(client).send({ method: 'POST', path, headers: JSON_CONTENT, body: JSON.stringify(body) })
}
