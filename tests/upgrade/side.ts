import { join } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { Failure, JSON_CONTENT, openClient } from '../../scripts/kit/client.ts'
import { replyOf } from '../../scripts/kit/operations.ts'
import { startService } from '../../scripts/kit/service.ts'

/** One of the instances that run at the same time, and requests to it. */
export interface Side {
  name: string
  url: string
  platformUrl: string
  opsUrl: string
  /** Where it writes its emails. Its log is next to it. */
  dataFolder: string
  /**
   * Sends a request, and returns its response. `expected` is its status and the code of an error. `|` separates
   * alternatives. @throws Failure if the response is different
   */
  ask(route: Route, request?: Request, expected?: string): Promise<Reply>
}

/** Method and path below /api. */
export type Route = `${'GET' | 'POST'} /${string}`

interface Request {
  /** The requesting session, by its access token or its cookie. */
  by?: Pick<Reply, 'accessToken' | 'cookie'>
  json?: object
  headers?: Record<string, string>
  body?: string
}

const text = Type.Optional(Type.String())
/** The parts of responses that are read here. Each response has some of them, and unknown ones. */
const Reply = Type.Object({
  code: text,
  companyId: text,
  session: Type.Optional(Type.Object({ id: Type.String(), expiresAt: Type.String() })),
  accessToken: text,
  refreshToken: text,
  cookie: text,
  id: text,
  email: text,
  password: text,
  secret: text,
  challenge: text,
  recoveryCodes: Type.Optional(Type.Array(Type.String())),
  accepted: Type.Optional(Type.Integer()),
  duplicates: Type.Optional(Type.Integer()),
})
export type Reply = Static<typeof Reply>

const DEADLINE_MS = 20_000

export interface Deployment {
  databaseUrl: string
  folder: string
  /** Variables that all instances share. */
  variables: Record<string, string>
}

/** Starts the service of a checkout, by default of this one. */
export async function startSide(
  name: string,
  checkout: string | undefined,
  { databaseUrl, folder, variables }: Deployment,
  cleanup: AsyncDisposableStack,
): Promise<Side> {
  const dataFolder = join(folder, name)
  const url = new URL(databaseUrl)
  // The database uses the name to distinguish the sides' statements: see mail.ts.
  url.searchParams.set('application_name', name)
  const own = { DATABASE_URL: url.href, DATA_DIR: dataFolder }
  const service = await startService(
    { variables: { ...variables, ...own }, logFile: `${dataFolder}.log`, folder: checkout },
    cleanup,
  )
  const client = openClient(service.url, { connections: 4, deadlineMs: DEADLINE_MS })
  cleanup.defer(() => client.close())

  async function ask(
    route: Route,
    { by, json, headers, body }: Request = {},
    expected = '200',
  ): Promise<Reply> {
    const sent = json ? JSON.stringify(json) : body
    const answer = await client.send({
      method: route.startsWith('GET') ? 'GET' : 'POST',
      path: `/api${route.slice(route.indexOf('/'))}`,
      headers: { ...(json && JSON_CONTENT), ...credentialOf(by), ...headers },
      ...(sent !== undefined && { body: sent }),
    })
    const reply = replyOf(Reply, answer.status, { ...answer, text: answer.text || '{}' })
    const got = `${answer.status} ${reply.code ?? ''}`.trim()
    if (!expected.split('|').includes(got))
      throw new Failure(`${name} answered ${got} to ${route}, not ${expected}`)
    const [, cookie] = /__Host-session=([^;]+)/.exec(answer.cookies.join()) ?? []
    return { ...reply, ...(cookie && { cookie }) }
  }
  return { ...service, name, dataFolder, ask }
}

function credentialOf({ accessToken, cookie }: Pick<Reply, 'accessToken' | 'cookie'> = {}) {
  if (cookie) return { cookie: `__Host-session=${cookie}` }
  return accessToken === undefined ? {} : { authorization: `Bearer ${accessToken}` }
}
