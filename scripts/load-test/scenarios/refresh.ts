import { openSessionUpdates } from '../baselines/session-updates.ts'
import { refresh as rotate } from '../operations/sessions.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

export const refresh: Scenario = {
  about: 'each virtual user rotates the tokens of its sessions in turn',
  connections: 64,
  baseline: { name: 'single-row updates', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const dealt = await dealSessions(target, connections, 100)
    const operations = dealt.map((sessions) => rotate(client, sessions))
    return {
      operations: async () => operations,
      baseline: await openSessionUpdates(target, connections, cleanup),
    }
  }),
}
