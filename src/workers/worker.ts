import cluster from 'node:cluster'
import type { Registry } from 'prom-client'
import { type Ask, createWorkerPermits, type Permits } from '../limits/permits.ts'
import type { Grant } from '../limits/windows.ts'
import type { System } from '../system.ts'
import { createReplies, type FromPrimary, type FromWorker } from './messages.ts'

/** A worker's end of what it and the primary tell each other. */

interface WorkerEnd {
  permits: Permits
  /** Tells that the worker answers requests. */
  serving(url: string): void
  hasPrimary(): boolean
}

interface Options {
  /** How many workers the machine has. */
  workers: number
  registry: Registry
  system: Pick<System, 'now'>
  /** Called when the primary asks the worker to end, or is gone. */
  onEnd(reason: string): void
}

/** How long a request waits for permits. These limits protect the machine, so it then goes on without. */
const PATIENCE_MS = 1_000

export function openWorkerEnd({ workers, registry, system, onEnd }: Options): WorkerEnd {
  const { worker } = cluster
  if (!worker) throw new Error('this process is no worker')
  const replies = createReplies<Grant[]>(PATIENCE_MS)
  const send = (message: FromWorker) => {
    if (worker.isConnected()) worker.send(message)
    else replies.abandon()
  }
  /** Without an answer, as when the primary is gone, the worker grants what it asks for. */
  const grantAll = (asks: Ask[]) =>
    asks.map(({ count }): Grant => ({ granted: count, left: count, endsAt: system.now() }))

  worker.on('message', (message: FromPrimary) => {
    if (message.type === 'drain') onEnd('the primary asks for it')
    else if (message.type === 'grants') replies.receive(message.id, message.grants)
    else {
      const { id } = message
      void registry.getMetricsAsJSON().then((metrics) => send({ type: 'metrics', id, metrics }))
    }
  })
  // A message that was sent when the primary had just ended. What follows is `disconnect`.
  worker.on('error', () => {})
  worker.on('disconnect', () => {
    // Otherwise Node ends the process at once, and requests with it.
    worker.exitedAfterDisconnect = true
    replies.abandon()
    onEnd('the primary is gone')
  })

  return {
    permits: createWorkerPermits({
      workers,
      ask: (asks) => replies.ask((id) => send({ type: 'ask', id, asks }), grantAll(asks)),
    }),
    serving: (url) => send({ type: 'serving', url }),
    hasPrimary: () => worker.isConnected(),
  }
}
