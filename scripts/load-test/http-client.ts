import type { Static, TSchema } from '@sinclair/typebox'
import type { TypeCheck } from '@sinclair/typebox/compiler'
import { Pool } from 'undici'
import { Failure } from './drive/failure.ts'

interface Request {
  method: 'GET' | 'POST'
  path: string
  token?: string
  headers?: Record<string, string>
  body?: string
}

export interface Client {
  /** Sends a request and returns the JSON of the answer. @throws Failure for another status */
  request(expectedStatus: number, request: Request): Promise<unknown>
  close(): Promise<void>
}

/** An answer that takes longer is an error. */
const TIMEOUT_MS = 30_000

export const JSON_CONTENT = { 'content-type': 'application/json' }

export function openClient(url: string, connections: number): Client {
  const pool = new Pool(url, {
    connections,
    pipelining: 1,
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
  })
  return {
    request: (expectedStatus, request) => sendRequest(pool, expectedStatus, request),
    close: () => pool.destroy(),
  }
}

async function sendRequest(
  pool: Pool,
  expectedStatus: number,
  { method, path, token, headers, body }: Request,
): Promise<unknown> {
  const answer = await pool.request({
    method,
    path,
    headers: token === undefined ? (headers ?? null) : { authorization: `Bearer ${token}`, ...headers },
    body: body ?? null,
  })
  const text = await answer.body.text()
  if (answer.statusCode !== expectedStatus)
    throw new Failure(`${answer.statusCode} ${problemCodeOf(text)}`.trimEnd())
  return text === '' ? null : JSON.parse(text)
}

/** The code of a problem document (RFC 9457), or nothing for any other body. */
function problemCodeOf(text: string): string {
  const [, code = ''] = /"code":"([a-z_]+)"/.exec(text) ?? []
  return code
}

/** @throws Failure that counts as a wrong answer */
export function parseReply<T extends TSchema>(schema: TypeCheck<T>, reply: unknown): Static<T> {
  if (!schema.Check(reply)) throw new Failure('wrong answer: not the expected JSON', true)
  return reply
}
