import { openSessionUpdates } from '../baselines/session-updates.ts'
import { refresh as refreshOperation } from '../operations/sessions.ts'
import { connectTo, type OpenScenario, type Scenario, type ScenarioContext } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

export const refresh: Scenario = {
  about: 'each virtual user rotates the tokens of its sessions in turn',
  connections: 64,
  baseline: { name: 'single-row updates', compare: 'rate' },
  open,
}

async function open(
  { findTarget, connections }: ScenarioContext,
  cleanup: AsyncDisposableStack,
): Promise<OpenScenario> {
  const target = await findTarget()
  const client = connectTo(target, connections, cleanup)
  const dealt = await dealSessions(target, connections, 100)
  const operations = dealt.map((sessions) => refreshOperation(client, sessions))
  return {
    target,
    operations: async () => operations,
    baseline: await openSessionUpdates(target, connections, cleanup),
  }
}
