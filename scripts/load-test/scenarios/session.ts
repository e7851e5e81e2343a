import { openSmallestAnswer } from '../baselines/smallest-answer.ts'
import { checkSession } from '../operations/sessions.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

export const session: Scenario = {
  about: 'an authenticated call with each of 16 tokens in turn; session and permissions are read each time',
  connections: 64,
  baseline: { name: 'smallest Fastify answer', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const dealt = await dealSessions(target, connections, 16)
    const operations = dealt.map((sessions) => checkSession(client, sessions))
    return { operations: async () => operations, baseline: await openSmallestAnswer(connections, cleanup) }
  }),
}
