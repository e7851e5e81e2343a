import type { Operation } from '../drive/load.ts'
import { refresh } from '../operations/sessions.ts'
import type { Target } from '../target/target.ts'
import { UsageError } from '../usage-error.ts'
import { connectTo, type OpenScenario, type Scenario, type ScenarioContext } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

const FEW_SESSIONS = 10_000

export const scale: Scenario = {
  about: 'refreshes with many sessions, 5 million unless --sessions says otherwise',
  connections: 64,
  baseline: { name: `refreshes with ${FEW_SESSIONS} sessions`, compare: 'p99' },
  open,
}

async function open(
  { findTarget, startsServices, connections, scaleSessions }: ScenarioContext,
  cleanup: AsyncDisposableStack,
): Promise<OpenScenario> {
  if (!startsServices) throw new UsageError('`scale` starts two services itself; leave out --url.')
  const many = await findTarget(scaleSessions)
  const few = await findTarget(FEW_SESSIONS)
  const operations = await refreshesOn(many, connections, cleanup)
  return {
    target: many,
    operations: async () => operations,
    baseline: await refreshesOn(few, connections, cleanup),
  }
}

async function refreshesOn(
  target: Target,
  connections: number,
  cleanup: AsyncDisposableStack,
): Promise<Operation[]> {
  const client = connectTo(target, connections, cleanup)
  const dealt = await dealSessions(target, connections, 100)
  return dealt.map((sessions) => refresh(client, sessions))
}
