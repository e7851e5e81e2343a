import { Worker } from 'node:worker_threads'
import type { Estimate, EstimateReply, EstimateRequest } from './password-strength-thread.ts'

/** By zxcvbn, whose work grows at least with the square of the length: of long passwords, both ends count. */

const MAX_SEEN = 24
const IDLE_MS = 10_000

interface Pending {
  resolve(reply: EstimateReply): void
  reject(error: unknown): void
}

interface Thread {
  worker: Worker
  pending: Map<number, Pending>
}

let thread: Thread | undefined
let idleTimer: NodeJS.Timeout | undefined
let lastId = 0

export async function estimate(password: string, hints: string[]): Promise<Estimate> {
  thread ??= start()
  const { worker, pending } = thread
  clearTimeout(idleTimer)
  lastId += 1
  const request: EstimateRequest = { id: lastId, texts: partsOf(password), hints }
  const { promise, resolve, reject } = Promise.withResolvers<EstimateReply>()
  pending.set(request.id, { resolve, reject })
  // The process waits for the answer, but not for an idle thread.
  worker.ref()
  worker.postMessage(request)
  return await promise
}

function partsOf(password: string): string[] {
  const characters = [...password]
  if (characters.length <= MAX_SEEN) return [password]
  return [characters.slice(0, MAX_SEEN), characters.slice(-MAX_SEEN)].map((part) => part.join(''))
}

function start(): Thread {
  const worker = new Worker(new URL('./password-strength-thread.ts', import.meta.url))
  const pending: Thread['pending'] = new Map()
  worker.on('message', (reply: EstimateReply) => {
    pending.get(reply.id)?.resolve(reply)
    pending.delete(reply.id)
    if (pending.size > 0) return
    worker.unref()
    idleTimer = setTimeout(end, IDLE_MS).unref()
  })
  worker.on('error', (error) => {
    thread = undefined
    for (const { reject } of pending.values()) reject(error)
  })
  return { worker, pending }
}

function end(): void {
  void thread?.worker.terminate()
  thread = undefined
}
