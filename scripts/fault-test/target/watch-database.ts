import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

/**
 * Writes to each machine of the database again and again, past all proxies. Returns when one of them acknowledged it, which
 * grows: an instance cannot be back before its database is.
 */
export function watchDatabase(urls: readonly string[], cleanup: AsyncDisposableStack): readonly number[] {
  const writes: number[] = []
  const ended = new AbortController()
  cleanup.defer(() => ended.abort())
  for (const url of urls) void write(url, writes, ended.signal)
  return writes
}

const EACH_MS = 250
const CONNECT_MS = 1_000
/** One that hangs acknowledges nothing. */
const ANSWER_MS = 1_500
/** Is a commit, for which a primary waits until its standby has it. */
const WRITE = `select pg_logical_emit_message(true, 'fault test', '')`

async function write(url: string, writes: number[], ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const connection = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: ANSWER_MS,
    })
    connection.on('error', () => {})
    try {
      for (await connection.connect(); !ended.aborted; await sleep(EACH_MS)) {
        await connection.query(WRITE)
        writes.push(performance.now())
      }
    } catch {}
    // It waits for no answer of a machine that is silent.
    void connection.end().catch(() => {})
    await sleep(EACH_MS)
  }
}
