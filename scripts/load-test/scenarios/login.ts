import { openRawArgon2 } from '../baselines/raw-argon2.ts'
import { signIn } from '../operations/sign-in.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { forEachUser } from './virtual-users.ts'

export const login: Scenario = {
  about: 'sign-in with email and password',
  connections: 8,
  baseline: { name: 'raw argon2id', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const operations = forEachUser(connections, () => signIn(client, target.people))
    return { operations: async () => operations, baseline: await openRawArgon2(connections, cleanup) }
  }),
}
