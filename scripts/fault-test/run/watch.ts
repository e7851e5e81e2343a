import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { peakMemoryOf } from '../../kit/processes.ts'
import type { Question, Reply } from './ask-thread.ts'

/** An instance, as operators know it. */
export interface Watched {
  opsUrl: string
  /** Whether it should answer. */
  isUp(): boolean
  processes(): number[]
}

/** What operators would see: whether each instance says that it lives, what its processes take, and what waits in it. */
export interface Watch {
  /** The longest answer of /livez of an instance that should answer, in milliseconds. */
  slowestLivezMs: number
  livezFailures: number
  /** Of one process. */
  peakMemoryBytes: number
  /** Of one instance, in its queues. */
  most: { connectionsAwaited: number; hashesWaiting: number }
}

const QUEUES = {
  connectionsAwaited: /^gatehouse_database_connections_awaited (\d+)$/m,
  hashesWaiting: /^gatehouse_password_hashes_waiting (\d+)$/m,
}

const EACH_MS = 1_000

export function watch(instances: readonly Watched[], ended: AbortSignal): Watch {
  const most = { connectionsAwaited: 0, hashesWaiting: 0 }
  const seen: Watch = { slowestLivezMs: 0, livezFailures: 0, peakMemoryBytes: 0, most }
  const ask = startAsking(ended)
  for (const instance of instances) {
    void look(instance, ask, seen, ended)
    void readQueues(instance, ask, seen, ended)
  }
  return seen
}

async function look(instance: Watched, ask: AskOps, seen: Watch, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await sleep(EACH_MS)
    if (!instance.isUp()) continue
    for (const pid of instance.processes())
      seen.peakMemoryBytes = Math.max(seen.peakMemoryBytes, peakMemoryOf(pid) ?? 0)
    const { text, tookMs } = await ask(instance, '/livez')
    // It can have been ended meanwhile.
    if (!instance.isUp()) continue
    seen.slowestLivezMs = Math.max(seen.slowestLivezMs, tookMs)
    if (text === null) seen.livezFailures += 1
  }
}

async function readQueues(
  instance: Watched,
  ask: AskOps,
  { most }: Watch,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    await sleep(EACH_MS)
    const { text: metrics } = await ask(instance, '/metrics')
    for (const name of ['connectionsAwaited', 'hashesWaiting'] as const) {
      const [, count = 0] = QUEUES[name].exec(metrics ?? '') ?? []
      most[name] = Math.max(most[name], Number(count))
    }
  }
}

type AskOps = (instance: Watched, path: string) => Promise<Reply>

function startAsking(ended: AbortSignal): AskOps {
  const thread = new Worker(new URL('./ask-thread.ts', import.meta.url))
  // The run tells when it ends; without it, nothing waits for an answer.
  thread.unref()
  ended.addEventListener('abort', () => void thread.terminate())
  const waiting = new Map<number, (reply: Reply) => void>()
  thread.on('message', (reply: Reply) => {
    waiting.get(reply.id)?.(reply)
    waiting.delete(reply.id)
  })
  let lastId = 0
  return async ({ opsUrl }, path) => {
    lastId += 1
    const question: Question = { id: lastId, url: `${opsUrl}${path}` }
    const { promise, resolve } = Promise.withResolvers<Reply>()
    waiting.set(question.id, resolve)
    thread.postMessage(question)
    return await promise
  }
}
