import type { Readable } from 'node:stream'
import type { Request } from '../kit/client.ts'
import { drive, type Work } from '../kit/drive.ts'
import { codeOf } from '../kit/errors.ts'
import { FLOODS } from './floods.ts'
import { type Networks, openFrom } from './networks.ts'

/** The attack of one flood, in its own process and on one core, so that honest users do not wait for attackers. */

/** What attackers know of the service. */
export interface Victim {
  /** Without a path. */
  url: string
  companyId: string
  /** Emails of members whom no honest user is. */
  members: string[]
}

export interface Attack {
  /** Requests per second that are due, whatever the responses are. */
  rate: number
  /** How many can be in progress at the same time. */
  connections: number
  networks: Networks
  /** Whether a connection stays open for further requests. Otherwise each request has its own. */
  isKept?: boolean
  /** The nth request. */
  requestOf(victim: Victim, n: number): Request<string | Readable>
}

/** The first message. The answer is `ready`, when the attack has begun. Any further message ends it. */
export interface AttackSetup {
  flood: string
  victim: Victim
}

/** How much was sent, and what came back: statuses, and codes of errors. */
export type Counts = Record<string, number>

function start(attack: Attack, victim: Victim): Counts {
  const { rate, connections, networks, isKept, requestOf } = attack
  const counts: Counts = {}
  const count = (what: string | number) => {
    counts[what] = (counts[what] ?? 0) + 1
  }
  const open = (n: number) => openFrom(networks(n), victim.url)
  let sent = 0
  const works = Array.from({ length: connections }, (_, user): Work => {
    const kept = isKept ? open(user) : undefined
    return async () => {
      const n = sent
      sent += 1
      count('sent')
      const client = kept ?? open(n)
      const answer = await client.send(requestOf(victim, n)).catch(codeOf)
      count(typeof answer === 'string' ? answer : answer.status)
      if (!kept) await client.close()
    }
  })
  void drive({ works, rate, durationMs: Number.POSITIVE_INFINITY })
  return counts
}

process.once('message', ({ flood, victim }: AttackSetup) => {
  const attack = FLOODS[flood]?.attack
  if (!attack) throw new Error(`the flood ${flood} has no attack`)
  const counts = start(attack, victim)
  process.on('message', () => process.send?.(counts, () => process.exit()))
  process.send?.('ready')
})
process.on('disconnect', () => process.exit())
