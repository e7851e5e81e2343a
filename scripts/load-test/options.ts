import { readArgs, readNumber, UsageError } from '../kit/command.ts'
import { SCENARIOS, type Scenario } from './scenarios.ts'

export const USAGE = `Usage: npm run load-test -- [options]

Starts gatehouse and a plain service with the same operations on its own Postgres, or on new databases on the server of
DATABASE_URL, and puts load on both in turn. pgbench (Debian: postgresql) measures the statements.

  --scenario NAMES    comma-separated; all by default
  --duration SECONDS  of load on each service in each scenario, and for its parts (15)
  --rounds N          into which these are divided; they alternate, so that a noisy machine affects all (3)
  --workers N         processes of gatehouse that respond (1)
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
  throw new UsageError(`there is no scenario ${name}; there are ${Object.keys(SCENARIOS).join(', ')}`)
}
