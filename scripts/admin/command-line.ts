import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { ID } from '../../src/system.ts'
import { type Context, UsageError } from './context.ts'

/** Reads command lines. A command's form, such as `company show COMPANY`, is also its line in the usage. */

export type Values = Record<string, string | undefined>

/** The function of each form. `companyId` is empty if the form does not name a company. */
export type Commands = Record<
  string,
  (context: Context, companyId: string, values: Values) => Promise<object>
>

const FOR_ALL = { json: { type: 'boolean' }, help: { type: 'boolean' }, as: { type: 'string' } } as const

/** Null if the usage is requested. @throws UsageError */
export function readCommand(usage: string[], args: string[]) {
  const forms = usage.map(readForm)
  const known: ParseArgsOptionsConfig = Object.assign({}, ...forms.map(({ options }) => options), FOR_ALL)
  const { values, positionals } = parse(args, known)
  const { json, help, as, ...given } = values
  if (help || positionals.length === 0) return null
  const found = forms.find(({ name }) => `${positionals.join(' ')} `.startsWith(`${name} `))
  if (!found) throw new UsageError(`Unknown command "${positionals.slice(0, 2).join(' ')}".`)
  const { form, name, operand, options, needed } = found
  const rest = positionals.slice(name.split(' ').length)
  const unknown = [
    ...Object.keys(given).flatMap((option) => (option in options ? [] : `--${option}`)),
    ...rest.slice(operand ? 1 : 0),
  ]
  if (unknown.length > 0) throw new UsageError(`"${name}" does not take ${unknown.join(' ')}.`)
  if (operand && !rest[0]) throw new UsageError(`"${name}" needs a ${operand}.`)
  const missing = needed.find((option) => !given[option])
  if (missing) throw new UsageError(`"${name}" needs --${missing}.`)
  const all: Values = { ...given, ...(operand && { [operand.toLowerCase()]: rest[0] }) }
  return {
    form,
    values: all,
    json: json !== undefined,
    operatorName: as === undefined ? as : toOperatorName(as),
  }
}

/** Options in brackets are optional. Options without a value are flags. */
export function readForm(form: string) {
  const [, name = '', operand] = /^([a-z]+(?: [a-z][a-z-]*)?)(?: ([A-Z]+))?/.exec(form) ?? []
  const read = (part: string) => [...part.matchAll(/--([a-z-]+)( [A-Z]+)?/g)]
  const options: ParseArgsOptionsConfig = Object.fromEntries(
    read(form).map(([, option = '', value]) => [option, { type: value ? 'string' : 'boolean' }]),
  )
  const needed = read(form.replace(/\(.*\)|\[.*?\]/g, '')).map(([, option = '']) => option)
  return { form, name, operand, options, needed }
}

/** Flags have their values as text. */
function parse(args: string[], options: ParseArgsOptionsConfig): { values: Values; positionals: string[] } {
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const texts = Object.entries(values).map(([option, value]) => [option, String(value)])
    return { values: Object.fromEntries(texts), positionals }
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

const OPERATOR_NAME = /^\P{C}{1,100}$/u

function toOperatorName(text: string): string {
  if (OPERATOR_NAME.test(text)) return text
  throw new UsageError('--as must be a name of 1 to 100 characters on one line.')
}

/** The user before `sudo`, if there is one. */
export function shellUserOf({ SUDO_USER, USER }: NodeJS.ProcessEnv): string | undefined {
  const name = SUDO_USER || USER || ''
  return OPERATOR_NAME.test(name) ? name : undefined
}

/** Ids have several spellings; the service uses lower case. @throws UsageError */
export function toId(text = ''): string {
  const id = text.toLowerCase()
  if (ID.test(id)) return id
  throw new UsageError(`"${text}" is not an id. Ids look like 01a1fb7d-73e4-7d64-8064-cc65cb0da5c5.`)
}

/** The user that --user or --email names. @throws UsageError */
export function userOf({ user, email }: Values): { userId: string } | { email: string } {
  if (user !== undefined && email === undefined) return { userId: toId(user) }
  if (email !== undefined && user === undefined) return { email }
  throw new UsageError('Name the user with either --user or --email.')
}

/** @throws UsageError */
export function numberOf(option: string, text: string, least: number, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= least && value <= most) return value
  throw new UsageError(`--${option} must be a whole number from ${least} to ${most}.`)
}

/** @throws UsageError */
export const limitOf = ({ limit = '100' }: Values) => numberOf('limit', limit, 1, 999_999)

/** @throws UsageError */
export function oneOf<T extends string>(option: string, text: string | undefined, all: readonly T[]): T {
  const found = all.find((one) => one === text)
  if (found !== undefined) return found
  throw new UsageError(`--${option} must be one of ${all.join(', ')}.`)
}
