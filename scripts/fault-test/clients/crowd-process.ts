import { setTimeout as sleep } from 'node:timers/promises'
import { openClient } from '../../kit/client.ts'
import { drive, type Work } from '../../kit/drive.ts'
import { ingest, openSender } from '../../kit/events.ts'
import { type Credentials, checkSession, openSession, perform, signIn } from '../../kit/operations.ts'

/** Runs in a process of its own, so that many clients do not delay those whose history is noted. */

/** The first message to this process. The answer is `ready`; to the next message, what the clients saw. */
export interface CrowdSetup {
  urls: readonly string[]
  admin: Credentials
  people: readonly Credentials[]
  count: number
  /** How many of them sign in at once, from time to time. */
  rushing: number
}

export interface CrowdSeen {
  succeeded: number
  /** By code. */
  errors: Record<string, number>
}

/** Longer than the 10 s in which each request of the service ends. */
const DEADLINE_MS = 12_000
const PAUSE_MS = 4_000
const EVENT_EACH = 4
/** Then some of the crowd sign in at once, on one of the ways in turn. */
const RUSH_EACH_MS = 30_000

async function prepare({ urls, admin, people, count, rushing }: CrowdSetup): Promise<Work[]> {
  const clients = urls.map((url) => openClient(url, { connections: count, deadlineMs: DEADLINE_MS }))
  const [first] = clients
  if (!first) throw new Error('a service has a URL')
  const sender = await openSender(first, admin)
  const sessions = [await openSession(first, admin)]
  return Array.from({ length: count }, (_, n) => {
    const client = clients[n % clients.length] ?? first
    const operation = n % EVENT_EACH === 1 ? ingest(sender) : checkSession(sessions)
    const daily = () => perform(client, operation)
    if (n >= rushing) return patiently(daily)
    const rush = signIn(people)
    const isMine = (nth: number) => nth % clients.length === n % clients.length
    return patiently(inRushes(isMine, () => perform(client, rush), daily))
  })
}

const rushes = () => performance.now() / RUSH_EACH_MS

/** One operation at each of its rushes, and another one between. */
function inRushes(isMine: (rush: number) => boolean, operation: Work, between: Work): Work {
  let last = Math.floor(rushes())
  return async () => {
    const now = Math.floor(rushes())
    const isRush = now > last && isMine(now)
    last = now
    await (isRush ? operation : between)()
  }
}

/** A pause ends when the next rush begins. */
const patiently = (operation: Work) => async () => {
  try {
    await operation()
  } finally {
    const untilRushMs = (1 - (rushes() % 1)) * RUSH_EACH_MS
    await sleep(Math.min(Math.random() * 2 * PAUSE_MS, untilRushMs + 1))
  }
}

process.once('message', async (setup: CrowdSetup) => {
  const operations = await prepare(setup)
  const stop = new AbortController()
  process.once('message', () => stop.abort())
  process.send?.('ready')
  const { succeeded, errors } = await drive({
    works: operations,
    durationMs: Number.POSITIVE_INFINITY,
    signal: stop.signal,
  })
  const seen: CrowdSeen = { succeeded, errors: Object.fromEntries(errors) }
  process.send?.(seen)
})
process.on('disconnect', () => process.exit())
