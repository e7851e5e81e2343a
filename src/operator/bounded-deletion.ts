/** The most rows that one statement deletes, so that its locks are short. */
export const MAX_ROWS = 1_000

/** Repeats a statement until it deletes fewer than `MAX_ROWS`, or the signal aborts; returns how many it deleted. */
export async function deleteAll(
  deleteSome: (max: number) => Promise<number>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let deleted = 0
  for (let last = MAX_ROWS; last === MAX_ROWS && !signal?.aborted; deleted += last) {
    last = await deleteSome(MAX_ROWS)
  }
  return deleted
}
