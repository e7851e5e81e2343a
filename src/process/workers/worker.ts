import cluster from 'node:cluster'
import type { Registry } from 'prom-client'

/** A worker's end of what it and the primary tell each other. Both are the same version, on one machine. */

export type Metrics = object[]

/** Of the listeners that workers share. */
export interface Urls {
  url: string
  platformUrl: string
}

export type FromWorker = ({ type: 'serving' } & Urls) | { type: 'metrics'; metrics: Metrics }
export type FromPrimary = { type: 'drain' } | { type: 'metrics' }

interface WorkerEnd {
  serving(urls: Urls): void
  hasPrimary(): boolean
}

interface Options {
  registry: Registry
  onEnd(reason: string): void
}

export function openWorkerEnd({ registry, onEnd }: Options): WorkerEnd {
  const { worker } = cluster
  if (!worker) throw new Error('this process is no worker')
  const send = (message: FromWorker) => {
    if (worker.isConnected()) worker.send(message)
  }
  worker.on('message', ({ type }: FromPrimary) => {
    if (type === 'drain') onEnd('the primary asks for it')
    else void registry.getMetricsAsJSON().then((metrics) => send({ type, metrics }))
  })
  // Of a message to a primary that has just ended; `disconnect` follows.
  worker.on('error', () => {})
  worker.on('disconnect', () => {
    // Otherwise Node ends the process at once, and requests with it.
    worker.exitedAfterDisconnect = true
    onEnd('the primary is gone')
  })

  return {
    serving: ({ url, platformUrl }) => send({ type: 'serving', url, platformUrl }),
    hasPrimary: () => worker.isConnected(),
  }
}
