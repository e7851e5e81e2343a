import { openRawArgon2 } from '../baselines/raw-argon2.ts'
import { signIn } from '../operations/sign-in.ts'
import { connectTo, type OpenScenario, type Scenario, type ScenarioContext } from './scenario.ts'
import { forEachUser } from './virtual-users.ts'

export const login: Scenario = {
  about: 'sign-in with email and password',
  connections: 8,
  baseline: { name: 'raw argon2id', compare: 'rate' },
  open,
}

async function open(
  { findTarget, connections }: ScenarioContext,
  cleanup: AsyncDisposableStack,
): Promise<OpenScenario> {
  const target = await findTarget()
  const client = connectTo(target, connections, cleanup)
  const operations = forEachUser(connections, () => signIn(client, target.people))
  return {
    target,
    operations: async () => operations,
    baseline: await openRawArgon2(connections, cleanup),
  }
}
