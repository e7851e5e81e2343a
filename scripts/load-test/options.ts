import { readArgs, readNumber, UsageError } from '../kit/command.ts'
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

const TEXT = { type: 'string' } as const
const OPTIONS = {
  scenario: { ...TEXT, default: DEFAULT_SCENARIOS.join() },
  ...{
    duration: TEXT,
    rounds: TEXT,
    connections: TEXT,
    workers: TEXT,
    rate: TEXT,
    sessions: TEXT,
    json: TEXT,
  },
  help: { type: 'boolean' },
} as const

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const { values } = readArgs({ args, options: OPTIONS })
  if (values.help) return null
  const read = (name: Exclude<keyof typeof OPTIONS, 'help'>, isWhole = true) => {
    const text = values[name]
    return text === undefined ? undefined : readNumber(name, text, { isWhole })
  }
  const rounds = read('rounds') ?? 3
  return {
    scenarios: findScenarios(values.scenario),
    rounds,
    roundMs: ((read('duration', false) ?? 15) / rounds) * 1000,
    connections: read('connections'),
    workers: read('workers') ?? 1,
    rate: read('rate', false),
    sessions: read('sessions') ?? 10_000,
    json: values.json,
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
