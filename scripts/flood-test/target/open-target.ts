import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type pg from 'pg'
import { openConnection } from '../../load-test/database/connection.ts'
import { createDatabase, type Postgres } from '../../load-test/database/postgres.ts'
import { insertAnalysts } from '../../load-test/database/users.ts'
import { type Client, JSON_CONTENT, openClient, parseReply } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { obtainSigningKey } from '../../load-test/operations/signing-key.ts'
import { startService } from '../../load-test/target/start-service.ts'
import { waitForToken } from './mail-folder.ts'

/** A service with limits as in production, on a database of its own, with a company that came in by itself. */
export interface FloodTarget {
  /** Without a path. */
  url: string
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
  maxFiles: number | undefined
}

const PROXY_IP_ADDRESS = '127.0.0.1'
const HONEST_MEMBERS = 150

/** The header by which the trusted proxy tells whom it forwards. */
export function from(network: string): Record<string, string> {
  return { 'x-forwarded-for': network }
}

export async function openFloodTarget(
  postgres: Postgres,
  { serviceFolder, maxFiles }: TargetOptions,
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
    TRUST_PROXY: `${PROXY_IP_ADDRESS}/32`,
  }
  const logFile = join(postgres.folder, `${name}.log`)
  const { url, pid } = await startService({ variables, logFile, folder: serviceFolder, maxFiles }, cleanup)
  const connection = await openConnection(databaseUrl)
  cleanup.defer(() => connection.end())
  const proxy = openClient(url, { connections: 32, localAddress: PROXY_IP_ADDRESS })
  cleanup.defer(() => proxy.close())
  const admin = await registerCompany(proxy, dataFolder)
  const people = (await insertAnalysts(connection, admin.companyId)).map((email) => ({ ...admin, email }))
  return {
    url,
    pid,
    dataFolder,
    connection,
    proxy,
    admin,
    honest: people.slice(0, HONEST_MEMBERS),
    attacked: people.slice(HONEST_MEMBERS),
    signingKey: await obtainSigningKey(proxy, admin),
  }
}

const RegisterReply = TypeCompiler.Compile(Type.Object({ companyId: Type.String() }))

/** Registers a company as anybody can. Its mail is read where the service wrote it. */
async function registerCompany(client: Client, dataFolder: string): Promise<Credentials> {
  const email = 'admin@flood.example'
  const password = randomBytes(18).toString('base64url')
  const company = { companyName: 'Flood test', name: 'Ada', email, password }
  const { companyId } = parseReply(RegisterReply, await postJson(client, 201, '/api/auth/register', company))
  const token = await waitForToken(dataFolder, email, 'verify')
  await postJson(client, 200, '/api/auth/verify-email', { token })
  return { companyId, email, password }
}

function postJson(client: Client, status: number, path: string, body: object): Promise<unknown> {
  return client.request(status, { method: 'POST', path, headers: JSON_CONTENT, body: JSON.stringify(body) })
}
