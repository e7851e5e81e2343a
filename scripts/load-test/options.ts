import { parseArgs } from 'node:util'
import { UsageError } from '../kit/errors.ts'
import { DEFAULT_SCENARIOS, SCENARIOS, type Scenario } from './scenarios.ts'

export const USAGE = `Usage: npm run load-test -- [options]

Starts gatehouse and a plain service with the same operations on its own Postgres, or on new databases on the server of
DATABASE_URL, and puts load on both in turn. pgbench (Debian: postgresql) measures the statements.

  --scenario NAMES    comma-separated, or \`all\`; ${DEFAULT_SCENARIOS.join(', ')} by default
  --duration SECONDS  of load on each service in each scenario, and for its parts (15)
  --rounds N          into which these are divided; they alternate, so that a noisy machine affects all (3)
  --connections N     virtual users, each with one connection (8 to 64, depending on the scenario)
  --workers N         processes of gatehouse that respond (1)
  --rate N            open loop: requests per second, and latencies as if none had waited for the one before
  --sessions N        sessions that exist beforehand (10000)
  --json FILE         writes the figures as JSON

Ctrl-C ends the load and still prints the report. The exit status is 1 if gatehouse gave a wrong response, or an error
other than 429.

${Object.entries(SCENARIOS)
  .map(([name, { about }]) => `  ${name.padEnd(14)} ${about}`)
  .join('\n')}`

export interface Options {
  scenarios: [name: string, scenario: Scenario][]
  rounds: number
  roundMs: number
  /** Undefined: each scenario has its own default. */
  connections: number | undefined
  workers: number
  /** Undefined in the closed loop. */
  rate: number | undefined
  sessions: number
  json: string | undefined
}

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const values = parseValues(args)
  if (values.help) return null
  const count = (name: 'rounds' | 'connections' | 'workers' | 'sessions') => {
    const text = values[name]
    if (text === undefined) return undefined
    return Number.isInteger(Number(text)) ? positive(name, text) : refuse(name, text)
  }
  const rounds = count('rounds') ?? 3
  return {
    scenarios: findScenarios(values.scenario),
    rounds,
    roundMs: (positive('duration', values.duration) / rounds) * 1000,
    connections: count('connections'),
    workers: count('workers') ?? 1,
    rate: values.rate === undefined ? undefined : positive('rate', values.rate),
    sessions: count('sessions') ?? 10_000,
    json: values.json,
  }
}

function parseValues(args: string[]) {
  const text = { type: 'string' } as const
  try {
    return parseArgs({
      args,
      options: {
        scenario: { ...text, default: DEFAULT_SCENARIOS.join() },
        duration: { ...text, default: '15' },
        ...{ rounds: text, connections: text, workers: text, rate: text, sessions: text, json: text },
        help: { type: 'boolean' },
      },
    }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function findScenarios(names: string): Options['scenarios'] {
  if (names === 'all') return Object.entries(SCENARIOS)
  return names.split(',').map((name) => {
    const scenario = SCENARIOS[name]
    if (scenario) return [name, scenario]
    throw new UsageError(`there is no scenario ${name}; there are ${Object.keys(SCENARIOS).join(', ')}`)
  })
}

function positive(name: string, text: string): number {
  return Number(text) > 0 ? Number(text) : refuse(name, text)
}

function refuse(name: string, text: string): never {
  throw new UsageError(`--${name} must be a number above 0, not ${text}`)
}
