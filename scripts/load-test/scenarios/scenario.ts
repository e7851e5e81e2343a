import type { Part } from '../baselines/part.ts'
import type { Operation } from '../drive/load.ts'
import { type Client, openClient } from '../http-client.ts'
import type { Target } from '../target/target.ts'
import type { FindTarget } from '../target/targets.ts'

export interface Scenario {
  about: string
  /** Default number of virtual users, each with one connection. */
  connections: number
  /** What the result is compared with: a limit of the machine, or the same load without a disturbance. */
  baseline?: Baseline
  /** How many events one operation carries. Without it, requests are counted. */
  eventsPerOperation?: number
  /** Prepares the scenario. What it opens is closed by the cleanup. */
  open(context: ScenarioContext, cleanup: AsyncDisposableStack): Promise<OpenScenario>
}

export interface Baseline {
  name: string
  compare: 'rate' | 'p99'
}

export interface ScenarioContext {
  connections: number
  findTarget: FindTarget
  /** Whether the load test starts its services itself. */
  startsServices: boolean
  /** How many sessions the scenario `scale` creates. */
  scaleSessions: number
}

export interface OpenScenario {
  target: Target
  /** What the virtual users do in a round of this length. */
  operations(seconds: number): Promise<Operation[]>
  /** Undefined if it cannot be measured here. */
  baseline?: Operation[] | undefined
  /** What an operation cannot do without. Undefined if it cannot be measured here. */
  parts?: Part[] | undefined
  /** Starts what disturbs the operations. */
  disturb?(): Promise<Disturbance>
}

export interface Disturbance {
  /** Ends it and returns a sentence on what it did. */
  stop(): Promise<string>
}

interface OnTarget {
  target: Target
  client: Client
  connections: number
  cleanup: AsyncDisposableStack
}

/** How to open a scenario on one target, with a client that has a connection for each virtual user. */
export function onTarget(
  prepare: (opened: OnTarget) => Promise<Omit<OpenScenario, 'target'>>,
): Scenario['open'] {
  return async ({ findTarget, connections }, cleanup) => {
    const target = await findTarget()
    const client = connectTo(target, connections, cleanup)
    return { target, ...(await prepare({ target, client, connections, cleanup })) }
  }
}

/** Opens a client with a connection for each virtual user. */
export function connectTo(target: Target, connections: number, cleanup: AsyncDisposableStack): Client {
  const client = openClient(target.url, { connections })
  cleanup.defer(() => client.close())
  return client
}
