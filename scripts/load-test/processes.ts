import { readdirSync, readFileSync } from 'node:fs'

/** What processes have used, from Linux' /proc; nothing elsewhere. */

export interface Usage {
  /** CPU time in milliseconds since the processes began. */
  cpuMs: number
  /** Memory that is resident now, in bytes. */
  residentBytes: number
}

/** /proc counts CPU time in these on every Linux that Node runs on (USER_HZ). */
const MS_PER_TICK = 10

interface Process {
  pid: number
  parent: number
  cpuMs: number
}

function readProcess(pid: number): Process | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name, in parentheses, may contain anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const [own, system, children, systemChildren] = fields.slice(11, 15).map(Number)
    const ticks = (own ?? 0) + (system ?? 0) + (children ?? 0) + (systemChildren ?? 0)
    return { pid, parent: Number(fields[1]), cpuMs: ticks * MS_PER_TICK }
  } catch {
    return null
  }
}

/** Of a process with all that it started, those that ended included; null where there is no /proc. */
export function usageOf(pid: number | undefined): Usage | null {
  const root = pid === undefined ? null : readProcess(pid)
  if (!root) return null
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? [])
  const family = [root, ...all.filter(({ parent }) => parent === root.pid)]
  return {
    cpuMs: family.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    residentBytes: residentBytes(root.pid),
  }
}

function residentBytes(pid: number): number {
  try {
    const [, kib] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kib ?? 0) * 1024
  } catch {
    return 0
  }
}

/** The postmaster whose cluster's data are in a folder with this text in its path. */
export function findPostmaster(dataDir: string): number | undefined {
  try {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    const found = pids.find((pid) => {
      try {
        const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
        return program.endsWith('postgres') && args.some((arg) => arg.includes(dataDir))
      } catch {
        return false
      }
    })
    return found === undefined ? undefined : Number(found)
  } catch {
    return undefined
  }
}
