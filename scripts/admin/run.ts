import { findByHandle } from '../../src/company/handles-repository.ts'
import { Problem, statusOf } from '../../src/errors.ts'
import { explain } from '../../src/process/startup.ts'
import { ID } from '../../src/system.ts'
import { type Commands, readCommand, readForm, shellUserOf } from './command-line.ts'
import { COMPANY_COMMANDS } from './companies.ts'
import { type Context, type Io, migrateAlone, openContext, UsageError } from './context.ts'
import { PLATFORM_COMMANDS } from './platform.ts'
import { USER_COMMANDS } from './users.ts'

/** Runs one command line of an operator. */

const COMMANDS: Commands = { ...COMPANY_COMMANDS, ...USER_COMMANDS, ...PLATFORM_COMMANDS }
/** Opens the database on its own, because it comes before everything else. */
const MIGRATE = 'migrate'
const FORMS = [MIGRATE, ...Object.keys(COMMANDS)]

const ABOUT: Record<string, string> = {
  migrate: 'Runs pending migrations as the owner, and adds the first key',
  'company create': 'Creates a company on a trial, and its first admin',
  'company list': 'Lists companies, newest first',
  'company show': 'Shows a company, its subscription, and its admins',
  'company suspend': 'Ends all sessions of a company, and blocks sign-ins',
  'company resume': 'Allows a suspended company to sign in again',
  'company security': 'Shows or sets second-factor policy and session limits',
  'company delete': 'Deletes a company permanently',
  'subscription set': "Sets the status and the plan of a company's subscription",
  'user create': 'Creates a user, whose email counts as verified',
  'user list': 'Lists users by email',
  'user show': 'Shows a user',
  'user role': "Changes a user's role",
  'user disable': 'Ends all sessions of a user, and blocks sign-ins',
  'user enable': 'Allows a disabled user to sign in again',
  'user unlock': 'Resets the limits for wrong passwords and codes',
  'user password': 'Issues a new password for a service account',
  'user reset-second-factors': 'Removes second factors and password, and emails a reset link',
  'user delete': 'Deletes a user permanently',
  invite: 'Emails an invitation',
  'sessions end': 'Ends the sessions of a user, a company, or everyone',
  audit: 'Shows the audit trail, and why users could not sign in',
  'keys rotate': 'Adds an access token key, and re-encrypts secrets',
  'keys list': 'Lists access token keys',
  'keys retire': 'Retires a leaked access token key',
  'client create': 'Adds a platform client, and shows its secret once',
  'client list': 'Lists platform clients',
  'client rotate': 'Adds a second secret; --finish removes the first one',
  'client delete': 'Deletes a platform client',
  restored: 'Completes the restore of a backup, before an instance starts',
  prune: 'Deletes outdated rows, as housekeeping does each hour',
}
const [USER, WIDTH] = ['--company COMPANY (--user U | --email E)', 53]

/** In one line if the form is short enough. */
function describeForm(form: string): string {
  const short = form.replace(USER, 'USER')
  const start = short.length < WIDTH ? short.padEnd(WIDTH) : `${short}\n${' '.repeat(WIDTH + 2)}`
  return `  ${start}${ABOUT[readForm(form).name]}`
}

const USAGE = `Usage: npm run admin -- COMMAND [--json] [--as NAME]

${FORMS.map(describeForm).join('\n')}

  --json     Prints one JSON object
  --as NAME  Names the operator in the audit trail (default: SUDO_USER or USER)

  COMPANY    A handle, such as acme-4821, or an id
  USER       ${USER}
  U, CLIENT  Ids of users and clients
  E          An email
  R          admin, analyst, developer, or viewer
  P          starter, growth, or enterprise
  S          trialing, active, past_due, canceled, or suspended
  F          optional, admins, or everyone
  T          Seconds, or "default" for the limit of the service
  SCOPES     introspect, events:read, or both with a comma
  L          The number of rows (default: 100)

"company create" and "user create" read a password from standard input. Without one, they print a link with which the
user sets a password within 72 hours.
"user password" prints the new password. The previous one and its sessions stop working immediately, or after N seconds
(at most 604800).
"keys rotate" adds a key that signs after 10 minutes. "keys retire" makes all tokens of a key fail immediately. If a KID
begins with "-", put it after "--".
"restored" ends all sessions, invalidates links, queued emails, invitations, challenges, and access token keys, and lists
further checks.

Examples:
  npm run admin -- company create --name Acme --admin-email ada@acme.example
  echo "$PASSWORD" | npm run admin -- user create --company acme-4821 --email bob@acme.example --role analyst
  npm run admin -- user password --company acme-4821 --email billing-worker-4821@service.invalid
  npm run --silent admin -- company list --json   # without npm's own output, which masks ids as ***`

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

/** @throws UsageError for a handle that no company has */
async function idOfCompany({ db }: Context, given = ''): Promise<string> {
  const company = given.toLowerCase()
  if (company === '' || ID.test(company)) return company
  const id = await findByHandle(db, company)
  if (id !== undefined) return id
  throw new UsageError(`No company has the handle "${company}". \`company list\` shows handles and ids.`)
}

function reasonOf(error: unknown): unknown {
  if (error instanceof UsageError) return `${error.message}\n\`npm run admin -- --help\` lists the commands.`
  // With its code, so that programs can distinguish a conflict from a mistake.
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
