import { createHmac } from 'node:crypto'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'

/**
 * How fast a running service refreshes sessions and takes in events: closed loop, so each connection sends
 * its next request when the last was answered. Start the service with RATE_LIMIT_SCALE=100000.
 */

const { values } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:3000' },
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '10' },
  },
})
const connections = Number(values.connections)
const { COMPANY_ID: companyId = '', EMAIL: email = '', PASSWORD: password = '' } = process.env
if (!companyId || !email || !password) {
  console.error('Set COMPANY_ID, EMAIL and PASSWORD in the environment, as the service printed them.')
  process.exit(1)
}

const pool = new Pool(values.url, { connections, pipelining: 1 })

async function post(path: string, headers: Record<string, string>, body: string | null = null) {
  const { statusCode, body: answer } = await pool.request({
    method: 'POST',
    path: `/api${path}`,
    headers,
    body,
  })
  const text = await answer.text()
  if (statusCode >= 300) throw new Error(`${path} answered ${statusCode}: ${text}`)
  return JSON.parse(text)
}

const login = () =>
  post('/auth/login', { 'content-type': 'application/json' }, JSON.stringify({ companyId, email, password }))

/** Runs one loop a connection and prints the rate; each loop gets a function to call again and again. */
async function measure(name: string, prepare: (index: number) => Promise<() => Promise<void>>) {
  const loops: (() => Promise<void>)[] = []
  for (let index = 0; index < connections; index += 1) loops.push(await prepare(index))
  const until = performance.now() + Number(values.seconds) * 1000
  const latencies: number[] = []
  const started = performance.now()
  await Promise.all(
    loops.map(async (once) => {
      while (performance.now() < until) {
        const from = performance.now()
        await once()
        latencies.push(performance.now() - from)
      }
    }),
  )
  const elapsed = (performance.now() - started) / 1000
  latencies.sort((a, b) => a - b)
  const at = (share: number) => (latencies[Math.floor(latencies.length * share)] ?? 0).toFixed(1)
  const rate = Math.round(latencies.length / elapsed)
  console.log(
    `${name.padEnd(8)} ${rate}/s   p50 ${at(0.5)} ms   p99 ${at(0.99)} ms   ${connections} connections`,
  )
}

console.log(`${cpus().length} cores (${cpus()[0]?.model}), load generator and Postgres on the same machine`)

await measure('refresh', async () => {
  let { refreshToken } = await login()
  return async () => {
    const next = await post('/auth/refresh', { authorization: `Bearer ${refreshToken}` })
    refreshToken = next.refreshToken
  }
})

const { accessToken } = await login()
const { secret } = await post('/auth/webhook-secret/regenerate', { authorization: `Bearer ${accessToken}` })
const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
const run = process.pid.toString(36) + Math.floor(performance.timeOrigin).toString(36)

await measure('ingest', async (index) => {
  let count = 0
  return async () => {
    const id = `${run}-${index}-${count++}`
    const timestamp = String(Math.floor(Date.now() / 1000))
    const body = JSON.stringify({ type: 'payment.created', data: { amount: 1250, note: 'x'.repeat(400) } })
    const tag = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
    await post(
      '/events/ingest',
      {
        'content-type': 'application/json',
        'x-company-id': companyId,
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${tag}`,
      },
      body,
    )
  }
})

await pool.close()
