import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Gauge, type Registry } from 'prom-client'
import { overloaded, Problem } from '../errors.ts'
import { MAX_UNUSED_BYTES, unusedBody } from './framing.ts'
import { widerNetworkOf } from './network.ts'

/**
 * Bounds the memory of bodies until their requests are answered, in all and by IPv4 address or IPv6 /48. What has arrived
 * counts, since a slow sender could announce much with a few bytes. Large bodies leave room for small ones, such as sign-ins.
 */

const TOTAL_BYTES = 64 * 1024 * 1024
const NETWORK_BYTES = TOTAL_BYTES / 4
const LARGE_BODIES_BYTES = TOTAL_BYTES - NETWORK_BYTES / 2
const SMALL_BODY_BYTES = 16 * 1024

interface Holding {
  /** Returns false if there is no room. */
  take(bytes: number): boolean
  /** Gives everything back. Nothing can be taken afterwards. */
  release(): void
}

export type BodyBudget = ReturnType<typeof createBodyBudget>

export function showBodies(registry: Registry, budgets: BodyBudget[]): void {
  new Gauge({
    name: 'gatehouse_body_bytes',
    help: 'Bytes of request bodies in memory',
    registers: [registry],
    collect() {
      this.set(budgets.reduce((sum, { bytes }) => sum + bytes, 0))
    },
  })
}

export function createBodyBudget() {
  const byNetwork = new Map<string, number>()
  let used = 0

  function add(network: string, bytes: number): void {
    used += bytes
    const own = (byNetwork.get(network) ?? 0) + bytes
    if (own > 0) byNetwork.set(network, own)
    else byNetwork.delete(network)
  }

  return {
    get bytes() {
      return used
    },
    /** For a body of at most `limit` bytes, `announced` of which are expected. @throws Problem overloaded without room for them */
    open(ofNetwork: string, announced: number, limit: number): Holding {
      const network = widerNetworkOf(ofNetwork)
      const total = limit > SMALL_BODY_BYTES ? LARGE_BODIES_BYTES : TOTAL_BYTES
      const hasRoom = (bytes: number) =>
        (byNetwork.get(network) ?? 0) + bytes <= NETWORK_BYTES && used + bytes <= total
      if (!hasRoom(announced)) throw noRoom()
      let held = 0
      let isReleased = false
      return {
        take(bytes) {
          if (isReleased || !hasRoom(bytes)) return false
          held += bytes
          add(network, bytes)
          return true
        },
        release() {
          isReleased = true
          add(network, -held)
          held = 0
        },
      }
    },
  }
}

function noRoom(): Problem {
  return overloaded('Too many request bodies are being received. Retry after 1 second.')
}

/** The overhead of a chunk: a sender can send each byte as its own chunk. */
const CHUNK_BYTES = 256

interface Arriving {
  message: IncomingMessage
  answer: ServerResponse
  network: string
  budget: BodyBudget
}

/**
 * Finds room for a body of at most `limit` bytes, and returns what reads it.
 * @throws Problem overloaded; when it is read also payload_too_large, or an error of the connection
 */
export function openBody(
  { message, answer, network, budget }: Arriving,
  limit: number,
): () => Promise<Buffer> {
  const holding = budget.open(network, Math.min(announcedBytes(message), limit), limit)
  releaseAtEnd(holding, answer, message.socket)
  return () => readBody(message, limit, holding)
}

/** Of a GET or HEAD that announces a body. @throws Problem malformed_http */
export async function passUnusedBody(arriving: Arriving): Promise<void> {
  const { message } = arriving
  const isChunked = message.headers['transfer-encoding'] !== undefined
  if (!isChunked && announcedBytes(message) <= MAX_UNUSED_BYTES) return
  await openBody(arriving, MAX_UNUSED_BYTES)().catch((error: unknown) => {
    throw error instanceof Problem && error.code === 'payload_too_large' ? unusedBody(message) : error
  })
}

function readBody(message: IncomingMessage, limit: number, holding: Holding): Promise<Buffer> {
  const tooLarge = () => new Problem('payload_too_large', 'The body is larger than this endpoint takes.')
  if (announcedBytes(message) > limit) return Promise.reject(tooLarge())
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  let length = 0
  let isRefused = false

  function keep(chunk: Buffer): void {
    length += chunk.length
    if (!isRefused && length <= limit && holding.take(chunk.length + CHUNK_BYTES)) {
      chunks.push(chunk)
      return
    }
    free(chunk)
    drop()
    // What comes after the refusal is read and dropped: a sender that is still writing does not read answers.
    isRefused = true
    if (length > limit) stop(tooLarge())
  }

  function drop(): void {
    for (const chunk of chunks.splice(0)) free(chunk)
    holding.release()
  }

  function stop(error: unknown): void {
    message.off('data', keep).off('end', end).off('error', stop)
    drop()
    reject(error)
  }

  function end(): void {
    if (isRefused) {
      stop(noRoom())
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
