import { openSessionLookUps } from '../baselines/session-look-ups.ts'
import { openSmallestAnswer } from '../baselines/smallest-answer.ts'
import { checkSession } from '../operations/sessions.ts'
import { openParts } from './parts.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

export const session: Scenario = {
  about: 'an authenticated call with each of 16 tokens in turn; session and permissions are read each time',
  connections: 64,
  baseline: { name: 'smallest Fastify answer', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const dealt = await dealSessions(target, connections, 16)
    const operations = dealt.map((sessions) => checkSession(client, sessions))
    const { operations: baseline } = await openSmallestAnswer(connections, cleanup)
    const lookUps = await openSessionLookUps(target, connections, cleanup)
    const parts = await openParts({ target, connections, cleanup, statements: [['look-up', lookUps]] })
    return { operations: async () => operations, baseline, parts }
  }),
}
