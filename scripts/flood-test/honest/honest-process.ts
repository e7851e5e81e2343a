import { setTimeout as sleep } from 'node:timers/promises'
import { drive, latencyAt, type Measurement } from '../../kit/drive.ts'
import type { Credentials } from '../../kit/operations.ts'
import { type Kind, RATES, type Seen } from './kinds.ts'
import { DEADLINE_MS, moveIn, setUpDevice } from './member.ts'
import { type HonestUsers, operationsOf } from './operations.ts'

/** Runs in a process of its own: honest users, so that a flood's generator takes none of their time. */

/** The first message to this process. The answer is `ready`. */
export interface HonestSetup {
  url: string
  people: Credentials[]
  /** In base64. */
  signingKey: string
}

/** Every further message: for how long to send. The answer is what they saw. */
export interface HonestRun {
  durationMs: number
}

const GROUP = 50
const SIGN_INS_AT_ONCE = 4

async function prepare({ url, people, signingKey }: HonestSetup): Promise<HonestUsers> {
  const group = (n: number) => people.slice(n * GROUP, (n + 1) * GROUP)
  const members = await forEachOf(group(0), (one, n) => moveIn(url, one, n))
  const deviceOwners = await forEachOf(group(1), (one, n) => setUpDevice(url, one, n))
  const companyId = people[0]?.companyId ?? ''
  const sender = { companyId, signingKey: Buffer.from(signingKey, 'base64') }
  return { url, members, deviceOwners, travellers: group(2), sender }
}

async function forEachOf<T, R>(all: T[], act: (one: T, n: number) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let from = 0; from < all.length; from += SIGN_INS_AT_ONCE) {
    const some = all.slice(from, from + SIGN_INS_AT_ONCE)
    results.push(...(await Promise.all(some.map((one, n) => act(one, from + n)))))
  }
  return results
}

function run(users: HonestUsers, durationMs: number): Promise<Seen[]> {
  const operations = operationsOf(users)
  const kinds = Object.keys(RATES) as Kind[]
  return Promise.all(
    kinds.map(async (kind, n) => {
      const rate = RATES[kind]
      // Kinds whose rates are multiples of each other would always send at the same moments.
      await sleep((1000 / rate) * (n / kinds.length))
      // Enough virtual users that none is waited for, even if every answer takes until its deadline.
      const virtualUsers = Math.ceil((rate * DEADLINE_MS) / 1000) + 2
      const measured = await drive({
        works: Array.from({ length: virtualUsers }, () => operations[kind]),
        durationMs,
        rate,
      })
      return summarize(kind, measured)
    }),
  )
}

function summarize(kind: Kind, measurement: Measurement): Seen {
  const { succeeded, errors, histogram } = measurement
  const failed = [...errors.values()].reduce((sum, count) => sum + count, 0)
  const sent = succeeded + failed
  const [p50, p99] = [latencyAt(histogram, 50), latencyAt(histogram, 99)]
  const share = sent > 0 ? succeeded / sent : null
  return { kind, sent, succeeded, share, p50, p99, errors: Object.fromEntries(errors) }
}

process.once('message', async (setup: HonestSetup) => {
  const users = await prepare(setup)
  process.on('message', async ({ durationMs }: HonestRun) => {
    process.send?.(await run(users, durationMs))
  })
  process.send?.('ready')
})
process.on('disconnect', () => process.exit())
