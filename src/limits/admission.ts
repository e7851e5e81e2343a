import { availableParallelism } from 'node:os'
import { createPasswordHasher, type HashParameters, type PasswordHasher } from '../crypto/password.ts'
import { widerNetworkOf } from '../edge/network.ts'
import { overloaded } from '../errors.ts'

/** Known clients and strangers have their own queues, served in turn: a flood of strangers gets at most half of the work. */
type Admission = ReturnType<typeof createAdmission>

export interface Applicant {
  network: string
  /** Only if known: it has its own share of the queue. */
  device?: string | undefined
  isKnown: boolean
  /** Aborted when it is too late for the work. */
  signal?: AbortSignal
}

interface Waiting {
  sender: string
  enter(): void
  fail(error: unknown): void
}

interface Options {
  slots: number
  /** In each queue. Few, because clients give up before a long queue ends. */
  maxWaiting: number
  /** From one IPv4 address, IPv6 /48, or known device. */
  maxPerSender?: number
  detail?: string
  /** Whether the error means that no work can succeed. If so, all waiting calls fail. */
  isOutage?(error: unknown): boolean
}

export function createAdmission({
  slots,
  maxWaiting,
  maxPerSender = maxWaiting,
  detail,
  isOutage = () => false,
}: Options) {
  const known: Waiting[] = []
  const strangers: Waiting[] = []
  let lastWasKnown = false
  let taken = 0

  const queueOf = ({ isKnown }: Applicant) => (isKnown ? known : strangers)
  const senderOf = ({ device, network }: Applicant) => device ?? widerNetworkOf(network)

  function hasSlot(applicant: Applicant): boolean {
    if (taken < slots) return true
    const queue = queueOf(applicant)
    const sender = senderOf(applicant)
    return queue.length < maxWaiting && queue.filter((other) => other.sender === sender).length < maxPerSender
  }

  function requireSlot(applicant: Applicant): void {
    if (!hasSlot(applicant)) throw overloaded(detail)
  }

  function takeNext(): Waiting | undefined {
    lastWasKnown = !lastWasKnown
    const [first, second] = lastWasKnown ? [known, strangers] : [strangers, known]
    return first.shift() ?? second.shift()
  }

  return {
    /** @throws Problem overloaded */
    requireSlot,
    /** @throws Problem overloaded, and the reason of the applicant's signal, even after the work */
    async run<Result>(applicant: Applicant, work: () => Promise<Result>): Promise<Result> {
      const { signal } = applicant
      requireSlot(applicant)
      if (taken < slots) taken += 1
      else {
        await new Promise<void>((enter, fail) => {
          queueOf(applicant).push({ sender: senderOf(applicant), enter, fail })
        })
      }
      try {
        signal?.throwIfAborted()
        const result = await work()
        signal?.throwIfAborted()
        return result
      } catch (error) {
        if (isOutage(error)) for (const { fail } of [...known.splice(0), ...strangers.splice(0)]) fail(error)
        throw error
      } finally {
        // The next call takes over the slot, so that a new one cannot overtake it.
        const next = takeNext()
        if (next) next.enter()
        else taken -= 1
      }
    },
    get waiting(): number {
      return known.length + strangers.length
    },
  }
}

export interface LimitedHasher extends Pick<Admission, 'requireSlot' | 'waiting'> {
  admit(applicant: Applicant): PasswordHasher
}

/** Each hash takes a core and a thread of libuv. Estimates take longer, so they have their own thread and queue. */
export async function createLimitedHasher(
  concurrency = availableParallelism(),
  maxWaiting = 128 * concurrency,
  parameters?: HashParameters,
): Promise<LimitedHasher> {
  const hasher = await createPasswordHasher(parameters)
  const bounds = { maxWaiting, maxPerSender: maxWaiting / 4 }
  const hashes = createAdmission({
    ...bounds,
    slots: concurrency,
    detail: 'Too many passwords are being checked. Retry after 1 second.',
  })
  const estimates = createAdmission({
    ...bounds,
    slots: 1,
    detail: 'Too many new passwords are being checked. Retry after 1 second.',
  })
  return {
    admit: (applicant) => ({
      ...hasher,
      hash: (password) => hashes.run(applicant, () => hasher.hash(password)),
      verify: (phc, password) => hashes.run(applicant, () => hasher.verify(phc, password)),
      estimate: (password, hints) => estimates.run(applicant, () => hasher.estimate(password, hints)),
    }),
    requireSlot: hashes.requireSlot,
    get waiting() {
      return hashes.waiting
    },
  }
}
