import { fstatSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { SUBSCRIPTION_STATUSES } from '../src/company/account.ts'
import { createPasswordHasher } from '../src/crypto/password.ts'
import { generatePassword } from '../src/crypto/password-policy.ts'
import { createSealer } from '../src/crypto/sealing.ts'
import { migrate, pendingMigrations } from '../src/database/migrate.ts'
import type { SubscriptionStatus } from '../src/database/schema.ts'
import { changeCompanyStatus, changeSubscription, createCompany } from '../src/operator/companies.ts'
import { pruneAcrossCompanies } from '../src/operator/housekeeping.ts'
import { rotateKeys } from '../src/operator/keys.ts'
import { endSessionsOfCompany, endSessionsOfUser } from '../src/operator/sessions.ts'
import { changeUserStatus, createUser, invite } from '../src/operator/users.ts'
import { explain, open } from '../src/startup.ts'
import { ID, realSystem } from '../src/system.ts'
import { listKeys } from '../src/token/repository.ts'

/** The operator command line. It parses and prints; src/operator carries out the commands. */

const USAGE = `Usage: npm run admin -- <command> [--json]

  migrate
  company create --name N --admin-email E [--admin-name A] [--plan P]
  company suspend ID
  company resume ID
  user create --company ID --email E --role R [--name N]
  user disable --company ID (--user U | --email E)
  user enable --company ID (--user U | --email E)
  invite --company ID --email E --role R
  subscription set --company ID --status S [--plan P]
  sessions end --company ID [--user U]
  keys rotate
  keys list
  prune

R is admin, analyst, developer or viewer; P starter, growth or enterprise; S trialing, active, past_due,
canceled or suspended.

A password is read from standard input (\`echo ... | npm run admin -- company create ...\`); without one,
it is generated and printed. --json prints one JSON object; \`npm run --silent admin\` keeps npm's own
lines out of it.`

/** A command that cannot run; the message says why. */
class UsageError extends Error {}

const OPTIONS = {
  json: { type: 'boolean' },
  help: { type: 'boolean' },
  name: { type: 'string' },
  'admin-email': { type: 'string' },
  'admin-name': { type: 'string' },
  plan: { type: 'string' },
  company: { type: 'string' },
  email: { type: 'string' },
  role: { type: 'string' },
  user: { type: 'string' },
  status: { type: 'string' },
} as const
type Option = Exclude<keyof typeof OPTIONS, 'json' | 'help'>
type Values = Partial<Record<Option, string>>
type Context = Awaited<ReturnType<typeof openContext>>
type Result = Record<string, unknown>

interface Command {
  required?: Option[]
  optional?: Option[]
  /** Whether the id of a company follows the name of the command. */
  takesId?: boolean
  run(context: Context, values: Values, id: string): Promise<Result>
}

const COMMANDS: Record<string, Command> = {
  migrate: { run: async ({ migrated }) => ({ migrated }) },

  'company create': {
    required: ['name', 'admin-email'],
    optional: ['admin-name', 'plan'],
    async run(context, { name = '', 'admin-email': email = '', 'admin-name': adminName, plan }) {
      const { password, shown } = await choosePassword()
      const created = await createCompany(context, { name, adminEmail: email, adminName, plan, password })
      return { ...created, ...shown }
    },
  },
  'company suspend': {
    takesId: true,
    async run(context, _values, companyId) {
      await changeCompanyStatus(context, companyId, 'suspended')
      return { companyId, status: 'suspended' }
    },
  },
  'company resume': {
    takesId: true,
    async run(context, _values, companyId) {
      await changeCompanyStatus(context, companyId, 'active')
      return { companyId, status: 'active' }
    },
  },

  'user create': {
    required: ['company', 'email', 'role'],
    optional: ['name'],
    async run(context, { company = '', email = '', role = '', name }) {
      const { password, shown } = await choosePassword()
      const { userId } = await createUser(context, company, { email, role, name, password })
      return { companyId: company, userId, email, role, ...shown }
    },
  },
  'user disable': {
    required: ['company'],
    optional: ['user', 'email'],
    run: async (context, values) => ({
      ...(await changeUserStatus(context, values.company ?? '', userOf(values), 'disabled')),
      status: 'disabled',
    }),
  },
  'user enable': {
    required: ['company'],
    optional: ['user', 'email'],
    run: async (context, values) => ({
      ...(await changeUserStatus(context, values.company ?? '', userOf(values), 'active')),
      status: 'active',
    }),
  },

  invite: {
    required: ['company', 'email', 'role'],
    async run(context, { company = '', email = '', role = '' }) {
      const invited = await invite(context, company, { email, role })
      return { companyId: company, ...invited, role, status: 'mail queued' }
    },
  },

  'subscription set': {
    required: ['company', 'status'],
    optional: ['plan'],
    async run(context, { company = '', status = '', plan }) {
      if (!isSubscriptionStatus(status))
        throw new UsageError(`--status is one of ${SUBSCRIPTION_STATUSES.join(', ')}`)
      await changeSubscription(context, company, { status, plan })
      return { companyId: company, status, ...(plan !== undefined && { plan }) }
    },
  },

  'sessions end': {
    required: ['company'],
    optional: ['user'],
    async run(context, { company = '', user }) {
      if (user === undefined) await endSessionsOfCompany(context, company)
      else await endSessionsOfUser(context, company, user)
      return { companyId: company, ...(user !== undefined && { userId: user }), sessions: 'ended' }
    },
  },

  'keys rotate': {
    async run(context) {
      const { keyId, signsFrom, resealedSecrets } = await rotateKeys(context)
      return { keyId, signsFrom: signsFrom.toISOString(), resealedSecrets }
    },
  },
  prune: {
    run: async ({ db, config, system }) => ({ ...(await pruneAcrossCompanies(db, config, system.now())) }),
  },

  'keys list': {
    run: async ({ db }) => ({
      keys: (await listKeys(db)).map(({ keyId, createdAt, signsFrom }) => ({
        keyId,
        createdAt: createdAt.toISOString(),
        signsFrom: signsFrom.toISOString(),
      })),
    }),
  },
}

function isSubscriptionStatus(text: string): text is SubscriptionStatus {
  return SUBSCRIPTION_STATUSES.some((status) => status === text)
}

function userOf({ user, email }: Values) {
  if (user !== undefined && email === undefined) return { userId: user }
  if (email !== undefined && user === undefined) return { email }
  throw new UsageError('name the user by --user or by --email')
}

/** The password from standard input, or a generated one, which is printed. */
async function choosePassword(): Promise<{ password: string; shown: { password?: string } }> {
  const input = fstatSync(0)
  const piped = input.isFIFO() || input.isFile() || input.isSocket()
  if (piped && !input.isFile()) console.error('Reading the password from standard input, to its end.')
  const given = piped ? (await text(process.stdin)).replace(/\r?\n$/, '') : ''
  if (given !== '') return { password: given, shown: {} }
  const password = generatePassword(realSystem.randomBytes)
  return { password, shown: { password } }
}

/** Parses a command line; null means that the usage is to be printed. @throws UsageError */
function readCommand(args: string[]) {
  const { values, positionals } = parse(args)
  const { json = false, help = false, ...given } = values
  if (help || positionals.length === 0) return null
  const [first = ''] = positionals
  const name = COMMANDS[first] ? first : positionals.slice(0, 2).join(' ')
  const command = COMMANDS[name]
  if (!command) throw new UsageError(`there is no command "${name}"`)
  const [id = '', ...rest] = positionals.slice(name.split(' ').length)
  if (rest.length > 0 || (command.takesId ? id === '' : id !== '')) {
    throw new UsageError(
      command.takesId ? `"${name}" takes one company id` : `"${name}" does not take "${id}"`,
    )
  }
  const { required = [], optional = [] } = command
  const options: Values = given
  for (const option of required) if (!options[option]) throw new UsageError(`"${name}" needs --${option}`)
  for (const option of Object.keys(given)) {
    if (![...required, ...optional].some((known) => known === option)) {
      throw new UsageError(`"${name}" does not take --${option}`)
    }
  }
  for (const uuid of [options.company, options.user, command.takesId ? id : undefined]) {
    if (uuid !== undefined && !ID.test(uuid.toLowerCase())) {
      throw new UsageError(`"${uuid}" is not an id; ids look like 01a1fb7d-73e4-7d64-8064-cc65cb0da5c5`)
    }
  }
  return { command, id, options, json }
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

async function openContext(canMigrate: boolean) {
  const system = realSystem
  const { config, connection } = await open(process.env, system)
  const { maintenance: db, close } = connection
  try {
    const pending = canMigrate || !config.databaseUrl ? [] : await pendingMigrations(db)
    if (pending.length > 0) {
      throw new UsageError(`the database lacks ${pending.join(', ')}: run \`npm run admin -- migrate\` first`)
    }
    const migrated = await migrate(db)
    const sealer = createSealer(config.masterKeys, system.randomBytes)
    return { db, config, close, migrated, system, sealer, hasher: await createPasswordHasher() }
  } catch (error) {
    await close()
    throw error
  }
}

try {
  const parsed = readCommand(process.argv.slice(2))
  if (!parsed) console.log(USAGE)
  else {
    const context = await openContext(parsed.command === COMMANDS['migrate'])
    try {
      const result = await parsed.command.run(context, parsed.options, parsed.id)
      if (parsed.json) console.log(JSON.stringify(result))
      else for (const [name, value] of Object.entries(result)) console.log(`${name}: ${toLine(value)}`)
    } finally {
      await context.close()
    }
  }
} catch (error) {
  if (error instanceof UsageError)
    console.error(`${error.message}\n\`npm run admin -- --help\` lists the commands.`)
  else console.error(explain(error) ?? error)
  process.exitCode = 1
}

function toLine(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
