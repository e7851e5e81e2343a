import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { UsageError } from '../kit/errors.ts'
import { FLOODS, namesOf, TOGETHER } from './floods/list.ts'

/** What an hour allows once is written in its first minute, so bytes an hour are known after an hour. */
const MAX_SECONDS = 3_600
const MAX_IDLE_SECONDS = 30

export const USAGE = `Usage: npm run flood-test -- [options]

Floods a service with what strangers can send, one flood after the other, and shows what honest users see of it:
first of the honest load alone (idle), then beside the flood. It starts the service, with limits as in production,
and a Postgres of its own, or creates databases on the server of DATABASE_URL. It uses loopback alone, and needs
Linux, where connections can come from all of 127.0.0.0/8.

  --flood NAMES       comma-separated names, or beginnings of them such as \`sign-ins\`; by default all
  --duration SECONDS  of each flood, at most ${MAX_SECONDS} (20). The honest load alone runs as long, at most ${MAX_IDLE_SECONDS} s
  --all-together      these floods at once; one of each kind by default
  --proxy             through HAProxy with deploy/haproxy.cfg, as in production
  --workers N         processes of the service (1)
  --service DIR       another checkout of the project, whose service is flooded
  --json FILE         writes the figures as JSON
  --check             exit status 1 if an aim is missed

${Object.entries(FLOODS)
  .map(([name, { about }]) => `  ${name.padEnd(20)} ${about}`)
  .join('\n')}`

export interface Options {
  floods: string[]
  floodSeconds: number
  idleSeconds: number
  isAllTogether: boolean
  serviceFolder: string | undefined
  isProxied: boolean
  workers: number
  json: string | undefined
  check: boolean
}

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const values = parseValues(args)
  if (values.help) return null
  const floodSeconds = readSeconds(values.duration)
  return {
    floods: findFloods(values.flood ?? (values['all-together'] ? TOGETHER : Object.keys(FLOODS)).join(',')),
    floodSeconds,
    idleSeconds: Math.min(floodSeconds, MAX_IDLE_SECONDS),
    isAllTogether: values['all-together'],
    serviceFolder: values.service === undefined ? undefined : findService(values.service),
    isProxied: values.proxy,
    workers: readWorkers(values.workers),
    json: values.json,
    check: values.check,
  }
}

function parseValues(args: string[]) {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean', default: false } as const
  try {
    return parseArgs({
      args,
      options: {
        flood: text,
        duration: { ...text, default: '20' },
        'all-together': flag,
        proxy: flag,
        workers: { ...text, default: '1' },
        service: text,
        json: text,
        check: flag,
        help: flag,
      },
    }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function findFloods(names: string): string[] {
  const found = names.split(',').flatMap((name) => {
    const floods = namesOf(name)
    if (floods.length > 0) return floods
    throw new UsageError(`there is no flood ${name}; there are ${Object.keys(FLOODS).join(', ')}`)
  })
  return [...new Set(found)]
}

function readSeconds(text: string): number {
  const seconds = Number(text)
  if (seconds > 0 && seconds <= MAX_SECONDS) return seconds
  throw new UsageError(`--duration must be a number above 0 and up to ${MAX_SECONDS}, not ${text}`)
}

function readWorkers(text: string): number {
  const workers = Number(text)
  if (Number.isInteger(workers) && workers > 0 && workers <= 64) return workers
  throw new UsageError(`--workers must be a whole number from 1 to 64, not ${text}`)
}

function findService(folder: string): string {
  if (existsSync(join(folder, 'scripts/start'))) return resolve(folder)
  throw new UsageError(`--service must be a checkout of the project; ${folder} has no scripts/start`)
}
