import { globSync } from 'node:fs'
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

/** Returns the folder with the programs of Postgres. @throws UsageError that says what is missing */
export function findPrograms(): string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new UsageError('The cluster needs Linux and root: each of its machines has a network of its own.')
  }
  const missing = Object.entries(NEEDED).flatMap(([path, name]) => (globSync(path).length > 0 ? [] : [name]))
  if (missing.length > 0) {
    const install = `apt-get install --no-install-recommends ${missing.join(' ')}`
    throw new UsageError(`The cluster needs packages of Debian, whose services need not run:\n\n  ${install}`)
  }
  return globSync('/usr/lib/postgresql/*/bin').toSorted().at(-1) ?? ''
}
