import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** Processes, and what they use, from /proc of Linux. On other systems nothing is known, and nothing is reported. */

/** The unit of CPU time in /proc, on every Linux that Node supports (USER_HZ = 100). */
const MS_PER_TICK = 10

interface Process {
  pid: number
  parent: number
  cpuMs: number
}

/** CPU time in milliseconds of a process and its children since they started, also of those that ended; NaN where unknown. */
export function cpuMsOf(pid: number | undefined): number {
  const root = pid === undefined ? null : readProcess(pid)
  if (!root) return Number.NaN
  const all = [root, ...childrenOf(pid).flatMap((child) => readProcess(child) ?? [])]
  return all.reduce((sum, { cpuMs }) => sum + cpuMs, 0)
}

export function childrenOf(pid: number | undefined): number[] {
  return listPids().filter((child) => readProcess(child)?.parent === pid)
}

/** The main Postgres process whose command line contains this folder. */
export function findPostmaster(dataFolder: string): number | undefined {
  return listPids().find((pid) => {
    const [program = '', ...args] = readProc(pid, 'cmdline')?.split('\0') ?? []
    return program.endsWith('postgres') && args.some((arg) => arg.includes(dataFolder))
  })
}

/** To a process that may have ended. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {}
}

/** From now on, the peak of a process's memory starts again, where the system allows it. */
export function resetPeakMemory(pid: number | undefined): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {}
}

/** The most memory that a process has had resident. */
export function peakMemoryOf(pid: number | undefined): number | null {
  const [, kib] = /^VmHWM:\s+(\d+) kB/m.exec((pid && readProc(pid, 'status')) || '') ?? []
  return kib === undefined ? null : Number(kib) * 1024
}

function listPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
  } catch {
    return []
  }
}

function readProcess(pid: number): Process | null {
  const text = readProc(pid, 'stat')
  if (text === null) return null
  // The name, in parentheses, may contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [own = 0, system = 0, children = 0, systemChildren = 0] = fields.slice(11, 15).map(Number)
  return { pid, parent: Number(fields[1]), cpuMs: (own + system + children + systemChildren) * MS_PER_TICK }
}

/** Null where there is no /proc, and for a process that has ended. */
export function readProc(pid: number, file: 'stat' | 'status' | 'cmdline' | 'comm'): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return null
  }
}
