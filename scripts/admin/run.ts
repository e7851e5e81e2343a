import { findByHandle } from '../../src/company/handles-repository.ts'
import { Problem, statusOf } from '../../src/errors.ts'
import { explain } from '../../src/process/startup.ts'
import { ID } from '../../src/system.ts'
import { type Commands, readCommand, shellUserOf } from './command-line.ts'
import { COMPANY_COMMANDS } from './companies.ts'
import { type Context, type Io, migrateAlone, openContext, UsageError } from './context.ts'
import { PLATFORM_COMMANDS } from './platform.ts'
import { USER_COMMANDS } from './users.ts'

/** Runs one command line of an operator. */

const COMMANDS: Commands = { ...COMPANY_COMMANDS, ...USER_COMMANDS, ...PLATFORM_COMMANDS }
/** Opens by itself what it needs. */
const MIGRATE = 'migrate'
const FORMS = [MIGRATE, ...Object.keys(COMMANDS)]

const USAGE = `Usage: npm run admin -- <command> [--json] [--as NAME]

${FORMS.map((form) => `  ${form}`).join('\n')}

COMPANY is a handle, such as acme-4821, or an id; U and CLIENT are ids; R is admin, analyst, developer or viewer; P starter, growth
or enterprise; S trialing, active, past_due, canceled or suspended; F optional, admins or everyone; SCOPES introspect, events:read,
or both with a comma. Lists show the newest 100, or L; users by e-mail.

"user password" gives a service account another password, and prints it: the old one, and the sessions that it
opened, are dead at once, or work for N more seconds, 604800 at most. "user reset-second-factors" is for somebody who
lost theirs: the password is void too, and a link is mailed to choose another. "company delete" and "user delete"
cannot be undone. "keys retire" is for a leaked key: its tokens fail at once; a KID that begins with "-" comes last,
after "--". "client create" is for a service of the platform, and shows its secret once; "client rotate" adds a second
one, and "--finish" ends the first. "restored" is for a backup that was restored, before any
instance starts: it ends all sessions, voids links, waiting mails, invitations, challenges and keys of access tokens,
and says what else to check.

"company create" and "user create" read a password from standard input (\`echo ... | npm run admin -- company create ...\`).
Without one, they print a link with which the person chooses a password within 72 hours. --as NAME is shown in the audit trail beside
"operator"; by default, it is SUDO_USER or USER. --json prints one JSON object; \`npm run --silent admin\` keeps npm's own
lines out of it, in which npm replaces ids by ***.`

/** Returns the exit code. */
export async function run(args: string[], io: Io): Promise<number> {
  try {
    const command = readCommand(FORMS, args)
    if (!command) io.print(USAGE)
    else {
      const result = await carryOut(command, io)
      io.print(command.json ? JSON.stringify(result) : toText(result))
    }
    return 0
  } catch (error) {
    io.complain(reasonOf(error))
    return 1
  }
}

async function carryOut(
  { form, values, operatorName }: NonNullable<ReturnType<typeof readCommand>>,
  io: Io,
): Promise<object> {
  const act = COMMANDS[form]
  if (!act) return await migrateAlone(io)
  const context = { ...(await openContext(io)), operatorName: operatorName ?? shellUserOf(io.env) }
  try {
    return await act(context, await idOfCompany(context, values['company']), values)
  } finally {
    await context.close()
  }
}

/** Of an id or a handle. @throws UsageError for a handle that no company has */
async function idOfCompany({ db }: Context, given = ''): Promise<string> {
  const company = given.toLowerCase()
  if (company === '' || ID.test(company)) return company
  const id = await findByHandle(db, company)
  if (id !== undefined) return id
  throw new UsageError(`no company has the handle "${company}"; \`company list\` shows handles and ids`)
}

function reasonOf(error: unknown): unknown {
  if (error instanceof UsageError) return `${error.message}\n\`npm run admin -- --help\` lists the commands.`
  // What stands in the way has a code, so that programs can tell it from a mistake.
  if (error instanceof Problem && statusOf(error.code) === 409) return `${error.message} (${error.code})`
  return explain(error) ?? error
}

/** One line for each value, and for each element of a list. */
function toText(result: object): string {
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
