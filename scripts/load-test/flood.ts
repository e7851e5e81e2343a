import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'

/** Clients that sign in over and over, in a process of their own; those turned away wait as they are told. */

const { TARGET_URL = '', SIGN_IN = '', CLIENTS = '0' } = process.env
const clients = Number(CLIENTS)
const pool = new Pool(TARGET_URL, { connections: clients })
const answered: Record<string, number> = {}

await Promise.all(
  Array.from({ length: clients }, async () => {
    for (;;) {
      const { statusCode, headers, body } = await pool.request({
        method: 'POST',
        path: '/api/auth/login',
        headers: { 'content-type': 'application/json' },
        body: SIGN_IN,
      })
      await body.dump()
      answered[statusCode] = (answered[statusCode] ?? 0) + 1
      process.send?.(answered)
      if (statusCode === 503) await sleep(Number(headers['retry-after']) * 1000)
    }
  }),
)
