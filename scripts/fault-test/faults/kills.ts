import { setTimeout as sleep } from 'node:timers/promises'
import { sendSignal } from '../../kit/processes.ts'
import type { Random } from '../random.ts'
import type { FaultOf } from './fault.ts'

/** What SIGKILL can end of an instance. */

interface Instance {
  /** Its primary, which is all of it with one worker, and its workers. */
  processes(): number[]
  stop(): Promise<void>
  start(): Promise<void>
}

/** The fault that kills those of the processes; the instance starts again later, if its primary was one. */
const kill = <Target>(
  what: string,
  instancesOf: (target: Target) => readonly Instance[],
  choose: (processes: readonly number[], random: Random) => readonly number[],
): FaultOf<Target> => ({
  what,
  breaks: 'instances',
  restarts: true,
  async run(target, random, ms) {
    const instance = random.pick(instancesOf(target))
    const processes = instance.processes()
    const killed = choose(processes, random)
    for (const pid of killed) sendSignal(pid, 'SIGKILL')
    const isOver = killed.some((pid) => pid === processes[0])
    if (isOver) await instance.stop()
    await sleep(ms)
    if (isOver) await instance.start()
  },
})

export const killsOf = <Target>(instancesOf: (target: Target) => readonly Instance[]) => ({
  'worker-killed': kill(
    'a worker is killed (with one worker: the instance)',
    instancesOf,
    // None, if the instance did not start: the process id 0 would be the group of this one.
    (processes, random) => (processes.length > 1 ? [random.pick(processes.slice(1))] : processes),
  ),
  'primary-killed': kill(
    'the primary of an instance is killed, and its workers leave by themselves; it starts again later',
    instancesOf,
    (processes) => processes.slice(0, 1),
  ),
  'instance-killed': kill(
    'all processes of an instance are killed, and it starts again later',
    instancesOf,
    (processes) => processes,
  ),
})
