import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Problem } from '../errors.ts'
import type { BodyBudget, Holding } from './body-budget.ts'
import { MAX_UNUSED_BYTES, unusedBody } from './framing.ts'

/** What a chunk takes besides its bytes: a sender can send each byte as a chunk. */
const CHUNK_BYTES = 256

/**
 * Finds room for a body, and returns what reads it.
 * @throws Problem overloaded; when it is read also payload_too_large, or an error of the connection
 */
export function openBody(
  message: IncomingMessage,
  answer: ServerResponse,
  limit: number,
  budget: BodyBudget,
  network: string,
): () => Promise<Buffer> {
  const holding = budget.open(network, Math.min(announcedBytes(message), limit))
  releaseAtEnd(holding, answer, message.socket)
  return () => readBody(message, limit, holding)
}

/** Of a GET or HEAD that announces a body. @throws Problem malformed_http */
export async function passUnusedBody(
  message: IncomingMessage,
  open: (limit: number) => () => Promise<Buffer>,
): Promise<void> {
  const isChunked = message.headers['transfer-encoding'] !== undefined
  if (!isChunked && announcedBytes(message) <= MAX_UNUSED_BYTES) return
  await open(MAX_UNUSED_BYTES)().catch((error: unknown) => {
    throw error instanceof Problem && error.code === 'payload_too_large' ? unusedBody(message) : error
  })
}

function readBody(message: IncomingMessage, limit: number, holding: Holding): Promise<Buffer> {
  if (announcedBytes(message) > limit) return Promise.reject(tooLarge())
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  let length = 0
  let refusal: Problem | undefined

  /** What comes after a refusal is read and dropped: a sender that is still writing does not read answers. */
  function refuse(reason: Problem): void {
    refusal = reason
    drop()
  }

  function drop(): void {
    for (const chunk of chunks.splice(0)) free(chunk)
    holding.release()
  }

  function keep(chunk: Buffer): void {
    length += chunk.length
    if (length > limit) {
      free(chunk)
      stop(tooLarge())
      return
    }
    if (refusal) {
      free(chunk)
      return
    }
    try {
      holding.take(chunk.length + CHUNK_BYTES)
      chunks.push(chunk)
    } catch (error) {
      free(chunk)
      refuse(refusalFrom(error))
    }
  }

  function stop(error: unknown): void {
    message.off('data', keep).off('end', end).off('error', stop)
    drop()
    reject(error)
  }

  function end(): void {
    if (refusal) {
      stop(refusal)
      return
    }
    const [first] = chunks
    const body = first && chunks.length === 1 ? first : Buffer.concat(chunks, length)
    // From here on it is the caller's, also if the connection fails.
    chunks.length = 0
    resolve(body)
  }

  message.on('data', keep).on('end', end).on('error', stop)
  return promise
}

/** Frees a chunk that nobody will read. Under a flood, V8 would do so only after a hundred megabytes. */
function free({ buffer, byteLength }: Buffer): void {
  // A small chunk can share its memory with others.
  if (buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength) buffer.transfer(0)
}

/** One listener per connection, which can have many requests. */
const holdingsOn = new WeakMap<Socket, Set<Holding>>()

/** Also when the connection ends: on Node 22, an answer that waits for an earlier one does not close then. */
function releaseAtEnd(holding: Holding, answer: ServerResponse, socket: Socket): void {
  const holdings = holdingsOn.get(socket) ?? new Set()
  if (!holdingsOn.has(socket)) {
    holdingsOn.set(socket, holdings)
    socket.once('close', () => {
      for (const each of holdings) each.release()
    })
  }
  holdings.add(holding)
  answer.once('close', () => {
    holdings.delete(holding)
    holding.release()
  })
}

function announcedBytes({ headers }: IncomingMessage): number {
  return Number(headers['content-length'] ?? 0)
}

function tooLarge(): Problem {
  return new Problem('payload_too_large', 'The body is larger than this endpoint takes.')
}

function refusalFrom(error: unknown): Problem {
  if (error instanceof Problem) return error
  throw error
}
