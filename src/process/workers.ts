import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { AggregatorRegistry, Counter, type Registry } from 'prom-client'
import { Problem } from '../errors.ts'
import type { LogStream } from '../http/log-stream.ts'
import type { Log } from '../http/logs.ts'
import type { System } from '../system.ts'

/** With WORKERS above 1, the primary starts the workers, replaces those that exit, and collects their logs and metrics. */

/** Delay before a worker is replaced. It doubles after each early exit, so that a worker that cannot start does not spin. */
const PAUSE_MS = 500
const LONGEST_PAUSE_MS = 30_000
const YOUNG_MS = 60_000
const METRICS_MS = 1_000
const MAX_DEPARTED = 8

type Env = Record<string, string | undefined>
type Metrics = object[]

interface Urls {
  url: string
  platformUrl: string
}

type FromWorker = ({ type: 'serving' } & Urls) | { type: 'metrics'; metrics: Metrics }
type FromPrimary = { type: 'drain' } | { type: 'metrics' }

interface Options {
  envs: Env[]
  system: Pick<System, 'elapsed'>
  registry: Registry
  logStream: LogStream
  log: Pick<Log, 'error'>
  signal: AbortSignal
}

interface State {
  worker: Worker
  env: Env
  pauseMs: number
  startedAt: number
  isServing: boolean
  told: Metrics
  onTold: (() => void)[]
}

