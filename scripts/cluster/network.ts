import { sendSignal } from '../kit/processes.ts'
import { runProgram } from '../kit/run-program.ts'

/**
 * A network for each database machine: a namespace with a link that can be down. All processes in it are the machine, so it
 * can be killed or frozen as a whole.
 */

export const MACHINES = [1, 2, 3] as const
export const INSTANCES = [1, 2] as const

const BRIDGE = 'gatehouse'
const SUBNET = '10.213.87'

export const addressOf = (n: number) => `${SUBNET}.${n}`
/** The address of an instance's machine, which the cluster's own computer stands for. */
export const instanceAddress = (n: number) => `${SUBNET}.${100 + n}`
const namespaceOf = (n: number) => `gatehouse-${n}`
const linkOf = (n: number) => `gatehouse-${n}`

const ip = (...args: string[]) => runProgram(['ip', ...args])

/** Traffic between machines, including instances. */
export const MACHINES_NETWORK = `${SUBNET}.0/24`

/** Removes what a killed cluster left first. */
export async function openNetworks(cleanup: AsyncDisposableStack): Promise<void> {
  await closeNetworks()
  cleanup.defer(closeNetworks)
  await ip('link', 'add', BRIDGE, 'type', 'bridge')
  for (const address of [`${SUBNET}.254`, ...INSTANCES.map(instanceAddress)])
    await ip('addr', 'add', `${address}/24`, 'dev', BRIDGE)
  await ip('link', 'set', BRIDGE, 'up')
  for (const n of MACHINES) {
    const [namespace, link] = [namespaceOf(n), linkOf(n)]
    await ip('netns', 'add', namespace)
    await ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace)
    await ip('link', 'set', link, 'master', BRIDGE, 'up')
    await ip('-n', namespace, 'addr', 'add', `${addressOf(n)}/24`, 'dev', 'eth0')
    await ip('-n', namespace, 'link', 'set', 'eth0', 'up')
    await ip('-n', namespace, 'link', 'set', 'lo', 'up')
  }
}

/** Continues after errors: some may not exist. */
async function closeNetworks(): Promise<void> {
  for (const n of MACHINES) {
    await signalAll(n, 'SIGKILL').catch(() => {})
    await ip('netns', 'delete', namespaceOf(n)).catch(() => {})
  }
  for (const link of [...MACHINES.map(linkOf), BRIDGE]) await ip('link', 'delete', link).catch(() => {})
}

/** Runs a command on a machine as Debian's postgres user. */
export function onMachine(n: number, command: string[]): string[] {
  const account = ['--reuid=postgres', '--regid=postgres', '--init-groups']
  return ['ip', 'netns', 'exec', namespaceOf(n), 'setpriv', ...account, ...command]
}

export async function cutOff(n: number): Promise<void> {
  await ip('link', 'set', linkOf(n), 'down')
}

/** The other machines are unreachable, but instances can reach this one. */
export async function isolate(n: number): Promise<void> {
  for (const other of MACHINES.filter((each) => each !== n)) {
    await ip('-n', namespaceOf(n), 'route', 'replace', 'blackhole', `${addressOf(other)}/32`)
  }
}

export async function reconnect(n: number): Promise<void> {
  await ip('link', 'set', linkOf(n), 'up')
  await ip('-n', namespaceOf(n), 'route', 'flush', 'type', 'blackhole')
}

export async function processesOf(n: number): Promise<number[]> {
  const pids = await ip('netns', 'pids', namespaceOf(n))
  return pids.split('\n').filter(Boolean).map(Number)
}

/** Includes processes that start in the meantime. */
export async function signalAll(n: number, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
  const signalled = new Set<number>()
  for (;;) {
    const others = (await processesOf(n)).filter((pid) => !signalled.has(pid))
    if (others.length === 0) return
    for (const pid of others) {
      signalled.add(pid)
      sendSignal(pid, signal)
    }
  }
}
