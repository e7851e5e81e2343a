import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** A program that is started again when it ends, as systemd does: see deploy/restart.conf. */
export interface Supervised {
  readonly pid: number | undefined
  start(): void
  /** Kills it, and does not start it again. */
  stop(): Promise<void>
}

const RESTART_MS = 1_000

export function supervise(
  { command, env, logFile }: { command: string[]; env: Record<string, string>; logFile: string },
  cleanup: AsyncDisposableStack,
): Supervised {
  let isWanted = false
  let child: ChildProcess | undefined
  function start(): void {
    isWanted = true
    if (child) return
    const log = openSync(logFile, 'a')
    // Detached, it does not hear of Ctrl-C.
    // It ends with this process, even if that is killed.
    child = spawn('setpriv', ['--pdeathsig=SIGKILL', ...command], {
      env: { PATH: `${process.env['PATH']}:/usr/sbin`, ...env },
      stdio: ['ignore', log, log],
      detached: true,
    })
    closeSync(log)
    // A program that cannot be started has no exit, and is missed by what waits for it.
    child.once('error', () => {})
    child.once('exit', () => {
      child = undefined
      void sleep(RESTART_MS).then(() => isWanted && start())
    })
  }
  async function stop(): Promise<void> {
    isWanted = false
    const ended = child && once(child, 'exit')
    child?.kill('SIGKILL')
    await ended
  }
  cleanup.defer(stop)
  return {
    get pid() {
      return child?.pid
    },
    start,
    stop,
  }
}
