import { globSync } from 'node:fs'
import { dirname } from 'node:path'
import { UsageError } from '../kit/command.ts'

/** Where the programs of Debian's packages are, and what to install if they are not. */

const NEEDED: Record<string, string> = {
  '/usr/sbin/haproxy': 'haproxy',
  '/usr/bin/patroni': 'patroni',
  '/usr/bin/etcd': 'etcd-server',
  '/usr/lib/python3/dist-packages/etcd': 'python3-etcd',
  '/usr/lib/postgresql/*/bin/postgres': 'postgresql',
  '/usr/bin/setpriv': 'util-linux',
  '/usr/sbin/ip': 'iproute2',
}

export interface Programs {
  /** The folder with the programs of Postgres. */
  postgres: string
}

/** @throws UsageError that says what is missing */
export function findPrograms(): Programs {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new UsageError('The cluster needs Linux and root: each of its machines has a network of its own.')
  }
  const missing = Object.entries(NEEDED).flatMap(([path, name]) => (globSync(path).length > 0 ? [] : [name]))
  if (missing.length > 0) throw new UsageError(adviceFor(missing))
  const newest = globSync('/usr/lib/postgresql/*/bin/postgres').toSorted(byVersion).at(-1) ?? ''
  return { postgres: dirname(newest) }
}

function byVersion(one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true })
}

/** Packages of servers start them when they are installed, unless policy-rc.d says no, and at each start of the computer. */
function adviceFor(missing: string[]): string {
  return `The cluster needs Debian's packages ${missing.join(', ')}. This installs them, and starts none of their services:

  printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
  apt-get install --no-install-recommends ${missing.join(' ')}
  rm /usr/sbin/policy-rc.d
  systemctl disable etcd patroni`
}
