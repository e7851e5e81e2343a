import { readArgs, readNumber, UsageError } from '../kit/command.ts'
import { SCENARIOS, type Scenario } from './scenarios.ts'

export const USAGE = `Usage: npm run load-test -- [options]

Measures what each operation costs, and compares it with a plain service. Uses its own Postgres and pgbench (Debian:
postgresql). With DATABASE_URL, uses new databases on that server, and measures no parts.

  --scenario NAMES    Runs only these scenarios, separated by commas
  --duration SECONDS  Sets the time of load per service and scenario, and for its parts (default: 15)
  --rounds N          Divides this time into alternating rounds, so that noise affects both services (default: 3)
  --workers N         Sets the number of gatehouse's processes (default: 1)
  --json FILE         Writes the figures as JSON

Ctrl+C ends the load and still prints the report. The exit status is 1 after a wrong response of gatehouse, or an error
other than 429.

Scenarios:

${Object.entries(SCENARIOS)
  .map(([name, { about }]) => `  ${name.padEnd(14)} ${about}`)
  .join('\n')}

Examples:
  npm run load-test -- --scenario session,refresh --duration 30
  npm run load-test -- --workers 2 --json figures.json`

export interface Options {
  scenarios: [name: string, scenario: Scenario][]
  rounds: number
  roundMs: number
  workers: number
  json: string | undefined
}

const text = (standard: string) => ({ type: 'string', default: standard }) as const
const OPTIONS = {
  scenario: text(Object.keys(SCENARIOS).join()),
  duration: text('15'),
  rounds: text('3'),
  workers: text('1'),
  json: { type: 'string' },
  help: { type: 'boolean' },
} as const

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const { scenario, duration, json, help, ...values } = readArgs({ args, options: OPTIONS }).values
  if (help) return null
  const rounds = readNumber('rounds', values.rounds, { isWhole: true })
  return {
    scenarios: scenario.split(',').map(findScenario),
    rounds,
    roundMs: (readNumber('duration', duration) / rounds) * 1000,
    workers: readNumber('workers', values.workers, { isWhole: true }),
    json,
  }
}

function findScenario(name: string): [string, Scenario] {
  const scenario = SCENARIOS[name]
  if (scenario) return [name, scenario]
  throw new UsageError(`Unknown scenario: ${name}. The scenarios are ${Object.keys(SCENARIOS).join(', ')}.`)
}
