import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** Reads /proc. Systems without it report nothing. */

/** USER_HZ is 100 on every Linux that Node supports. */
const MS_PER_TICK = 10

interface Process {
  pid: number
  parent: number
  cpuMs: number
}

/** CPU time of a process and its children, including children that ended. NaN if unknown. */
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

/** The process may have ended. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {}
}

export function resetPeakMemory(pid: number | undefined): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {}
}

/** In bytes. */
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

/** Null without /proc, or if the process has ended. */
export function readProc(pid: number, file: 'stat' | 'status' | 'cmdline' | 'comm'): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return null
  }
}
