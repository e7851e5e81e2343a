import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Passes HOME, PATH, and these variables. Returns the program's standard output. @throws if it fails */
export async function runProgram(
  [program = '', ...args]: string[],
  variables: Record<string, string> = {},
): Promise<string> {
  const { HOME, PATH } = process.env
  const running = run(program, args, { env: { HOME, PATH, ...variables } })
  running.child.stdin?.end()
  return (await running).stdout
}
