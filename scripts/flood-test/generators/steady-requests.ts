import { connect, type Socket } from 'node:net'
import { clientLineOf } from '../networks.ts'
import { createAnswerReader } from './answers.ts'
import { type Attack, type Counts, count } from './attack.ts'

/** Requests at a fixed rate, whatever the answers are, on connections that are opened again when they end. */
interface SteadyRequests {
  url: string
  /** Requests a second. */
  rate: number
  connections: number
  /** How many requests of a connection can wait for their answer. */
  depth: number
  /** Whether each connection begins by naming its client, that of its first request. */
  isProxied?: boolean
  /** Whether each request has a connection of its own. */
  isRoaming?: boolean
  /** The bytes of the nth request. */
  requestOf(n: number): string
}

/** One of the connections. Its socket is null until it is needed, and after it has ended. */
interface Line {
  socket: Socket | null
  outstanding: number
  opensAt: number
}

interface State {
  load: SteadyRequests
  lines: Line[]
  counts: Counts
}

const TICK_MS = 5
/** A connection that has this many bytes waiting takes no more: the service does not read. */
const MAX_WAITING_BYTES = 256 * 1024
/** Bounds how often a connection that the service closes is opened again. */
const REOPEN_AFTER_MS = 50
/** A connection on which nothing is answered for so long is given up, as clients do. */
const SILENCE_MS = 10_000

export function sendSteadily(load: SteadyRequests): Attack {
  const newLine = (): Line => ({ socket: null, outstanding: 0, opensAt: 0 })
  const lines = Array.from({ length: load.connections }, newLine)
  const state: State = { load, lines, counts: {} }
  const startedAt = performance.now()
  let due = 0
  const ticker = setInterval(() => {
    const dueNow = Math.floor(((performance.now() - startedAt) / 1000) * load.rate)
    sendDue(state, due, dueNow)
    due = dueNow
  }, TICK_MS)
  return {
    counts: () => state.counts,
    stop() {
      clearInterval(ticker)
      for (const { socket } of lines) socket?.destroy()
    },
  }
}

/** Sends the requests from one number to another. What no connection can take is not sent later either. */
function sendDue(state: State, from: number, to: number): void {
  const { load, lines, counts } = state
  for (let n = from; n < to; n += 1) {
    const line = findFree(lines, load.depth, n)
    if (!line) {
      count(counts, 'not sent', to - n)
      return
    }
    const text = load.requestOf(n)
    const first = line.socket === null && load.isProxied ? clientLineOf(text) : ''
    const socket = line.socket ?? openLine(state, line)
    socket.write(first + text, 'latin1')
    line.outstanding += 1
    count(counts, 'sent')
  }
}

function findFree(lines: Line[], depth: number, from: number): Line | undefined {
  const now = performance.now()
  for (let tried = 0; tried < lines.length; tried += 1) {
    const line = lines[(from + tried) % lines.length]
    if (line && isFree(line, depth, now)) return line
  }
  return undefined
}

function isFree({ socket, outstanding, opensAt }: Line, depth: number, now: number): boolean {
  if (!socket) return now >= opensAt
  return outstanding < depth && socket.writableLength < MAX_WAITING_BYTES
}

function openLine({ load, counts }: State, line: Line): Socket {
  const { url } = load
  const { hostname: host, port } = new URL(url)
  const socket = connect({ host, port: Number(port), noDelay: true })
  const reader = createAnswerReader()
  line.socket = socket
  socket.setEncoding('latin1')
  line.outstanding = 0
  socket.setTimeout(SILENCE_MS, () => socket.destroy())
  socket.on('data', (chunk) => {
    const statuses = reader.read(String(chunk))
    line.outstanding -= statuses.length
    for (const status of statuses) count(counts, status)
    if (load.isProxied && load.isRoaming && line.outstanding <= 0) socket.destroy()
  })
  socket.on('end', () => socket.destroy())
  socket.on('error', () => {})
  socket.on('close', () => {
    if (line.outstanding > 0) count(counts, 'unanswered', line.outstanding)
    line.socket = null
    line.outstanding = 0
    line.opensAt = performance.now() + REOPEN_AFTER_MS
  })
  return socket
}
