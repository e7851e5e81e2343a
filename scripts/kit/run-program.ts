import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Runs a program to its end, with these variables besides HOME and PATH, and returns what it printed. @throws if it fails */
export async function runProgram(
  [program = '', ...args]: string[],
  variables: Record<string, string> = {},
): Promise<string> {
  const { HOME, PATH } = process.env
  const running = run(program, args, { env: { HOME, PATH, ...variables } })
  running.child.stdin?.end()
  return (await running).stdout
}
