import { openEventInserts } from '../baselines/event-inserts.ts'
import { openRawArgon2 } from '../baselines/raw-argon2.ts'
import { openSessionLookUps } from '../baselines/session-look-ups.ts'
import { signIn } from '../operations/sign-in.ts'
import { openParts } from './parts.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { forEachUser } from './virtual-users.ts'

export const login: Scenario = {
  about: 'sign-in with email and password',
  connections: 8,
  baseline: { name: 'raw argon2id', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const operations = forEachUser(connections, () => signIn(client, target.people))
    const lookUps = await openSessionLookUps(target, connections, cleanup)
    const inserts = await openEventInserts(target, { users: connections, batch: 1 }, cleanup)
    const parts = await openParts({
      target,
      connections,
      cleanup,
      // The account; the session and its audit entry.
      statements: [
        ['look-up', lookUps],
        ['insert', inserts, 2],
      ],
      cryptography: { argon2id: 1, 'ES256 signature': 1, 'HMAC of a token': 1 },
    })
    const baseline = await openRawArgon2(connections, cleanup)
    return { operations: async () => operations, baseline, parts }
  }),
}
