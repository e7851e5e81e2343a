import { setTimeout as sleep } from 'node:timers/promises'
import { drive } from '../../load-test/drive/drive.ts'
import type { Operation } from '../../load-test/drive/load.ts'
import { openClient } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { ingestEvent } from '../../load-test/operations/ingest.ts'
import { checkSession } from '../../load-test/operations/sessions.ts'
import { openSession, signIn } from '../../load-test/operations/sign-in.ts'
import { obtainSigningKey } from '../../load-test/operations/signing-key.ts'

/** Runs in a process of its own, so that many clients do not delay those whose history is noted. */

/** The first message to this process. The answer is `ready`; to the next message, what the clients saw. */
export interface CrowdSetup {
  urls: readonly string[]
  admin: Credentials
  people: readonly Credentials[]
  count: number
}

export interface CrowdSeen {
  succeeded: number
  /** By code. */
  errors: Record<string, number>
}

/** Longer than the 10 s in which each request of the service ends. */
const DEADLINE_MS = 12_000
const PAUSE_MS = 1_000
const SIGN_IN_EACH = 20
const EVENT_EACH = 4

async function prepare({ urls, admin, people, count }: CrowdSetup): Promise<Operation[]> {
  const clients = urls.map((url) => openClient(url, { connections: count, deadlineMs: DEADLINE_MS }))
  const [first] = clients
  if (!first) throw new Error('a service has a URL')
  const sender = { companyId: admin.companyId, signingKey: await obtainSigningKey(first, admin) }
  const sessions = [await openSession(first, admin)]
  return Array.from({ length: count }, (_, n) => {
    const client = clients[n % clients.length] ?? first
    if (n % SIGN_IN_EACH === 0) return signIn(client, [...people])
    return n % EVENT_EACH === 1 ? ingestEvent(client, sender) : checkSession(client, sessions)
  })
}

const patiently = (operation: Operation) => async () => {
  try {
    await operation()
  } finally {
    await sleep(Math.random() * 2 * PAUSE_MS)
  }
}

process.once('message', async (setup: CrowdSetup) => {
  const operations = await prepare(setup)
  const stop = new AbortController()
  process.once('message', () => stop.abort())
  process.send?.('ready')
  const { succeeded, errors } = await drive({
    operations: operations.map(patiently),
    durationMs: Number.POSITIVE_INFINITY,
    signal: stop.signal,
  })
  const seen: CrowdSeen = { succeeded, errors: Object.fromEntries(errors) }
  process.send?.(seen)
})
process.on('disconnect', () => process.exit())
