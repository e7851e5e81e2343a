import { openSessionUpdates } from '../baselines/session-updates.ts'
import { refresh as rotate } from '../operations/sessions.ts'
import { openParts } from './parts.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

export const refresh: Scenario = {
  about: 'each virtual user rotates the tokens of its sessions in turn',
  connections: 64,
  baseline: { name: 'single-row updates', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const dealt = await dealSessions(target, connections, 100)
    const operations = dealt.map((sessions) => rotate(client, sessions))
    const baseline = await openSessionUpdates(target, connections, cleanup)
    const parts = await openParts({
      target,
      connections,
      cleanup,
      statements: [['update', baseline]],
      // The refresh token that comes is verified, and the next one signed.
      cryptography: { 'ES256 signature': 1, 'HMAC of a token': 2 },
    })
    return { operations: async () => operations, baseline, parts }
  }),
}
