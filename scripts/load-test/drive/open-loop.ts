import { setTimeout as sleep } from 'node:timers/promises'
import { isOver, type Load, type Operation } from './load.ts'
import { perform, type Recording, recordFailure } from './recording.ts'

/** How long to wait for outstanding answers after the end, before they count as unanswered. */
const GRACE_MS = 10_000

interface Queue {
  /** Virtual users that wait for their next operation. */
  idle: Operation[]
  /** Times at which operations were due that no virtual user has started yet. */
  due: number[]
  /** Number of virtual users that wait for an answer. */
  busy: number
}

/**
 * Operations are due at a fixed rate, and latency counts from then even if no virtual user was free. So a stall
 * of the service shows in all operations that were due during it, not in one (coordinated omission).
 */
export async function runOpenLoop(load: Load, rate: number, recording: Recording): Promise<void> {
  const { startedAt } = recording
  const queue: Queue = { idle: [...load.operations], due: [], busy: 0 }
  let scheduled = 0
  while (!isOver(load, startedAt) && !isFinished(queue)) {
    // The first one is due at once.
    const target = Math.floor(((performance.now() - startedAt) / 1000) * rate) + 1
    for (; scheduled < target; scheduled += 1) queue.due.push(startedAt + (scheduled / rate) * 1000)
    dispatch(queue, recording)
    await sleep(1)
  }
  await waitForAnswers(queue, load.signal)
  // After Ctrl-C nothing was waited for, so nothing is the service's failure.
  if (load.signal?.aborted) return
  for (let left = outstanding(queue); left > 0; left -= 1) recordFailure(recording, 'unanswered')
}

/** Starts operations that are due, as long as virtual users are idle. */
function dispatch(queue: Queue, recording: Recording): void {
  while (queue.due.length > 0 && queue.idle.length > 0) {
    const operation = queue.idle.pop()
    const dueAt = queue.due.shift()
    if (!operation || dueAt === undefined) return
    queue.busy += 1
    void perform(recording, operation, dueAt).then((hasMore) => {
      queue.busy -= 1
      if (hasMore) queue.idle.push(operation)
      dispatch(queue, recording)
    })
  }
}

async function waitForAnswers(queue: Queue, signal: AbortSignal | undefined): Promise<void> {
  const graceEndsAt = performance.now() + GRACE_MS
  while (outstanding(queue) > 0 && performance.now() < graceEndsAt && !signal?.aborted) await sleep(5)
}

/** Whether all virtual users have nothing left to do. */
function isFinished({ idle, busy }: Queue): boolean {
  return idle.length + busy === 0
}

function outstanding(queue: Queue): number {
  return isFinished(queue) ? 0 : queue.due.length + queue.busy
}
