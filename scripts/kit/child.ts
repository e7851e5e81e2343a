import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

interface Child {
  process: ChildProcess
  /** Rejects when the process ends. */
  ended: Promise<never>
}

/** Runs a file in its own process until the cleanup, with only these variables, and on `core` if it is given. */
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
    // Ctrl+C must not reach it: the program ends it.
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

export async function firstMessage({ process: child, ended }: Child): Promise<unknown> {
  const [message] = await Promise.race([once(child, 'message'), ended])
  return message
}

export async function ask(child: Child, message: string | number | object): Promise<unknown> {
  child.process.send(message)
  return await firstMessage(child)
}
