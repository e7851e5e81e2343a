import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** A program that is restarted when it ends, as systemd does: see deploy/restart.conf. */
export interface Supervised {
  readonly pid: number | undefined
  start(): void
  /** Kills it without a restart. */
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
    // Ctrl+C must not reach it. It ends with this process, even if that is killed.
    child = spawn('setpriv', ['--pdeathsig=SIGKILL', ...command], {
      // The program's account may not be allowed to enter our folder.
      cwd: '/',
      env: { PATH: `${process.env['PATH']}:/usr/sbin`, ...env },
      stdio: ['ignore', log, log],
      detached: true,
    })
    closeSync(log)
    // A program that cannot start emits no exit event, so callers that wait for one time out.
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
