import { openEventInserts } from '../baselines/event-inserts.ts'
import { openSessionUpdates } from '../baselines/session-updates.ts'
import type { Operation } from '../drive/load.ts'
import type { Client } from '../http-client.ts'
import { logout as logoutOperation } from '../operations/sessions.ts'
import type { Target } from '../target/target.ts'
import { openParts } from './parts.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { forEachUser } from './virtual-users.ts'

/** More than can end in a second, so that a round does not run out of sessions. */
const LOGOUTS_PER_SECOND = 6_000
/** Without the database each session takes a sign-in, which is slow. */
const LOGOUTS_PER_SECOND_BY_SIGN_IN = 50
/** A long round may run out of sessions, and ends then. */
const MAX_LOGOUTS = 200_000

export const logout: Scenario = {
  about: 'each virtual user ends one session after the other',
  connections: 16,
  baseline: { name: 'single-row updates', compare: 'rate' },
  open: onTarget(async ({ target, client, connections, cleanup }) => {
    const baseline = await openSessionUpdates(target, connections, cleanup)
    const inserts = await openEventInserts(target, { users: connections, batch: 1 }, cleanup)
    const parts = await openParts({
      target,
      connections,
      cleanup,
      // The insert is that of the audit entry.
      statements: [
        ['update', baseline],
        ['insert', inserts],
      ],
      cryptography: { 'ES256 verification': 1 },
    })
    return {
      operations: (seconds) => prepareLogouts(target, client, connections, seconds),
      baseline,
      parts,
    }
  }),
}

async function prepareLogouts(
  target: Target,
  client: Client,
  users: number,
  seconds: number,
): Promise<Operation[]> {
  const perSecond = target.databaseUrl ? LOGOUTS_PER_SECOND : LOGOUTS_PER_SECOND_BY_SIGN_IN
  const sessions = await target.takeSessions(Math.min(Math.ceil(seconds * perSecond), MAX_LOGOUTS), 'new')
  return forEachUser(users, () => logoutOperation(client, sessions))
}
