import { parseArgs } from 'node:util'
import { MAX_PREVIOUS_SECONDS } from '../../src/member/service-password-schemas.ts'
import { ID } from '../../src/system.ts'
import type { Context, Io } from './context.ts'
import { UsageError } from './usage.ts'

/** The form of a command, and how a command line is read. */

const OPTIONS = {
  json: { type: 'boolean' },
  help: { type: 'boolean' },
  as: { type: 'string' },
  all: { type: 'boolean' },
  finish: { type: 'boolean' },
  scope: { type: 'string' },
  name: { type: 'string' },
  'admin-email': { type: 'string' },
  'admin-name': { type: 'string' },
  plan: { type: 'string' },
  company: { type: 'string' },
  email: { type: 'string' },
  role: { type: 'string' },
  user: { type: 'string' },
  status: { type: 'string' },
  limit: { type: 'string' },
  'second-factor': { type: 'string' },
  'previous-valid-seconds': { type: 'string' },
} as const

type Option = Exclude<keyof typeof OPTIONS, 'json' | 'help' | 'as'>
type Flag = 'all' | 'finish'
export type Values = Partial<Record<Exclude<Option, Flag>, string> & Record<Flag, boolean>>
export type Result = Record<string, unknown>

const TAKEN = { company: 'company, by handle or id', key: 'key id', client: 'client id' }

interface Form {
  required?: Option[]
  optional?: Option[]
  /** What follows the name of the command. */
  takes?: keyof typeof TAKEN
}

export type Command = Form &
  (
    | { run(context: Context, values: Values, id: string): Promise<Result> }
    /** Opens by itself what it needs. */
    | { runAlone(io: Io): Promise<Result> }
  )

/** Reads a command line; null means that the usage is to be printed. @throws UsageError */
export function readCommand(commands: ReadonlyMap<string, Command>, args: string[]) {
  const { values, positionals } = parse(args)
  const { json = false, help = false, as, ...given } = values
  if (help || positionals.length === 0) return null
  const [first = ''] = positionals
  const name = commands.has(first) ? first : positionals.slice(0, 2).join(' ')
  const command = commands.get(name)
  if (!command) throw new UsageError(`there is no command "${name}"`)
  const id = readId(name, command, positionals.slice(name.split(' ').length))
  const options = readOptions(name, command, given)
  return { name, command, id, options, json, operatorName: as === undefined ? undefined : toOperatorName(as) }
}

function readId(name: string, { takes }: Form, [id = '', ...rest]: string[]): string {
  if (rest.length > 0 || (takes ? id === '' : id !== '')) {
    throw new UsageError(takes ? `"${name}" takes one ${TAKEN[takes]}` : `"${name}" does not take "${id}"`)
  }
  if (takes === 'client') return toId(id)
  return takes === 'company' ? toCompany(id) : id
}

function readOptions(name: string, { required = [], optional = [] }: Form, options: Values): Values {
  for (const option of required) if (!options[option]) throw new UsageError(`"${name}" needs --${option}`)
  for (const option of Object.keys(options)) {
    if (![...required, ...optional].some((known) => known === option)) {
      throw new UsageError(`"${name}" does not take --${option}`)
    }
  }
  const { company, user } = options
  return {
    ...options,
    ...(company !== undefined && { company: toCompany(company) }),
    ...(user !== undefined && { user: toId(user) }),
  }
}

/** An id or a handle, which run.ts looks up. */
function toCompany(text: string): string {
  return text.toLowerCase()
}

/** Ids have several spellings; the service uses lower case. */
function toId(text: string): string {
  const id = text.toLowerCase()
  if (ID.test(id)) return id
  throw new UsageError(`"${text}" is not an id; ids look like 01a1fb7d-73e4-7d64-8064-cc65cb0da5c5`)
}

const OPERATOR_NAME = /^\P{C}{1,100}$/u

function toOperatorName(text: string): string {
  if (OPERATOR_NAME.test(text)) return text
  throw new UsageError('--as is a name of 1 to 100 characters, in one line')
}

/** Whom the shell names: the user before `sudo`, if there is one. */
export function shellUserOf({ SUDO_USER, USER }: NodeJS.ProcessEnv): string | undefined {
  const name = SUDO_USER || USER || ''
  return OPERATOR_NAME.test(name) ? name : undefined
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** The user that --user or --email names. @throws UsageError */
export function userOf({ user, email }: Values): { userId: string } | { email: string } {
  if (user !== undefined && email === undefined) return { userId: user }
  if (email !== undefined && user === undefined) return { email }
  throw new UsageError('name the user by --user or by --email')
}

/** How many rows a list shows. @throws UsageError */
export function limitOf({ limit = '100' }: Values): number {
  if (/^[1-9]\d{0,5}$/.test(limit)) return Number(limit)
  throw new UsageError('--limit is a number from 1 to 999999')
}

/** How long the old password of a service member works on. @throws UsageError */
export function previousValidSecondsOf({ 'previous-valid-seconds': seconds = '0' }: Values): number {
  if (/^\d{1,6}$/.test(seconds) && Number(seconds) <= MAX_PREVIOUS_SECONDS) return Number(seconds)
  throw new UsageError(`--previous-valid-seconds is a number from 0 to ${MAX_PREVIOUS_SECONDS}`)
}