export function createWorkers({ envs, system, registry, logStream, log, signal }: Options) {
  const states = new Set<State>()
  const served = Promise.withResolvers<Urls>()
  let hasServed = false
  let ports = { PORT: 0, PLATFORM_PORT: 0 }
  /** Counters of workers that exited: the totals must never decrease. */
  let departed: Metrics[] = []
  let isEnding = false
  const deaths = new Counter({
    name: 'gatehouse_worker_deaths_total',
    help: 'Workers that exited unexpectedly; each is replaced',
    registers: [registry],
  })

  function fork(env: Env, pauseMs: number): void {
    const { PORT, PLATFORM_PORT } = ports
    const worker = cluster.fork({ ...env, PORT: `${PORT}`, PLATFORM_PORT: `${PLATFORM_PORT}` })
    const startedAt = system.elapsed()
    const state: State = { worker, env, pauseMs, startedAt, isServing: false, told: [], onTold: [] }
    states.add(state)
    relayLines(worker.process.stdout, (lines) => logStream.write(lines))
    worker.on('message', (message: FromWorker) => receive(state, message))
    worker.on('error', () => {
      // With a pid, the error only means that a message was too late for a worker that just exited.
      if (worker.process.pid === undefined) void bury(state, null, null)
    })
    worker.once('exit', (code, signal) => void bury(state, code, signal))
  }

  function receive(state: State, message: FromWorker): void {
    if (message.type === 'metrics') {
      state.told = message.metrics
      for (const notify of state.onTold.splice(0)) notify()
    } else {
      state.isServing = true
      hasServed = true
      ports = { PORT: portOf(message.url), PLATFORM_PORT: portOf(message.platformUrl) }
      served.resolve(message)
      if (isEnding) send(state.worker, { type: 'drain' })
    }
  }

  async function bury(state: State, code: number | null, signal: string | null): Promise<void> {
    if (!states.delete(state)) return
    const { worker, env, told, startedAt } = state
    departed = [...departed, told.filter(isCumulative)]
    if (departed.length > MAX_DEPARTED) void sumUpDeparted()
    if (isEnding) return
    if (!hasServed && code)
      return served.reject(new Problem('unavailable', 'A worker could not start. See its error above.'))
    const livedMs = Math.round(system.elapsed() - startedAt)
    const replacedInMs = livedMs < YOUNG_MS ? Math.min(LONGEST_PAUSE_MS, state.pauseMs * 2) : PAUSE_MS
    const context = { workerPid: worker.process.pid, code, signal, livedMs, replacedInMs }
    deaths.inc()
    log.error(context, 'worker exited, starting a replacement')
    await sleep(replacedInMs)
    replace(env, replacedInMs)
  }

  function replace(env: Env, pauseMs: number): void {
    if (isEnding) return
    try {
      fork(env, pauseMs)
    } catch (error) {
      log.error({ err: error }, 'worker could not be started')
      setTimeout(() => replace(env, pauseMs), LONGEST_PAUSE_MS).unref()
    }
  }

  async function sumUpDeparted(): Promise<void> {
    const { length } = departed
    const sum = await AggregatorRegistry.aggregate(departed).getMetricsAsJSON()
    departed = [sum, ...departed.slice(length)]
  }

  async function askForMetrics(state: State): Promise<Metrics> {
    const told = new Promise<void>((resolve) => state.onTold.push(resolve))
    send(state.worker, { type: 'metrics' })
    await Promise.race([told, sleep(METRICS_MS, undefined, { ref: false })])
    return state.told
  }

  async function drain(): Promise<void> {
    isEnding = true
    const running = [...states].map(({ worker }) => worker)
    for (const worker of running) send(worker, { type: 'drain' })
    await Promise.all(running.map(exitOf))
  }

  return {
    /** Resolves when one worker serves. @throws Problem if one fails before that, or the reason of `signal` */
    async start(chosen: typeof ports): Promise<Urls> {
      ports = chosen
      cluster.setupPrimary({ stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
      const first = chosen.PORT === 0 || chosen.PLATFORM_PORT === 0 ? 1 : envs.length
      for (const env of envs.slice(0, first)) fork(env, PAUSE_MS / 2)
      const urls = await Promise.race([served.promise, once(signal, 'abort').then(() => null)])
      if (!urls || signal.aborted) {
        await drain()
        throw signal.reason
      }
      for (const env of envs.slice(first)) replace(env, PAUSE_MS / 2)
      return urls
    },
    isServing: () => [...states].some(({ isServing }) => isServing),
    async metrics(own: Registry): Promise<string> {
      // Read before the first await: a worker that exits during it must not count twice.
      const gone = departed
      const told = await Promise.all([...states].filter(({ isServing }) => isServing).map(askForMetrics))
      const all = [await own.getMetricsAsJSON(), ...gone, ...told]
      return await AggregatorRegistry.aggregate(all).metrics()
    },
    drain,
    kill() {
      for (const { worker } of states) worker.process.kill('SIGKILL')
    },
  }
}

export function openWorkerEnd({ registry, onEnd }: { registry: Registry; onEnd(reason: string): void }) {
  const { worker } = cluster
  if (!worker) throw new Error('this process is not a worker')
  worker.on('message', ({ type }: FromPrimary) => {
    if (type === 'drain') onEnd('the primary requested it')
    else void registry.getMetricsAsJSON().then((metrics) => send(worker, { type, metrics }))
  })
  // A message was too late for a primary that just exited. `disconnect` follows.
  worker.on('error', () => {})
  worker.on('disconnect', () => {
    // Otherwise Node exits immediately and drops the requests in progress.
    worker.exitedAfterDisconnect = true
    onEnd('the primary exited')
  })
  return {
    serving: ({ url, platformUrl }: Urls) => send(worker, { type: 'serving', url, platformUrl }),
    hasPrimary: () => worker.isConnected(),
  }
}

/** Node's `once` would reject on an `error` event, which a message to a worker that just exited causes. */
function exitOf(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    if (worker.isDead()) resolve()
    else worker.once('exit', () => resolve())
  })
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}

function send(worker: Worker, message: FromPrimary | FromWorker): void {
  if (worker.isConnected()) worker.send(message)
}

function isCumulative(metric: object): boolean {
  return 'type' in metric && (metric.type === 'counter' || metric.type === 'histogram')
}

/** Passes on only whole lines, so that the lines of several processes do not mix. */
function relayLines(from: Readable | null, write: (lines: string) => void): void {
  let rest = ''
  from?.setEncoding('utf8').on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1
    if (end === 0) rest += text
    else {
      write(rest + text.slice(0, end))
      rest = text.slice(end)
    }
  })
}
