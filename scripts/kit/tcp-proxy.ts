import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Place } from './places.ts'

/** A TCP proxy that can stall, delay, and lose data silently. */

export type Way = 'to server' | 'to client'

export type Disturbance =
  | { kind: 'stall'; ways: readonly Way[] }
  | { kind: 'latency'; ms: number }
  /** Closes the connections of requests that `isHit` chooses, before or after the server has them, or after it responded. */
  | { kind: 'cut'; when: 'before' | 'during' | 'after'; isHit: () => boolean }

export interface TcpProxy extends Place {
  /** Applies until the next call. */
  disturb(disturbance: Disturbance | null): void
  /** New connections are accepted. */
  cutAll(): void
  close(): Promise<void>
}

const LOOK_MS = 20

/** Calls `target` for each connection, so the server can move. */
export async function openProxy(
  target: () => Place,
  place: Place = { host: '127.0.0.1', port: 0 },
): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  let disturbance: Disturbance | null = null
  const now = () => disturbance
  const server = createServer((near) => {
    const far = connect(target())
    const pair = { near, far, isCut: false }
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket
        .setNoDelay()
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          near.destroy()
          far.destroy()
        })
    }
    void carry(pair, 'to server', now)
    void carry(pair, 'to client', now)
  }).listen(place)
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  const cutAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    host: place.host,
    port: address.port,
    disturb(next) {
      disturbance = next
    },
    cutAll,
    async close() {
      cutAll()
      server.close()
      await once(server, 'close')
    },
  }
}

interface Pair {
  near: Socket
  far: Socket
  /** The next response is lost, with the connection. */
  isCut: boolean
}

async function carry(pair: Pair, way: Way, now: () => Disturbance | null): Promise<void> {
  const [from, to] = way === 'to server' ? [pair.near, pair.far] : [pair.far, pair.near]
  try {
    for await (const bytes of from) {
      for (let held = now(); held?.kind === 'stall' && held.ways.includes(way); held = now()) {
        if (from.destroyed) return
        await sleep(LOOK_MS)
      }
      if (cuts(pair, way, now())) {
        from.destroy()
        return
      }
      await pass(bytes, to, now())
      const after = now()
      if (way === 'to server' && after?.kind === 'cut' && after.when === 'during' && after.isHit()) {
        to.end()
        from.destroy()
      }
    }
    to.end()
  } catch {
    // The connection broke. Its other end closes with it.
  }
}

function cuts(pair: Pair, way: Way, disturbance: Disturbance | null): boolean {
  if (disturbance?.kind !== 'cut' || disturbance.when === 'during') return false
  if (way === 'to client') return pair.isCut
  const isHit = disturbance.isHit()
  pair.isCut ||= isHit && disturbance.when === 'after'
  return isHit && disturbance.when === 'before'
}

async function pass(bytes: Buffer, to: Socket, disturbance: Disturbance | null): Promise<void> {
  if (disturbance?.kind === 'latency') await sleep(disturbance.ms)
  if (!to.write(bytes)) await once(to, 'drain')
}
