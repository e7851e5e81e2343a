import { openEventInserts } from '../baselines/event-inserts.ts'
import { ingestBatch as ingestBatchOperation, ingestEvent } from '../operations/ingest.ts'
import { obtainSigningKey } from '../operations/signing-key.ts'
import { openParts } from './parts.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { forEachUser } from './virtual-users.ts'

const EVENTS_PER_BATCH = 100

export const ingest: Scenario = {
  about: 'one signed event of about 500 bytes a request',
  connections: 64,
  baseline: { name: 'single-row inserts', compare: 'rate' },
  open: openWith(1),
}

export const ingestBatch: Scenario = {
  about: `${EVENTS_PER_BATCH} signed events a request`,
  connections: 16,
  eventsPerOperation: EVENTS_PER_BATCH,
  baseline: { name: `inserts of ${EVENTS_PER_BATCH} rows`, compare: 'rate' },
  open: openWith(EVENTS_PER_BATCH),
}

function openWith(batch: number): Scenario['open'] {
  return onTarget(async ({ target, client, connections, cleanup }) => {
    const { companyId } = target.admin
    const sender = { companyId, signingKey: await obtainSigningKey(client, target.admin) }
    const operations = forEachUser(connections, () =>
      batch === 1 ? ingestEvent(client, sender) : ingestBatchOperation(client, sender, batch),
    )
    const baseline = await openEventInserts(target, { users: connections, batch }, cleanup)
    const parts = await openParts({
      target,
      connections,
      cleanup,
      statements: [[batch === 1 ? 'insert' : `insert of ${batch} rows`, baseline]],
      cryptography: { [batch === 1 ? 'HMAC of an event' : 'HMAC of 100 events']: 1 },
    })
    return { operations: async () => operations, baseline, parts }
  })
}
