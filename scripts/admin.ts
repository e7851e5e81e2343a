import { fstatSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { run } from './admin/run.ts'

/** The command line for operators. It parses and prints; src/operator does the work. */

async function readInput(): Promise<string> {
  const input = fstatSync(0)
  const piped = input.isFIFO() || input.isFile() || input.isSocket()
  if (piped && !input.isFile()) console.error('Reading the password from standard input until it closes.')
  return piped ? await text(process.stdin) : ''
}

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  readInput,
  print: console.log,
  complain: console.error,
})
