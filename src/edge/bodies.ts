import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Gauge, type Registry } from 'prom-client'
import { overloaded, Problem } from '../errors.ts'
import { MAX_UNUSED_BYTES, unusedBody } from './framing.ts'
import { widerNetworkOf } from './network.ts'

/** Bounds the memory of request bodies. Only bytes that arrived count, because a slow sender can announce many for free. */

const TOTAL_BYTES = 64 * 1024 * 1024
const NETWORK_BYTES = TOTAL_BYTES / 4
/** Leaves room for small bodies, such as sign-ins. */
const LARGE_BODIES_BYTES = TOTAL_BYTES - NETWORK_BYTES / 2
const SMALL_BODY_BYTES = 16 * 1024

export type BodyBudget = ReturnType<typeof createBodyBudget>
type Holding = ReturnType<BodyBudget['open']>

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
    /** Expects `announced` bytes, and `limit` at most. @throws Problem overloaded if there is no room for them */
    open(ofNetwork: string, announced: number, limit: number) {
      const network = widerNetworkOf(ofNetwork)
      const total = limit > SMALL_BODY_BYTES ? LARGE_BODIES_BYTES : TOTAL_BYTES
      const hasRoom = (bytes: number) =>
        (byNetwork.get(network) ?? 0) + bytes <= NETWORK_BYTES && used + bytes <= total
      if (!hasRoom(announced)) throw noRoom()
      let held = 0
      let isReleased = false
      return {
        take(bytes: number): boolean {
          if (isReleased || !hasRoom(bytes)) return false
          held += bytes
          add(network, bytes)
          return true
        },
        release(): void {
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

/** Overhead of each chunk: a sender can send every byte as its own chunk. */
const CHUNK_BYTES = 256

interface Arriving {
  message: IncomingMessage
  answer: ServerResponse
  network: string
  budget: BodyBudget
}

/** @throws Problem overloaded; the returned reader also payload_too_large, or an error of the connection */
export function openBody(
  { message, answer, network, budget }: Arriving,
  limit: number,
): () => Promise<Buffer> {
  const holding = budget.open(network, Math.min(announcedBytes(message), limit), limit)
  releaseAtEnd(holding, answer, message.socket)
  return () => readBody(message, limit, holding)
}

/** For a GET or HEAD that announces a body. @throws Problem malformed_http, overloaded */
export async function passUnusedBody(arriving: Arriving): Promise<void> {
  const { message } = arriving
  const isChunked = message.headers['transfer-encoding'] !== undefined
  if (!isChunked && announcedBytes(message) <= MAX_UNUSED_BYTES) return
  await openBody(arriving, MAX_UNUSED_BYTES)().catch((error: unknown) => {
    throw error instanceof Problem && error.code === 'payload_too_large' ? unusedBody(message) : error
  })
}

function readBody(message: IncomingMessage, limit: number, holding: Holding): Promise<Buffer> {
  const tooLarge = () => new Problem('payload_too_large', 'The body is larger than this endpoint accepts.')
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
    // The rest is read and dropped, because a sender does not read the response while it writes.
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
    // The caller owns the chunks now, even if the connection fails.
    chunks.length = 0
    resolve(body)
  }

  message.on('data', keep).on('end', end).on('error', stop)
  return promise
}

/** Under a flood, V8 would collect dropped chunks only after 100 MB of them. */
function free({ buffer, byteLength }: Buffer): void {
  // Small chunks can share a buffer.
  if (buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength) buffer.transfer(0)
}

const holdingsOn = new WeakMap<Socket, Set<Holding>>()

/** Even when the connection ends: on Node 22, a response that waits for an earlier one does not close then. */
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
