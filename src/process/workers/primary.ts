import cluster, { type Worker } from 'node:cluster'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { AggregatorRegistry, Counter, type Registry } from 'prom-client'
import { Problem } from '../../errors.ts'
import type { LogStream } from '../../http/log-stream.ts'
import type { Log } from '../../http/logs.ts'
import type { System } from '../../system.ts'
import type { FromPrimary, FromWorker, Metrics, Urls } from './worker.ts'

/** The primary's side of its workers: starts them, replaces those that die, and gathers their log lines and metrics. */

/** Before a worker is replaced; doubled after each one that dies young, so that what cannot start does not spin. */
const PAUSE_MS = 500
const LONGEST_PAUSE_MS = 30_000
const YOUNG_MS = 60_000
const METRICS_MS = 1_000
const MAX_DEPARTED = 8

type Env = Record<string, string | undefined>

interface Options {
  /** Of each worker, beside that of this process. */
  envs: Env[]
  system: Pick<System, 'elapsed'>
  registry: Registry
  logStream: LogStream
  log: Pick<Log, 'error'>
}

export interface Workers {
  /** Resolves when one of them serves. With 0, the first chooses a port. @throws Problem if one fails before */
  start(ports: Ports): Promise<Urls>
  isServing(): boolean
  /** The text of all metrics: the sums of the workers', and of `own`. */
  metrics(own: Registry): Promise<string>
  /** Resolves when all of them have ended. */
  drain(): Promise<void>
  kill(): void
}

/** By their variables. */
interface Ports {
  PORT: number
  PLATFORM_PORT: number
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

export function createWorkers({ envs, system, registry, logStream, log }: Options): Workers {
  const states = new Set<State>()
  const served = Promise.withResolvers<Urls>()
  let hasServed = false
  let ports: Ports = { PORT: 0, PLATFORM_PORT: 0 }
  /** The counters of workers that have ended, by sums of several: a sum must not go down. */
  let departed: Metrics[] = []
  let isEnding = false
  const deaths = new Counter({
    name: 'gatehouse_worker_deaths_total',
    help: 'Workers that died, each of which is replaced',
    registers: [registry],
  })

  function fork(env: Env, pauseMs: number): void {
    const worker = cluster.fork({
      ...env,
      PORT: String(ports.PORT),
      PLATFORM_PORT: String(ports.PLATFORM_PORT),
    })
    const startedAt = system.elapsed()
    const state: State = { worker, env, pauseMs, startedAt, isServing: false, told: [], onTold: [] }
    states.add(state)
    relayLines(worker.process.stdout, (lines) => logStream.write(lines))
    worker.on('message', (message: FromWorker) => receive(state, message))
    worker.on('error', () => {
      // A message to a worker that has just ended, unless the process was never there.
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
      if (isEnding) send(state, { type: 'drain' })
    }
  }

  async function bury(state: State, code: number | null, signal: string | null): Promise<void> {
    if (!states.delete(state)) return
    const { worker, env, told, startedAt } = state
    departed = [...departed, told.filter(isCumulative)]
    if (departed.length > MAX_DEPARTED) void sumUpDeparted()
    if (isEnding) return
    if (!hasServed && code)
      return served.reject(new Problem('unavailable', 'A worker could not start; it has said why.'))
    const livedMs = Math.round(system.elapsed() - startedAt)
    const replacedInMs = livedMs < YOUNG_MS ? Math.min(LONGEST_PAUSE_MS, state.pauseMs * 2) : PAUSE_MS
    const context = { workerPid: worker.process.pid, code, signal, livedMs, replacedInMs }
    deaths.inc()
    log.error(context, 'a worker died and is replaced')
    await sleep(replacedInMs)
    replace(env, replacedInMs)
  }

  function replace(env: Env, pauseMs: number): void {
    if (isEnding) return
    try {
      fork(env, pauseMs)
    } catch (error) {
      log.error({ err: error }, 'a worker cannot be started')
      setTimeout(() => replace(env, pauseMs), LONGEST_PAUSE_MS).unref()
    }
  }

  async function sumUpDeparted(): Promise<void> {
    const { length } = departed
    const sum = await AggregatorRegistry.aggregate(departed).getMetricsAsJSON()
    departed = [sum, ...departed.slice(length)]
  }

  /** One that does not answer in time counts with what it told before. */
  async function askForMetrics(state: State): Promise<Metrics> {
    const told = new Promise<void>((resolve) => state.onTold.push(resolve))
    send(state, { type: 'metrics' })
    await Promise.race([told, sleep(METRICS_MS, undefined, { ref: false })])
    return state.told
  }

  return {
    async start(chosen) {
      ports = chosen
      cluster.setupPrimary({ stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
      const first = chosen.PORT === 0 || chosen.PLATFORM_PORT === 0 ? 1 : envs.length
      for (const env of envs.slice(0, first)) fork(env, PAUSE_MS / 2)
      const urls = await served.promise
      for (const env of envs.slice(first)) replace(env, PAUSE_MS / 2)
      return urls
    },
    isServing: () => [...states].some(({ isServing }) => isServing),
    async metrics(own) {
      // Before the first wait: one that dies meanwhile must not be counted twice.
      const gone = departed
      const told = await Promise.all([...states].filter(({ isServing }) => isServing).map(askForMetrics))
      const all = [await own.getMetricsAsJSON(), ...gone, ...told]
      return await AggregatorRegistry.aggregate(all).metrics()
    },
    async drain() {
      isEnding = true
      const running = [...states]
      for (const state of running) send(state, { type: 'drain' })
      await Promise.all(running.map(({ worker }) => exitOf(worker)))
    },
    kill() {
      for (const { worker } of states) worker.process.kill('SIGKILL')
    },
  }
}

/** `once` of Node would reject at an error, which a message to a worker that has just ended is. */
function exitOf(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    if (worker.isDead()) resolve()
    else worker.once('exit', () => resolve())
  })
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}

function send({ worker }: State, message: FromPrimary): void {
  if (worker.isConnected()) worker.send(message)
}

/** A gauge of a process that is gone says nothing. */
function isCumulative(metric: object): boolean {
  return 'type' in metric && (metric.type === 'counter' || metric.type === 'histogram')
}

/** Passes on whole lines, so that those of several processes do not mix. A last line that is cut off is lost. */
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
