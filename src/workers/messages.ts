import type { Ask } from '../limits/permits.ts'
import type { Grant } from '../limits/windows.ts'

/** What the primary and its workers tell each other. All are the same version, on one machine. */

/** Metrics as `Registry.getMetricsAsJSON` gives them. */
export type Metrics = object[]

export type FromWorker =
  | { type: 'serving'; url: string }
  | { type: 'ask'; id: number; asks: Ask[] }
  | { type: 'metrics'; id: number; metrics: Metrics }

export type FromPrimary =
  | { type: 'drain' }
  | { type: 'grants'; id: number; grants: Grant[] }
  | { type: 'metrics'; id: number }

/** Answers to questions, by the number of the question. */
export interface Replies<Reply> {
  /** `send` gets the number of the question. The fallback is the answer if nobody is left to give one. */
  ask(send: (id: number) => void, fallback: Reply): Promise<Reply>
  receive(id: number, reply: Reply): void
  /** Answers all open questions with their fallbacks. */
  abandon(): void
}

/** A question that is not answered within `patienceMs` gets its fallback too. */
export function createReplies<Reply>(patienceMs: number): Replies<Reply> {
  const open = new Map<number, { resolve(reply: Reply): void; fallback: Reply; timer: NodeJS.Timeout }>()
  let last = 0

  function receive(id: number, reply: Reply): void {
    const question = open.get(id)
    if (!question) return
    open.delete(id)
    clearTimeout(question.timer)
    question.resolve(reply)
  }

  return {
    ask(send, fallback) {
      last += 1
      const id = last
      return new Promise((resolve) => {
        const timer = setTimeout(() => receive(id, fallback), patienceMs).unref()
        open.set(id, { resolve, fallback, timer })
        send(id)
      })
    },
    receive,
    abandon() {
      for (const [id, { fallback }] of open) receive(id, fallback)
    },
  }
}
