import { combine } from '../generators/attack.ts'
import type { Victim } from './flood.ts'
import { FLOODS } from './list.ts'

/** Runs in a process of its own: the attackers. Any message ends the floods; the answer is what they did. */

/** The first message. The answer is `ready`, when the floods have begun. */
export interface AttackSetup {
  floods: string[]
  victim: Victim
}

process.once('message', ({ floods, victim }: AttackSetup) => {
  const attack = combine(floods.flatMap((name) => FLOODS[name]?.attack?.(victim) ?? []))
  process.on('message', () => {
    process.send?.(attack.counts())
    attack.stop()
  })
  process.send?.('ready')
})
process.on('disconnect', () => process.exit())
