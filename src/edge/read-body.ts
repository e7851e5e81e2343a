import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Problem } from '../errors.ts'
import type { BodyBudget, Holding } from './body-budget.ts'

/** What a chunk takes besides its bytes: a sender can send each byte as a chunk. */
const CHUNK_BYTES = 256

/** @throws Problem payload_too_large, overloaded, or an error of the connection */
export function readBody(message: IncomingMessage, limit: number, holding: Holding): Promise<Buffer> {
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
    holding.onDrop(undefined)
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

  holding.onDrop(refuse)
  message.on('data', keep).on('end', end).on('error', stop)
  return promise
}

/** Sends an answer and closes the connection, without reading the rest of the body. */
export function endAndClose(response: ServerResponse, answer: string): void {
  const { req: message } = response
  response.end(answer, () => {
    // Earlier, the listener would make Node read all that is sent.
    message.on('data', free)
    // After the listener has got what Node has read already.
    process.nextTick(() => message.socket.destroy())
  })
}

/** Frees a chunk that nobody will read. Under a flood, V8 would do so only after a hundred megabytes. */
function free({ buffer, byteLength }: Buffer): void {
  // A small chunk can share its memory with others.
  if (buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength) buffer.transfer(0)
}

/** What Node reads of a body before the app asks for it: two chunks of a socket. */
const UNASKED_BYTES = 128 * 1024
const SMALL_BYTES = 4 * 1024

interface Arriving {
  network: string
  budget: BodyBudget
  /** Called if there is no room for the body, now or later while its request waits. */
  drop(reason: Problem): void
}

/** Holds what Node reads of a body while its request waits. It counts as announced, since no event tells its arrival. */
export function holdUnasked(
  message: IncomingMessage,
  response: ServerResponse,
  { network, budget, drop }: Arriving,
): Holding | undefined {
  const isChunked = message.headers['transfer-encoding'] !== undefined
  const bytes = isChunked ? UNASKED_BYTES : Math.min(announcedBytes(message), UNASKED_BYTES)
  if (!(bytes > SMALL_BYTES)) return undefined
  let holding: Holding | undefined
  try {
    holding = budget.open(network, bytes)
    releaseAtEnd(holding, response, message.socket)
    holding.take(bytes)
    holding.onDrop(drop)
    return holding
  } catch (error) {
    holding?.release()
    drop(refusalFrom(error))
    return undefined
  }
}

/** One listener per connection, which can have many requests. */
const holdingsOn = new WeakMap<Socket, Set<Holding>>()

/** Also when the connection ends: on Node 22, an answer that waits for an earlier one does not close then. */
export function releaseAtEnd(holding: Holding, answer: ServerResponse, socket: Socket): void {
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

export function announcedBytes({ headers }: IncomingMessage): number {
  return Number(headers['content-length'] ?? 0)
}

function tooLarge(): Problem {
  return new Problem('payload_too_large', 'The body is larger than this endpoint takes.')
}

function refusalFrom(error: unknown): Problem {
  if (error instanceof Problem) return error
  throw error
}
