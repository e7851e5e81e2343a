import { parentPort } from 'node:worker_threads'
import { request } from 'undici'

/** Asks the operations listeners: in a thread of its own, since what other clients do would be counted as time of the answer. */

export interface Question {
  id: number
  url: string
}

export interface Reply {
  id: number
  /** Null if it is not 200, or does not come. */
  text: string | null
  tookMs: number
}

/** Later than this is no answer. */
const TIMEOUT_MS = 5_000

parentPort?.on('message', async ({ id, url }: Question) => {
  const sentAt = performance.now()
  const text = await get(url)
  parentPort?.postMessage({ id, text, tookMs: performance.now() - sentAt } satisfies Reply)
})

async function get(url: string): Promise<string | null> {
  try {
    const { statusCode, body } = await request(url, { headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS })
    const text = await body.text()
    return statusCode === 200 ? text : null
  } catch {
    return null
  }
}
