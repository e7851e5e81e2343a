import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

export interface Child {
  process: ChildProcess
  /** Rejects when the process ends. */
  ended: Promise<never>
}

/** Runs a file in a process of its own, with only these variables in its environment, until the cleanup; on one core, if it is given. */
export function startChild(
  file: string,
  variables: Record<string, string>,
  cleanup: AsyncDisposableStack,
  core?: number,
): Child {
  const child = fork(file, {
    ...(core !== undefined && {
      execPath: 'taskset',
      execArgv: ['--cpu-list', String(core), process.execPath],
    }),
    env: { PATH: process.env['PATH'], ...variables },
    // Keeps Ctrl-C from it: the load test itself ends it.
    detached: true,
  })
  const ended = once(child, 'exit').then(([code]): never => {
    throw new Error(`${file} ended with status ${code}`)
  })
  // Without this, a normal end would be an unhandled rejection.
  ended.catch(() => {})
  cleanup.defer(async () => {
    child.kill('SIGKILL')
    await ended.catch(() => {})
  })
  return { process: child, ended }
}

/** The first message of a child, which says that it is ready. */
export async function firstMessage({ process: child, ended }: Child): Promise<unknown> {
  const [message] = await Promise.race([once(child, 'message'), ended])
  return message
}

/** Sends a message to a child, and returns the next one that comes from it. */
export async function ask(child: Child, message: string | number | object): Promise<unknown> {
  child.process.send(message)
  return await firstMessage(child)
}
