import type { Operation } from '../drive/load.ts'
import type { Client } from '../http-client.ts'
import type { LiveSession } from '../operations/credentials.ts'
import { checkSession, refresh } from '../operations/sessions.ts'
import { onTarget, type Scenario } from './scenario.ts'
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
  open: openWith({ sessionsPerUser: 100, create: refresh }),
}

export const sessionFlood: Scenario = {
  ...FLOODED,
  about: 'session checks while 200 clients sign in over and over',
  open: openWith({ sessionsPerUser: 16, create: checkSession }),
}

function openWith({ sessionsPerUser, create }: FloodedOperation): Scenario['open'] {
  return onTarget(async ({ target, client, connections, cleanup }) => {
    const dealt = await dealSessions(target, connections, sessionsPerUser)
    const operations = dealt.map((sessions) => create(client, sessions))
    return {
      operations: async () => operations,
      baseline: operations,
      disturb: () => startSignInFlood(target, cleanup),
    }
  })
}
