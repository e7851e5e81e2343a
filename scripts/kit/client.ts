import { connect } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type buildConnector, Pool } from 'undici'

export interface Request<Body = string> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  token?: string
  headers?: Record<string, string>
  body?: Body
}

export interface Answer {
  status: number
  cookies: string[]
  text: string
}

export interface Client {
  send(request: Request<string | Readable>): Promise<Answer>
  /** Returns the JSON of the response. @throws Failure for a different status */
  request(expectedStatus: number, request: Request): Promise<unknown>
  close(): Promise<void>
}

interface ClientOptions {
  connections: number
  /** From connecting to the end of the response. Without it, only silence is an error. */
  deadlineMs?: number
  /** Sent on each connection before its first request. */
  firstLine?: string
}

const SILENCE_MS = 30_000

/** The service's Retry-After. */
const RETRY_AFTER_MS = 1_000
const MAX_TRIES = 20

export const JSON_CONTENT = { 'content-type': 'application/json' }

export function openClient(url: string, options: ClientOptions): Client {
  const { connections, deadlineMs, firstLine } = options
  const pool = new Pool(url, {
    connections,
    pipelining: 1,
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
    ...(firstLine !== undefined && { connect: connectWith(firstLine) }),
  })
  return clientOf(
    (request) => send(pool, request, deadlineMs),
    () => pool.destroy(),
  )
}

/** Retries after a 503. For requests before a measurement. */
export function patient({ send, close }: Client): Client {
  async function sendUntilAnswered(request: Request<string | Readable>): Promise<Answer> {
    for (let tries = 1; ; tries += 1) {
      const answer = await send(request)
      if (answer.status !== 503 || tries === MAX_TRIES) return answer
      await sleep(RETRY_AFTER_MS)
    }
  }
  return clientOf(sendUntilAnswered, close)
}

function clientOf(send: Client['send'], close: Client['close']): Client {
  return {
    send,
    async request(expectedStatus, request) {
      const answer = await send(request)
      requireStatus(expectedStatus, answer)
      const { text } = answer
      return text === '' ? null : JSON.parse(text)
    },
    close,
  }
}

function connectWith(firstLine: string): buildConnector.connector {
  return ({ hostname, port }, callback) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true })
    socket.once('error', (error) => callback(error, null))
    socket.once('connect', () => {
      socket.write(firstLine)
      callback(null, socket)
    })
  }
}

async function send(
  pool: Pool,
  { method, path, token, headers, body }: Request<string | Readable>,
  deadlineMs: number | undefined,
): Promise<Answer> {
  const signal = deadlineMs === undefined ? null : AbortSignal.timeout(deadlineMs)
  try {
    const answer = await pool.request({
      method,
      path,
      headers: token === undefined ? (headers ?? null) : { authorization: `Bearer ${token}`, ...headers },
      body: body ?? null,
      signal,
    })
    const cookies = [answer.headers['set-cookie'] ?? []].flat()
    return { status: answer.statusCode, cookies, text: await answer.body.text() }
  } catch (error) {
    throw signal?.aborted ? new Failure('timeout') : error
  }
}

/** @throws Failure with the status and, if there is one, the code of the problem (RFC 9457) */
export function requireStatus(expected: number, { status, text }: Answer): void {
  const [, code = ''] = /"code":"([a-z_]+)"/.exec(text) ?? []
  if (status !== expected) throw new Failure(`${status} ${code}`.trimEnd())
}

/** An unexpected response. `isWrong`: it reports success, but does not match the request. */
export class Failure extends Error {
  readonly code: string
  readonly isWrong: boolean
  constructor(code: string, isWrong = false) {
    super(code)
    this.code = code
    this.isWrong = isWrong
  }
}

export function requireCorrect(isCorrect: boolean, fault: string): void {
  if (!isCorrect) throw new Failure(`wrong response: ${fault}`, true)
}

/** The code of a failure or of a network error; otherwise its text. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
