/** A flood in progress. */
export interface Attack {
  /** What it did and what it was answered, such as `sent`, `429`, `503`. */
  counts(): Counts
  stop(): void
}

export type Counts = Record<string, number>

export function count(counts: Counts, name: string, more = 1): void {
  counts[name] = (counts[name] ?? 0) + more
}

/** Several floods as one. */
export function combine(attacks: Attack[]): Attack {
  return {
    counts() {
      const sum: Counts = {}
      for (const attack of attacks)
        for (const [name, more] of Object.entries(attack.counts())) count(sum, name, more)
      return sum
    },
    stop: () => {
      for (const attack of attacks) attack.stop()
    },
  }
}
