import { connect, type Socket } from 'node:net'
import { createAnswerReader } from './answers.ts'
import { type Attack, type Counts, count } from './attack.ts'

/** Connections that are all kept open at once. One that ends is opened again. */
interface HeldConnections {
  url: string
  count: number
  /** Called when the nth connection is open. */
  onOpen(socket: Socket, n: number): void
}

/** Bounds how many are opened, the first time and when they end. */
const OPENS_PER_SECOND = 1_000
const TICK_MS = 20

interface State {
  load: HeldConnections
  counts: Counts
  sockets: Set<Socket>
}

export function holdConnections(load: HeldConnections): Attack {
  const state: State = { load, counts: { 'held at most': 0 }, sockets: new Set() }
  let opened = 0
  const ticker = setInterval(() => {
    const missing = load.count - state.sockets.size
    const allowed = (OPENS_PER_SECOND * TICK_MS) / 1000
    for (let left = Math.min(missing, allowed); left > 0; left -= 1) {
      open(state, opened)
      opened += 1
    }
  }, TICK_MS)
  return {
    counts: () => state.counts,
    stop() {
      clearInterval(ticker)
      for (const socket of state.sockets) socket.destroy()
    },
  }
}

function open({ load, counts, sockets }: State, n: number): void {
  const { hostname, port } = new URL(load.url)
  const socket = connect({ host: hostname, port: Number(port) })
  const reader = createAnswerReader()
  let isOpen = false
  sockets.add(socket)
  socket.setEncoding('latin1')
  socket.on('connect', () => {
    isOpen = true
    count(counts, 'opened')
    counts['held at most'] = Math.max(counts['held at most'] ?? 0, sockets.size)
    load.onOpen(socket, n)
  })
  socket.on('data', (chunk) => {
    for (const status of reader.read(String(chunk))) count(counts, status)
  })
  socket.on('end', () => socket.destroy())
  socket.on('error', () => {})
  socket.on('close', () => {
    count(counts, isOpen ? 'closed by the service' : 'refused')
    sockets.delete(socket)
  })
}
