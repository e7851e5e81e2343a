import type { Socket } from 'node:net'
import type { Sending } from './unread.ts'

/** Groups of connections that are counted together: see connections.ts. */

export interface Connection extends Sending {
  socket: Socket
  /** It belongs to all strangers, a wider network and a network; or to the proxies alone. */
  groups: Group[]
  /** When it became idle or busy, by `System.elapsed`. */
  since: number
}

/** Connections that are counted together, in the order in which they became idle or busy. */
export interface Group {
  idle: Set<Connection>
  busy: Set<Connection>
  /** Removes the group from where it is listed. */
  forget(): void
}

export function newGroup(forget: () => void): Group {
  return { idle: new Set(), busy: new Set(), forget }
}

export function groupIn(groups: Map<string, Group>, name: string): Group {
  const known = groups.get(name)
  if (known) return known
  const group = newGroup(() => {
    // Another one can be listed by now, if this one was forgotten before.
    if (groups.get(name) === group) groups.delete(name)
  })
  groups.set(name, group)
  return group
}

export function sizeOf(group: Group | undefined): number {
  return group ? group.idle.size + group.busy.size : 0
}

export function removeFrom(group: Group, connection: Connection): void {
  group.idle.delete(connection)
  group.busy.delete(connection)
}

export function forgetIfEmpty(group: Group): void {
  if (sizeOf(group) === 0) group.forget()
}
