import { globSync } from 'node:fs'
import { UsageError } from '../kit/command.ts'

/** Programs, and the Debian packages that have them. */
const NEEDED: Record<string, string> = {
  '/usr/sbin/haproxy': 'haproxy',
  '/usr/bin/patroni': 'patroni',
  '/usr/bin/etcd': 'etcd-server',
  '/usr/lib/python3/dist-packages/etcd': 'python3-etcd',
  '/usr/lib/python3/dist-packages/idna': 'python3-idna',
  '/usr/lib/postgresql/*/bin/postgres': 'postgresql',
  '/usr/bin/openssl': 'openssl',
  '/usr/bin/setpriv': 'util-linux',
  '/usr/sbin/ip': 'iproute2',
}

/** Returns the folder with Postgres's programs. @throws UsageError that names missing packages */
export function findPrograms(): string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new UsageError(
      'The cluster needs Linux and root, because each of its machines has its own network.',
    )
  }
  const missing = Object.entries(NEEDED).flatMap(([path, name]) => (globSync(path).length > 0 ? [] : [name]))
  if (missing.length > 0) {
    const install = `apt-get install --no-install-recommends ${missing.join(' ')}`
    throw new UsageError(`The cluster needs Debian packages. Their services need not run.\n\n  ${install}`)
  }
  return globSync('/usr/lib/postgresql/*/bin').toSorted().at(-1) ?? ''
}
