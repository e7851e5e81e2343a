import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../../src/workers/free-port.ts'
import { findServicePlaces, type Place } from '../../kit/places.ts'
import { childrenOf } from '../../kit/processes.ts'
import { startService } from '../../kit/service.ts'

/** One instance of the service, at the same ports whenever it starts. */
export interface Instance {
  name: string
  /** Without a path. */
  url: string
  opsUrl: string
  platformUrl: string
  /** Whether it should answer: false from its end until it has started again. */
  isUp(): boolean
  /** Its primary, which is all of it with one worker, and its workers. */
  processes(): number[]
  start(disorder?: Disorder): Promise<void>
  /** By SIGTERM; resolves when it has ended. */
  stop(): Promise<void>
}

/** What is not as it should be from its start. */
export interface Disorder {
  /** How wrong its clock is. */
  clockShiftMs?: number
  /** Nobody reads its log. */
  isLogClosed?: boolean
}

interface Options {
  name: string
  folder: string
  logFolder: string
  /** The project whose service it is; this one by default. */
  project: string | undefined
  variables: Record<string, string>
}

const CLOCK = new URL('shift-clock.ts', import.meta.url)
const PATIENCE_MS = 20_000
const START_MS = 60_000
const LOOK_MS = 50

/** The variables of a process whose clock is wrong by so much. */
export const clockShiftedBy = (ms: number) => ({ NODE_OPTIONS: `--import=${CLOCK}?ms=${ms}` })

/** Starts it. */
export async function openInstance(
  { name, folder, logFolder, project, variables }: Options,
  cleanup: AsyncDisposableStack,
): Promise<Instance> {
  const { env, address, ops, platform, places } = await findServicePlaces()
  let running: { pid: number | undefined; end: AsyncDisposableStack } | null = null
  let starts = 0

  /** Again and again, as systemd does: without its database it does not start. */
  async function start(disorder?: Disorder): Promise<void> {
    for (const deadline = performance.now() + START_MS; ; ) {
      try {
        return await startOnce(disorder)
      } catch (error) {
        if (performance.now() > deadline || cleanup.disposed) throw error
      }
    }
  }

  async function startOnce({ clockShiftMs = 0, isLogClosed }: Disorder = {}): Promise<void> {
    for (const place of places) await untilFree(place)
    starts += 1
    const end = cleanup.use(new AsyncDisposableStack())
    const clock = clockShiftMs === 0 ? {} : clockShiftedBy(clockShiftMs)
    const service = await startService(
      {
        variables: { ...variables, ...env, ...clock, DATA_DIR: join(folder, name) },
        logFile: join(logFolder, `${name}-${starts}.log`),
        folder: project,
        isLogClosed,
      },
      end,
    )
    running = { pid: service.pid, end }
  }

  async function stop(): Promise<void> {
    const stopping = running
    running = null
    await stopping?.end.disposeAsync()
  }

  await start()
  return {
    name,
    url: address,
    opsUrl: ops,
    platformUrl: platform,
    isUp: () => running !== null,
    processes: () => (running?.pid === undefined ? [] : [running.pid, ...childrenOf(running.pid)]),
    start,
    stop,
  }
}

/** Workers leave soon after their primary was killed. */
async function untilFree(place: Place): Promise<void> {
  for (const deadline = performance.now() + PATIENCE_MS; ; await sleep(LOOK_MS)) {
    try {
      await findFreePort(place)
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
    }
  }
}
