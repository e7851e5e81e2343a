import { codeOf } from '../kit/client.ts'
import { drive, type Work } from '../kit/drive.ts'
import { FLOODS } from './floods.ts'
import { openFrom } from './networks.ts'
import type { Attack, Counts, Victim } from './requests.ts'

/** Runs the attack in its own process, on one core, so that honest users do not wait for it. */

/** The first message. The response is `ready`. Any further message ends the attack. */
export interface AttackSetup {
  flood: string
  victim: Victim
}

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
  if (!attack) throw new Error(`unknown flood: ${flood}`)
  const counts = start(attack, victim)
  process.on('message', () => process.send?.(counts, () => process.exit()))
  process.send?.('ready')
})
process.on('disconnect', () => process.exit())
