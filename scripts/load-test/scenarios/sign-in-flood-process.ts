import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { JSON_CONTENT } from '../http-client.ts'

/** Runs in a process of its own: clients that sign in over and over, and send the counts of their answers. */

const { TARGET_URL = '', CREDENTIALS = '', CLIENTS = '0' } = process.env
const clients = Number(CLIENTS)
const credentials: unknown[] = JSON.parse(CREDENTIALS)
const pool = new Pool(TARGET_URL, { connections: clients })
/** By status. */
const answers: Record<string, number> = {}

async function signInRepeatedly(body: string): Promise<void> {
  for (;;) {
    const {
      statusCode,
      headers,
      body: answer,
    } = await pool.request({
      method: 'POST',
      path: '/api/auth/login',
      headers: JSON_CONTENT,
      body,
    })
    await answer.dump()
    answers[statusCode] = (answers[statusCode] ?? 0) + 1
    process.send?.(answers)
    if (statusCode === 503) await sleep(Number(headers['retry-after']) * 1000)
  }
}

process.on('disconnect', () => process.exit())
const bodies = Array.from({ length: clients }, (_, n) => JSON.stringify(credentials[n % credentials.length]))
await Promise.all(bodies.map(signInRepeatedly))
