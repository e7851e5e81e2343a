import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Runs a program to its end, with these variables besides PATH and this input, and returns what it printed. @throws if it fails */
export async function runProgram(
  [program = '', ...args]: string[],
  variables: Record<string, string> = {},
  input = '',
): Promise<string> {
  const { HOME, PATH } = process.env
  const running = run(program, args, { env: { HOME, PATH, ...variables } })
  // A program can end without reading it. Whether it has failed, its exit says.
  running.child.stdin?.on('error', () => {}).end(input)
  return (await running).stdout
}
