import type { Operation } from '../drive/load.ts'
import type { Client } from '../http-client.ts'
import type { LiveSession } from '../operations/credentials.ts'
import { checkSession, refresh } from '../operations/sessions.ts'
import { connectTo, type OpenScenario, type Scenario, type ScenarioContext } from './scenario.ts'
import { startSignInFlood } from './sign-in-flood.ts'
import { dealSessions } from './virtual-users.ts'

interface FloodedOperation {
  sessionsPerUser: number
  create(client: Client, sessions: LiveSession[]): Operation
}

const FLOODED = {
  connections: 64,
  baseline: { name: 'the same without sign-ins', compare: 'p99' },
} as const

export const refreshFlood: Scenario = {
  ...FLOODED,
  about: 'refreshes while 200 clients sign in over and over',
  open: (context, cleanup) => open(context, { sessionsPerUser: 100, create: refresh }, cleanup),
}

export const sessionFlood: Scenario = {
  ...FLOODED,
  about: 'session checks while 200 clients sign in over and over',
  open: (context, cleanup) => open(context, { sessionsPerUser: 16, create: checkSession }, cleanup),
}

async function open(
  { findTarget, connections }: ScenarioContext,
  { sessionsPerUser, create }: FloodedOperation,
  cleanup: AsyncDisposableStack,
): Promise<OpenScenario> {
  const target = await findTarget()
  const client = connectTo(target, connections, cleanup)
  const dealt = await dealSessions(target, connections, sessionsPerUser)
  const operations = dealt.map((sessions) => create(client, sessions))
  return {
    target,
    operations: async () => operations,
    baseline: operations,
    disturb: () => startSignInFlood(target, cleanup),
  }
}
