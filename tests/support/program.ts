import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { INHERITED } from './environment.ts'

const SCRIPTS = resolve(import.meta.dirname, '../../scripts')

/** Starts a file of scripts/, or one with an absolute path, with these variables. `ended` resolves with its output. */
export function startProgram(file: string, args: string[], variables: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [resolve(SCRIPTS, file), ...args], {
    env: { ...INHERITED, ...variables },
  })
  const exit = once(child, 'exit') as Promise<[code: number | null, signal: string | null]>
  const ended = Promise.all([exit, text(child.stdout), text(child.stderr)]).then(
    ([[code, signal], stdout, stderr]) => ({ code, signal, stdout, stderr }),
  )
  return { child, ended }
}
