import { parseArgs } from 'node:util'
import { FIGURE_NAMES, parseThreshold, type Threshold } from './judge/thresholds.ts'
import type { ReportFiles } from './report/write-report.ts'
import { DEFAULT_SCENARIOS, SCENARIOS } from './scenarios/list.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { UsageError } from './usage-error.ts'

export const USAGE = `Usage: npm run load-test -- [options]

Without --url it starts a service and a Postgres of its own, or creates databases on the server of DATABASE_URL.

  --scenario NAMES    comma-separated, or \`all\`; ${DEFAULT_SCENARIOS.join(', ')} by default
  --duration SECONDS  of load for each scenario, and as long again for its baseline (15)
  --rounds N          into which both are divided; they alternate, so that a noisy machine affects both (3)
  --connections N     virtual users, each with one connection (8 to 64, depending on the scenario)
  --workers N         processes of the service that answer (1)
  --rate N            open loop: operations a second that are due, answered or not; latency counts from
                      when an operation was due. Without --rate the loop is closed
  --sessions N        sessions that exist beforehand (10000; \`scale\`: 5000000)
  --url URL           a service that already runs. Set COMPANY_ID, EMAIL and PASSWORD of an admin in the
                      environment, or DATABASE_URL, MASTER_KEYS and PUBLIC_URL as the service has them.
                      What the load test creates stays there. Events are signed with SIGNING_SECRET if it
                      is set; without it the company gets a new secret, and its senders must use that one
  --json FILE         writes the figures as JSON
  --html FILE         writes the figures with plots, as one page that loads nothing else
  --compare FILE      shows by how much the figures differ from those of an earlier --json
  --fail-if LIMIT     exit status 1 if a figure is beyond it, such as 'refresh.p99>100' or 'login.ratio<0.5'; can
                      be given several times. Figures: ${FIGURE_NAMES}

A service that already runs must have RATE_LIMIT_SCALE set, for example to 1000000: it multiplies all limits,
is refused in production and is mentioned in the log. Ctrl-C ends the load and still prints the report. The
exit status is 1 if an answer was wrong, an error other than 429, or a figure beyond a limit of --fail-if.

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
  /** Operations a second in the open loop; undefined in the closed loop. */
  rate: number | undefined
  sessions: number
  scaleSessions: number
  /** Without a path; undefined if the load test starts its services itself. */
  url: string | undefined
  files: ReportFiles
  /** An earlier report. */
  compare: string | undefined
  thresholds: Threshold[]
}

type Values = ReturnType<typeof parseValues>

/** Null for --help. @throws UsageError */
export function readOptions(args: string[]): Options | null {
  const values = parseValues(args)
  if (values.help) return null
  const { json, html, url, compare } = values
  const scenarios = findScenarios(values.scenario)
  const names = scenarios.map(([name]) => name)
  const rounds = positiveInteger(values, 'rounds') ?? 3
  const sessions = positiveInteger(values, 'sessions')
  return {
    scenarios,
    rounds,
    roundMs: ((positiveNumber(values, 'duration') ?? 15) / rounds) * 1000,
    connections: positiveInteger(values, 'connections'),
    workers: positiveInteger(values, 'workers') ?? 1,
    rate: positiveNumber(values, 'rate'),
    sessions: sessions ?? 10_000,
    scaleSessions: sessions ?? 5_000_000,
    url: url === undefined ? undefined : readOrigin(url),
    files: { ...(json && { json }), ...(html && { html }) },
    compare,
    thresholds: values['fail-if'].map((limit) => parseThreshold(limit, names)),
  }
}

function parseValues(args: string[]) {
  const text = { type: 'string' } as const
  try {
    return parseArgs({
      args,
      options: {
        scenario: { ...text, default: DEFAULT_SCENARIOS.join(',') },
        duration: text,
        rounds: text,
        connections: text,
        workers: text,
        rate: text,
        sessions: text,
        url: text,
        json: text,
        html: text,
        compare: text,
        'fail-if': { ...text, multiple: true, default: [] },
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

function positiveNumber(values: Values, name: 'duration' | 'rate'): number | undefined {
  const text = values[name]
  return text === undefined ? undefined : requireThat(Number(text) > 0, name, text)
}

function positiveInteger(
  values: Values,
  name: 'rounds' | 'connections' | 'workers' | 'sessions',
): number | undefined {
  const text = values[name]
  if (text === undefined) return undefined
  return requireThat(Number(text) > 0 && Number.isInteger(Number(text)), name, text)
}

function requireThat(isValid: boolean, name: string, text: string): number {
  if (!isValid) throw new UsageError(`--${name} must be a number above 0, not ${text}`)
  return Number(text)
}

/** Takes the URL with or without the path /api. */
function readOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (!url || !/^https?:$/.test(url.protocol) || !/^\/(api\/?)?$/.test(url.pathname))
    throw new UsageError(`--url must be the URL of a service, such as http://127.0.0.1:3000, not ${text}`)
  return url.origin
}
