import { findByHandle } from '../../src/company/handles-repository.ts'
import { Problem, statusOf } from '../../src/errors.ts'
import { explain } from '../../src/startup.ts'
import { ID } from '../../src/system.ts'
import { type Result, readCommand, shellUserOf } from './command-line.ts'
import { COMPANY_COMMANDS } from './companies.ts'
import { type Context, type Io, openContext } from './context.ts'
import { PLATFORM_COMMANDS } from './platform.ts'
import { USAGE, UsageError } from './usage.ts'
import { USER_COMMANDS } from './users.ts'

/** Runs one command line of an operator. */

const COMMANDS = new Map(Object.entries({ ...COMPANY_COMMANDS, ...USER_COMMANDS, ...PLATFORM_COMMANDS }))

/** Returns the exit code. */
export async function run(args: string[], io: Io): Promise<number> {
  try {
    const parsed = readCommand(COMMANDS, args)
    if (!parsed) io.print(USAGE)
    else {
      const result = await carryOut(parsed, io)
      io.print(parsed.json ? JSON.stringify(result) : toText(result))
    }
    return 0
  } catch (error) {
    io.complain(reasonOf(error))
    return 1
  }
}

async function carryOut(
  { command, options, id, operatorName }: NonNullable<ReturnType<typeof readCommand>>,
  io: Io,
): Promise<Result> {
  if ('runAlone' in command) return await command.runAlone(io)
  const context = { ...(await openContext(io)), operatorName: operatorName ?? shellUserOf(io.env) }
  const idOf = (company: string) => idOfCompany(context, company)
  try {
    const given = options.company && { company: await idOf(options.company) }
    return await command.run(
      context,
      { ...options, ...given },
      command.takes === 'company' ? await idOf(id) : id,
    )
  } finally {
    await context.close()
  }
}

/** @throws UsageError for a handle that no company has */
async function idOfCompany({ db }: Context, company: string): Promise<string> {
  if (ID.test(company)) return company
  const id = await findByHandle(db, company)
  if (id === undefined)
    throw new UsageError(`no company has the handle "${company}"; \`company list\` shows handles and ids`)
  return id
}

function reasonOf(error: unknown): unknown {
  if (error instanceof UsageError) return `${error.message}\n\`npm run admin -- --help\` lists the commands.`
  // What stands in the way has a code, so that programs can tell it from a mistake.
  if (error instanceof Problem && statusOf(error.code) === 409) return `${error.message} (${error.code})`
  return explain(error) ?? error
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
