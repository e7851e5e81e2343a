import { readArgs, readNumber, UsageError } from '../kit/command.ts'
import { FLOODS } from './floods.ts'

const MAX_SECONDS = 3_600

export const USAGE = `Usage: npm run flood-test -- [options]

Runs each flood and reports what honest users notice, without and with it. The service has production's limits, and
HAProxy with deploy/haproxy.cfg in front of it. Uses its own Postgres, or new databases on the server of DATABASE_URL.
The exit status is 1 if an aim is missed.

  --flood NAMES       Runs only these floods, separated by commas; \`sign-ins\` means all that begin with it
  --duration SECONDS  Sets the time of each flood (default: 20, at most ${MAX_SECONDS})
  --json FILE         Writes the figures as JSON

Floods:

${Object.entries(FLOODS)
  .map(([name, { about }]) => `  ${name.padEnd(20)} ${about}`)
  .join('\n')}

Examples:
  npm run flood-test -- --flood sign-ins
  npm run flood-test -- --flood mail-100,disk --duration 60 --json figures.json`

export interface Options {
  floods: string[]
  seconds: number
  json: string | undefined
}

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean' } as const

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const options = { flood: TEXT, duration: { ...TEXT, default: '20' }, json: TEXT, help: FLAG }
  const { flood, duration, json, help } = readArgs({ args, options }).values
  if (help) return null
  const seconds = readNumber('duration', duration, { max: MAX_SECONDS })
  return { floods: flood === undefined ? Object.keys(FLOODS) : findFloods(flood), seconds, json }
}

function findFloods(names: string): string[] {
  return names.split(',').flatMap((given) => {
    const found = Object.keys(FLOODS).filter((name) => name === given || name.startsWith(`${given}-`))
    if (found.length > 0) return found
    throw new UsageError(`Unknown flood: ${given}. The floods are ${Object.keys(FLOODS).join(', ')}.`)
  })
}
