import { Problem, statusOf } from '../src/errors.ts'
import { explain } from '../src/startup.ts'
import { type Result, readCommand } from './admin/command-line.ts'
import { COMPANY_COMMANDS } from './admin/companies.ts'
import { openContext } from './admin/context.ts'
import { PLATFORM_COMMANDS } from './admin/platform.ts'
import { USAGE, UsageError } from './admin/usage.ts'
import { USER_COMMANDS } from './admin/users.ts'

/** The operator command line. It parses and prints; src/operator carries out the commands. */

const COMMANDS = new Map(Object.entries({ ...COMPANY_COMMANDS, ...USER_COMMANDS, ...PLATFORM_COMMANDS }))

async function run({ command, options, id }: NonNullable<ReturnType<typeof readCommand>>): Promise<Result> {
  if ('runAlone' in command) return await command.runAlone()
  const context = await openContext()
  try {
    return await command.run(context, options, id)
  } finally {
    await context.close()
  }
}

/** One line for each value, and for each element of a list. */
function toText(result: Result): string {
  return Object.entries(result)
    .flatMap(([name, value]) =>
      Array.isArray(value)
        ? [`${name}:`, ...value.map((one) => `  ${toLine(one)}`)]
        : [`${name}: ${toLine(value)}`],
    )
    .join('\n')
}

function toLine(value: unknown): string {
  if (value instanceof Date) return value.toISOString()
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

try {
  const parsed = readCommand(COMMANDS, process.argv.slice(2))
  if (!parsed) console.log(USAGE)
  else {
    const result = await run(parsed)
    console.log(parsed.json ? JSON.stringify(result) : toText(result))
  }
} catch (error) {
  if (error instanceof UsageError)
    console.error(`${error.message}\n\`npm run admin -- --help\` lists the commands.`)
  // What stands in the way has a code, so that programs can tell it from a mistake.
  else if (error instanceof Problem && statusOf(error.code) === 409)
    console.error(`${error.message} (${error.code})`)
  else console.error(explain(error) ?? error)
  process.exitCode = 1
}
