import type { Operation } from '../drive/load.ts'

/** Picks one of the operations at random each time. The shares add up to 1. */
export function mix(parts: { share: number; operation: Operation }[]): Operation {
  return () => {
    let position = Math.random()
    const part = parts.find(({ share }) => {
      position -= share
      return position < 0
    })
    // Rounding can leave the sum of the shares a little below 1.
    return (part ?? parts[0])?.operation() ?? null
  }
}
