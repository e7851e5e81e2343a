import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { readProc, sendSignal } from '../kit/processes.ts'
import { runProgram } from '../kit/run-program.ts'
import { issueCertificate } from './certificates.ts'
import {
  addressOf,
  cutOff,
  isolate,
  MACHINES,
  onMachine,
  processesOf,
  reconnect,
  signalAll,
} from './network.ts'
import { supervise } from './supervise.ts'

export type Machine = Awaited<ReturnType<typeof openMachine>>

interface Secrets {
  superuser: string
  replication: string
  restApi: string
}

const DEPLOY = resolve(import.meta.dirname, '../../deploy')
export const PORTS = { postgres: 5432, patroni: 8008, etcd: 2379, peer: 2380 }

export const nameOf = (n: number) => `machine-${n}`
export const postgresOf = (n: number) => `${addressOf(n)}:${PORTS.postgres}`
export const patroniOf = (n: number) => `https://${addressOf(n)}:${PORTS.patroni}`

/** A file in deploy/. A machine's certificate is in its home. */
async function readShipped(file: string, home: string): Promise<string> {
  const text = await readFile(join(DEPLOY, file), 'utf8')
  return text.replaceAll('/etc/ssl/gatehouse', home)
}

/** The variables of a shipped file, in which `own` replaces the examples. */
async function environment(
  file: string,
  home: string,
  own: Record<string, string>,
): Promise<Record<string, string>> {
  const lines = (await readShipped(file, home)).split('\n')
  const shipped = lines.filter((line) => /^[A-Z]/.test(line)).map((line) => line.split(/=(.*)/s).slice(0, 2))
  const all: Record<string, string> = { ...Object.fromEntries(shipped), ...own }
  const forgotten = Object.keys(all).filter((name) => /10\.0\.0\.|…/.test(all[name] ?? ''))
  if (forgotten.length > 0) throw new Error(`${file}: ${forgotten.join()} must be set for each machine`)
  return all
}

/** A database machine: etcd, Patroni, and Postgres, with the files in deploy/. */
export async function openMachine(
  n: number,
  { folder, programs, secrets }: { folder: string; programs: string; secrets: Secrets },
  cleanup: AsyncDisposableStack,
) {
  const name = nameOf(n)
  // Instances reach each database at localhost.
  const home = await issueCertificate(folder, name, [addressOf(n), 'localhost'])
  // Patroni reads its files in the order of names.
  const config = join(home, 'config')
  await mkdir(config, { recursive: true })
  await writeFile(join(config, '1-shipped.yaml'), await readShipped('patroni.yaml', home))
  // Three machines on one computer must not share these.
  const apart = {
    watchdog: { mode: 'off' },
    postgresql: { parameters: { unix_socket_directories: home, shared_buffers: '128MB' } },
  }
  await writeFile(join(config, '2-cluster.yaml'), JSON.stringify(apart))
  await runProgram(['chown', '-R', 'postgres:postgres', home])
  await runProgram(['chown', 'root:ssl-cert', join(home, 'machine.pem')])
  await chmod(home, 0o700)

  const url = (port: number, machine = n) => `https://${addressOf(machine)}:${port}`
  const etcd = supervise(
    {
      command: onMachine(n, ['/usr/bin/etcd']),
      env: await environment('etcd.env', home, {
        ETCD_NAME: name,
        ETCD_DATA_DIR: join(home, 'etcd'),
        ETCD_INITIAL_CLUSTER: MACHINES.map((each) => `${nameOf(each)}=${url(PORTS.peer, each)}`).join(),
        ETCD_LISTEN_PEER_URLS: url(PORTS.peer),
        ETCD_INITIAL_ADVERTISE_PEER_URLS: url(PORTS.peer),
        ETCD_LISTEN_CLIENT_URLS: url(PORTS.etcd),
        ETCD_ADVERTISE_CLIENT_URLS: url(PORTS.etcd),
        ETCDCTL_ENDPOINTS: url(PORTS.etcd),
        ETCD_LOG_LEVEL: 'error',
      }),
      logFile: join(folder, `${name}-etcd.log`),
    },
    cleanup,
  )
  const patroni = supervise(
    {
      command: onMachine(n, ['/usr/bin/patroni', config]),
      env: await environment('patroni.env', home, {
        HOME: home,
        PATRONI_NAME: name,
        PATRONI_ETCD_HOSTS: MACHINES.map((each) => `${addressOf(each)}:${PORTS.etcd}`).join(),
        PATRONI_RESTAPI_LISTEN: `${addressOf(n)}:${PORTS.patroni}`,
        PATRONI_RESTAPI_CONNECT_ADDRESS: `${addressOf(n)}:${PORTS.patroni}`,
        PATRONI_RESTAPI_PASSWORD: secrets.restApi,
        PATRONI_POSTGRESQL_LISTEN: postgresOf(n),
        PATRONI_POSTGRESQL_CONNECT_ADDRESS: postgresOf(n),
        PATRONI_POSTGRESQL_DATA_DIR: join(home, 'postgres'),
        PATRONI_POSTGRESQL_BIN_DIR: programs,
        PATRONI_POSTGRESQL_PGPASS: join(home, 'pgpass'),
        PATRONI_SUPERUSER_PASSWORD: secrets.superuser,
        PATRONI_REPLICATION_PASSWORD: secrets.replication,
        PATRONI_REWIND_PASSWORD: secrets.replication,
      }),
      logFile: join(folder, `${name}-patroni.log`),
    },
    cleanup,
  )

  return {
    name,
    /** Reconnects the machine, and continues or restarts its processes. */
    async heal(): Promise<void> {
      await reconnect(n)
      await signalAll(n, 'SIGCONT')
      etcd.start()
      patroni.start()
    },
    async kill(): Promise<void> {
      const stopped = [etcd.stop(), patroni.stop()]
      await signalAll(n, 'SIGKILL')
      await Promise.all(stopped)
    },
    freeze: () => signalAll(n, 'SIGSTOP'),
    cutOff: () => cutOff(n),
    /** Only from the other machines. */
    isolate: () => isolate(n),
    killPatroni(): void {
      if (patroni.pid) sendSignal(patroni.pid, 'SIGKILL')
    },
    async signalPostgres(signal: NodeJS.Signals, title = /./): Promise<void> {
      const pids = (await processesOf(n)).filter((pid) => isPostgres(pid) && title.test(titleOf(pid)))
      // The parent first, before it can start more.
      for (const pid of pids.toSorted((one, other) => one - other)) sendSignal(pid, signal)
    },
    signalEtcd(signal: NodeJS.Signals): void {
      if (etcd.pid) sendSignal(etcd.pid, signal)
    },
  }
}

function isPostgres(pid: number): boolean {
  return readProc(pid, 'comm')?.trim() === 'postgres'
}

const titleOf = (pid: number) => readProc(pid, 'cmdline')?.replaceAll('\0', ' ') ?? ''
