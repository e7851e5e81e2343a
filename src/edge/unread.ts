import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { System } from '../system.ts'

/** Bounds the memory of responses that clients do not read, in time and in total. The largest are closed first. */

/** Enough for the largest response at 10 KB/s. */
const LONGEST_MS = 10_000
const MAX_UNSENT_BYTES = 64 * 1024 * 1024
const CHECK_EVERY_MS = 250

type Sender = Pick<Socket, 'writableLength' | 'bytesWritten' | 'destroy'>

export function createUnreadAnswers(maxUnsentBytes = MAX_UNSENT_BYTES) {
  const open = new Map<Sender, { given: number; since: number } | undefined>()
  return {
    add: (socket: Sender) => open.set(socket, undefined),
    remove: (socket: Sender) => open.delete(socket),
    check(now: number): number {
      const late: Sender[] = []
      const sending: Sender[] = []
      for (const [socket, seen] of open) {
        // `bytesWritten` includes unsent bytes, so it changes only with the next response, which has its own time.
        const { writableLength, bytesWritten: given } = socket
        if (writableLength === 0) open.set(socket, undefined)
        else if (seen?.given === given && now - seen.since >= LONGEST_MS) late.push(socket)
        else {
          sending.push(socket)
          if (seen?.given !== given) open.set(socket, { given, since: now })
        }
      }
      const closed = [...late, ...largestBeyond(maxUnsentBytes, sending)]
      for (const socket of closed) {
        open.delete(socket)
        socket.destroy()
      }
      return closed.length
    },
    get connections() {
      return open.size
    },
  }
}

function largestBeyond(max: number, sockets: Sender[]): Sender[] {
  let sum = sockets.reduce((bytes, { writableLength }) => bytes + writableLength, 0)
  if (sum <= max) return []
  const largest = sockets.sort((a, b) => b.writableLength - a.writableLength)
  const count = largest.findIndex(({ writableLength }) => {
    const isEnough = sum <= max
    sum -= writableLength
    return isEnough
  })
  return count < 0 ? largest : largest.slice(0, count)
}

export function closeUnread(
  server: Server,
  { system, registry }: { system: Pick<System, 'elapsed'>; registry: Registry },
): void {
  const answers = createUnreadAnswers()
  const registers = [registry]
  const closed = new Counter({
    name: 'gatehouse_connections_closed_total',
    help: 'Connections closed because their client did not read a response',
    registers,
  })
  new Gauge({
    name: 'gatehouse_connections',
    help: 'Open connections of the public listener',
    registers,
    collect() {
      this.set(answers.connections)
    },
  })
  server.on('connection', (socket: Socket) => {
    answers.add(socket)
    socket.once('close', () => answers.remove(socket))
  })
  const checks = setInterval(() => closed.inc(answers.check(system.elapsed())), CHECK_EVERY_MS).unref()
  server.once('close', () => clearInterval(checks))
}
