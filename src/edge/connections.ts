import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { System } from '../system.ts'
import {
  type Connection,
  forgetIfEmpty,
  type Group,
  groupIn,
  newGroup,
  removeFrom,
  sizeOf,
} from './connection-groups.ts'
import { networkOfIpAddress, widerNetworkOf } from './network.ts'
import { isUnread } from './unread.ts'

/**
 * Bounds the open connections, so that strangers cannot use up the files of the process. A network has a quarter
 * of them, trusted proxies excepted. (An IPv6 /48 has four quarters, so it needs no bound of its own.) Beyond a
 * bound, a new connection takes the place of another; `makeRoom` says of which. One whose client does not take its
 * answer is closed in any case, since the answer occupies memory.
 */

/** Only after this time is a connection without a request idle: a new one has yet to send its first. */
const IDLE_MS = 250
/** A request that takes longer than honest ones do, as those of slow senders and readers. */
const STALLED_MS = 1_000
const CHECK_EVERY_MS = 1_000

interface Options {
  max: number
  isTrusted(ipAddress: string): boolean
  system: Pick<System, 'elapsed'>
  registry: Registry
}

export interface Connections {
  /** Notes that a connection has requests in progress, or has none now. */
  note(socket: Socket, state: 'idle' | 'busy'): void
}

export function boundConnections(server: Server, { max, isTrusted, system, registry }: Options): Connections {
  const perNetwork = Math.max(1, Math.floor(max / 4))
  const open = new Map<Socket, Connection>()
  const strangers = newGroup(() => {})
  const proxies = newGroup(() => {})
  const widerNetworks = new Map<string, Group>()
  const networks = new Map<string, Group>()
  const closed = createMetrics(registry, max, () => open.size)

  server.on('connection', (socket: Socket) => {
    const ipAddress = socket.remoteAddress ?? 'unknown'
    const atFirst = groupsOf(ipAddress)
    if (makeRoom(atFirst)) {
      // Again: a group whose only connection made room is forgotten.
      const groups = groupsOf(ipAddress)
      open.set(socket, { socket, groups, since: system.elapsed() })
      note(socket, 'idle')
      socket.once('close', () => remove(socket))
    } else {
      closed.labels('refused').inc()
      socket.destroy()
      for (const group of atFirst) forgetIfEmpty(group)
    }
  })

  const checks = setInterval(closeUnread, CHECK_EVERY_MS).unref()
  server.once('close', () => clearInterval(checks))

  function closeUnread(): void {
    const now = system.elapsed()
    for (const connection of open.values()) if (isUnread(connection, now)) close(connection, 'unread')
  }

  function groupsOf(ipAddress: string): Group[] {
    if (isTrusted(ipAddress)) return [proxies]
    const network = networkOfIpAddress(ipAddress)
    return [strangers, groupIn(widerNetworks, widerNetworkOf(network)), groupIn(networks, network)]
  }

  /**
   * Idle ones go first, longest idle first. If none is idle, the wider network that has most gives one up. Then
   * one goes whose request stalls, and last one that is new.
   */
  function makeRoom([, widerNetwork, network]: Group[]): boolean {
    if (network && sizeOf(network) >= perNetwork) {
      if (!closeIdle(network, IDLE_MS) && !closeStalled(network) && !closeIdle(network, 0)) return false
    }
    if (open.size < max) return true
    if (closeIdle(strangers, IDLE_MS) || closeIdle(proxies, IDLE_MS)) return true
    return closeOfLargest(widerNetwork) || closeStalled(strangers) || closeIdle(strangers, 0)
  }

  function closeIdle({ idle: [longest] }: Group, idleMs: number): boolean {
    return longest !== undefined && system.elapsed() - longest.since >= idleMs && close(longest, 'idle')
  }

  function closeStalled({ busy: [longest] }: Group): boolean {
    return (
      longest !== undefined && system.elapsed() - longest.since >= STALLED_MS && close(longest, 'stalled')
    )
  }

  /** Closes one of the wider network that has most, unless that of the new connection, `own`, would have as many. */
  function closeOfLargest(own: Group | undefined): boolean {
    let largest = own
    for (const other of widerNetworks.values()) if (sizeOf(other) > sizeOf(largest)) largest = other
    if (!largest || sizeOf(largest) <= sizeOf(own) + 1) return false
    const [longest] = largest.idle.size > 0 ? largest.idle : largest.busy
    return longest !== undefined && close(longest, 'share')
  }

  function close({ socket }: Connection, reason: 'idle' | 'stalled' | 'share' | 'unread'): true {
    closed.labels(reason).inc()
    remove(socket)
    socket.destroy()
    return true
  }

  function remove(socket: Socket): void {
    const connection = open.get(socket)
    open.delete(socket)
    for (const group of connection?.groups ?? []) {
      if (connection) removeFrom(group, connection)
      forgetIfEmpty(group)
    }
  }

  function note(socket: Socket, state: 'idle' | 'busy'): void {
    const connection = open.get(socket)
    if (!connection) return
    connection.since = system.elapsed()
    for (const group of connection.groups) {
      removeFrom(group, connection)
      group[state].add(connection)
    }
  }

  return { note }
}

function createMetrics(registry: Registry, max: number, open: () => number): Counter<'reason'> {
  const registers = [registry]
  new Gauge({
    name: 'gatehouse_connections',
    help: 'Open connections of the public listener',
    registers,
    collect() {
      this.set(open())
    },
  })
  new Gauge({ name: 'gatehouse_connections_max', help: 'Connections that it can hold', registers }).set(max)
  return new Counter({
    name: 'gatehouse_connections_closed_total',
    help: 'Connections closed: idle, stalled or above their share for lack of room, refused, or with an unread answer',
    labelNames: ['reason'],
    registers,
  })
}
