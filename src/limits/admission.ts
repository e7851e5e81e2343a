import { createTurnQueue, type Turn } from '../edge/fair-queue.ts'
import { overloaded } from '../errors.ts'

/** Admits costly work, a bounded number of calls at a time, in a fair order. */
export type Admission = ReturnType<typeof createAdmission>

interface Waiting {
  enter(): void
  fail(error: unknown): void
}

interface Options {
  slots: number
  /** The calls that can wait, of known clients and of strangers. Few, since clients give up before a long queue ends. */
  bounds: { max: number; maxPerWiderNetwork: number }
  /** Of the problem when the queue is full. */
  detail?: string
  /** Whether no work can succeed now. Then all calls that wait fail at once. */
  isOutage?(error: unknown): boolean
}

export function createAdmission({ slots, bounds, detail, isOutage = () => false }: Options) {
  const queue = createTurnQueue<Waiting>(bounds)
  let taken = 0

  const hasSlot = (turn: Turn) => taken < slots || !queue.refuses(turn)

  return {
    hasSlot,
    /** @throws Problem overloaded; the reason of the turn's signal, also when the work has ended */
    async run<Result>(turn: Turn, work: () => Promise<Result>): Promise<Result> {
      const { signal } = turn
      if (taken < slots) taken += 1
      else {
        await new Promise<void>((enter, fail) => {
          queue.add(turn, { enter, fail })?.fail(overloaded(detail))
        })
      }
      try {
        signal?.throwIfAborted()
        const result = await work()
        signal?.throwIfAborted()
        return result
      } catch (error) {
        if (isOutage(error)) for (let next = queue.take(); next; next = queue.take()) next.fail(error)
        throw error
      } finally {
        // The next call takes over the slot, so that a new one cannot overtake it.
        const next = queue.take()
        if (next) next.enter()
        else taken -= 1
      }
    },
    /** For a network, before it is looked up whether it is known. @throws Problem overloaded */
    requireShare(network: string): void {
      if (queue.refusesShare(network)) throw overloaded(detail)
    },
    requireSlot(turn: Turn): void {
      if (!hasSlot(turn)) throw overloaded(detail)
    },
    get waiting(): number {
      return queue.size
    },
  }
}
