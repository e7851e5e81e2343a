import { readArgs, readNumber, UsageError } from '../kit/command.ts'
import { FLOODS } from './floods.ts'

const MAX_SECONDS = 3_600

export const USAGE = `Usage: npm run flood-test -- [options]

Floods a service with what strangers can send, one flood after the other, and shows what honest users notice:
first without the flood, then beside it. The service has the limits of production, and HAProxy with
deploy/haproxy.cfg in front of it. Its databases are on a new Postgres, or on the server of DATABASE_URL.
The exit status is 1 if an aim is missed.

  --flood NAMES       comma-separated names, or beginnings of them such as \`sign-ins\`; all by default
  --duration SECONDS  of each flood, at most ${MAX_SECONDS} (20)
  --json FILE         writes the figures as JSON

${Object.entries(FLOODS)
  .map(([name, { about }]) => `  ${name.padEnd(20)} ${about}`)
  .join('\n')}`

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

/** Each name stands for itself, or for a family such as `sign-ins`. */
function findFloods(names: string): string[] {
  return names.split(',').flatMap((given) => {
    const found = Object.keys(FLOODS).filter((name) => name === given || name.startsWith(`${given}-`))
    if (found.length > 0) return found
    throw new UsageError(`there is no flood ${given}; there are ${Object.keys(FLOODS).join(', ')}`)
  })
}
